package quorum

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"lockrun/locks"
)

// target is one --redis URL. Nothing but name may be shown to people.
type target struct {
	name           string // host:port or unix:path
	key            string // equal for two URLs of the same address
	network, addr  string
	user, password string
	db             int
	tls            bool
}

const defaultPort = "6379"

// The parser's own errors are not passed on: they hold the URL with its password.
var (
	errMalformed = errors.New("is not a URL; write redis://USER:PASSWORD@HOST:PORT/DB, rediss://.. or unix:///PATH, with all but letters and digits of the password percent-encoded")
	errFragment  = errors.New("has a '#'; in a password it is written %23")
	errParameter = errors.New("has an unknown parameter; a '?' in a password is written %3F, and the only parameter is db")
	errHost      = errors.New("has no host name or address of one server before the port; '/' and '?' in a password are written %2F and %3F")
	errPort      = errors.New("has a port that is not between 1 and 65535")
	errDatabase  = errors.New("has a database that is not a number; a '/' in a password is written %2F")
	errUnixPath  = errors.New("needs the absolute path of a socket: unix:///PATH")
)

// libraryParams are parameters of the Redis library that would change timeouts,
// retries, or the verification of certificates.
var libraryParams = []string{
	"addr", "client_name", "conn_max_idle_time", "conn_max_lifetime", "dial_timeout", "failing_timeout_seconds",
	"idle_check_frequency", "idle_timeout", "max_active_conns", "max_conn_age", "max_idle_conns", "max_retries",
	"max_retry_backoff", "min_idle_conns", "min_retry_backoff", "pool_fifo", "pool_size", "pool_timeout",
	"protocol", "read_timeout", "skip_verify", "write_timeout",
}

// parseURL reads one URL. Its errors hold nothing of the text.
func parseURL(text string) (target, error) {
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" {
		return target{}, errMalformed
	}
	if strings.Contains(text, "#") {
		return target{}, errFragment
	}
	t := target{user: u.User.Username()}
	t.password, _ = u.User.Password()
	if t.db, err = database(u); err != nil {
		return target{}, err
	}
	switch u.Scheme {
	case "redis", "rediss":
		t.tls = u.Scheme == "rediss"
		return t, t.setHost(u)
	case "unix":
		if u.Host != "" || !path.IsAbs(u.Path) || strings.ContainsFunc(u.Path, unicode.IsControl) {
			return target{}, errUnixPath
		}
		t.network, t.addr = "unix", path.Clean(u.Path)
		t.key = "unix:" + t.addr
		t.name = strings.Map(locks.ShownRune, t.key) // a path may hold any bytes
		return t, nil
	}
	return target{}, errMalformed
}

// setHost checks host and port. A misread password must not become either.
func (t *target) setHost(u *url.URL) error {
	host, port := u.Hostname(), u.Port()
	if port == "" {
		port = defaultPort
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return errPort
	}
	same := strings.ToLower(strings.TrimSuffix(host, "."))
	if ip, err := netip.ParseAddr(host); err == nil {
		same = ip.Unmap().String()
	} else if same == "" || strings.ContainsFunc(host, notInHostName) {
		return errHost
	}
	t.network, t.addr = "tcp", net.JoinHostPort(host, port)
	t.name = t.addr
	t.key = net.JoinHostPort(same, strings.TrimLeft(port, "0"))
	return nil
}

func notInHostName(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_')
}

// database reads the number of the database from the path, or from the only
// parameter that is taken.
func database(u *url.URL) (int, error) {
	params, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return 0, errParameter
	}
	for name := range params {
		switch {
		case name == "db":
		case slices.Contains(libraryParams, name):
			return 0, errors.New("the parameter " + name + " is not taken: timeouts, retries and the checks of TLS are lockrun's own")
		default:
			return 0, errParameter
		}
	}
	texts := params["db"]
	if inPath := strings.Trim(u.Path, "/"); u.Scheme != "unix" && inPath != "" {
		texts = append(texts, inPath)
	}
	if len(texts) == 0 {
		return 0, nil
	}
	n, err := strconv.ParseUint(texts[0], 10, 16)
	if err != nil || len(texts) > 1 {
		return 0, errDatabase
	}
	return int(n), nil
}
