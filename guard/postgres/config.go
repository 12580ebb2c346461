package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"lockrun/locks"
)

// connectTimeout bounds connecting to one host when nothing else was asked for.
const connectTimeout = 5 * time.Second

// Config says where Postgres is and how to log in there. It holds secrets; what
// it prints does not.
type Config struct {
	conn  *pgx.ConnConfig
	limit time.Duration // of connecting, with all hosts and all ways of asking them
}

// ParseDSN reads a connection string: a URL or key=value pairs, with several
// hosts if need be. PG* variables, the service file and the password file fill
// in what it leaves out, as they do for psql.
//
// No error holds any part of a password, nor the connection string. A
// *[locks.SetupError] refuses a password file that others can read; every other
// error is a mistake in the connection string.
func ParseDSN(dsn string) (*Config, error) {
	if err := checkURL(dsn); err != nil {
		return nil, err
	}
	if err := checkFiles(dsn); err != nil {
		return nil, err
	}
	conn, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, parseError(err)
	}
	if err := checkKeywords(dsn, conn); err != nil {
		return nil, err
	}
	if err := checkPassfile(dsn, conn); err != nil {
		return nil, err
	}
	// One round trip for each call, and no prepared statement that a pooler
	// could hand to somebody else.
	conn.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn.StatementCacheCapacity, conn.DescriptionCacheCapacity = 0, 0
	c := &Config{conn: conn}
	if len(c.hosts()) > 1 && conn.ValidateConnect == nil {
		conn.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	c.tune(connectTimeout, connectTimeout)
	return c, nil
}

// checkURL refuses URLs in which a part of the password would be taken for a
// host, a database or a keyword, and shown as such.
func checkURL(dsn string) error {
	rest, isURL := strings.CutPrefix(dsn, "postgres://")
	if !isURL {
		rest, isURL = strings.CutPrefix(dsn, "postgresql://")
	}
	if !isURL {
		return nil
	}
	at := strings.IndexByte(rest, '@')
	if at >= 0 && (strings.Contains(rest[:at], "/") || strings.Contains(rest[at+1:], "@")) {
		return errors.New("the Postgres URL has an @ where none belongs: write special characters of user and password as %XX (@ is %40, / is %2F)")
	}
	return nil
}

// safeParseErrors are the beginnings of what pgx says without quoting anything
// that could be a piece of a password.
var safeParseErrors = []string{
	"failed to configure TLS", "failed to read service", "could not match", "invalid port", "invalid connect_timeout",
	"invalid sslcertmode", "invalid require_auth", "unknown target_session_attrs", "unknown channel_binding",
	"invalid min_protocol_version", "invalid max_protocol_version", "min_protocol_version cannot",
}

// parseError keeps the safe part of pgx's error, which quotes the connection
// string and can only guess where the password in a malformed one is.
func parseError(err error) error {
	text := err.Error()
	if i := strings.LastIndex(text, "`: "); i >= 0 {
		text = text[i+len("`: "):]
	}
	for _, safe := range safeParseErrors {
		if strings.HasPrefix(text, safe) {
			return fmt.Errorf("the Postgres connection string: %s", oneLine(text))
		}
	}
	return errors.New("the Postgres connection string can't be read: it must be postgres://user:password@host:port/database, " +
		"with special characters written as %XX, or key=value pairs, with values that hold blanks in single quotes")
}

// checkPassfile refuses a password from a file that others can read. libpq
// does so too; pgx does not look.
func checkPassfile(dsn string, conn *pgx.ConnConfig) error {
	if conn.Password == "" || conn.Password == os.Getenv("PGPASSWORD") {
		return nil
	}
	if u, err := url.Parse(dsn); err == nil && u.User != nil {
		if inURL, _ := u.User.Password(); inURL == conn.Password {
			return nil // the usual case, without reading the string once more
		}
	}
	without, err := pgx.ParseConfig(withKeyword(dsn, "passfile", os.DevNull))
	if err != nil || without.Password != "" {
		return nil // it is in the string, the environment or the service file
	}
	path := keyword(dsn, "passfile")
	if path == "" {
		path = os.Getenv("PGPASSFILE")
	}
	if path == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil // then pgx has not found the file either
		}
		path = filepath.Join(home, ".pgpass")
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("read the Postgres password file: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return &locks.SetupError{
			What: "Postgres password file",
			Err:  fmt.Errorf("group or others can use %q (mode %04o)", path, info.Mode().Perm()),
			Next: fmt.Sprintf("chmod 600 %s", path),
		}
	}
	return nil
}

// withKeyword adds a keyword to a connection string; the last one counts.
func withKeyword(dsn, key, value string) string {
	if !strings.Contains(dsn, "://") {
		return dsn + " " + key + "='" + value + "'"
	}
	sep := "?"
	if strings.Contains(dsn, "?") {
		sep = "&"
	}
	return dsn + sep + key + "=" + url.PathEscape(value)
}

// keyword finds a keyword's value in a connection string, "" if it isn't there;
// the last one counts.
func keyword(dsn, key string) string {
	if strings.Contains(dsn, "://") {
		found := ""
		_, query, _ := strings.Cut(dsn, "?")
		for pair := range strings.SplitSeq(query, "&") {
			name, value, _ := strings.Cut(pair, "=")
			if name, _ = url.PathUnescape(name); name == key {
				found, _ = url.PathUnescape(value) // a + is a +, as in libpq
			}
		}
		return found
	}
	if !strings.Contains(dsn, key) {
		return "" // the usual case, without an expression to compile
	}
	all := regexp.MustCompile(`(?:^|\s)`+key+`\s*=\s*(?:'((?:[^'\\]|\\.)*)'|(\S*))`).FindAllStringSubmatch(dsn, -1)
	if all == nil {
		return ""
	}
	m := all[len(all)-1]
	return regexp.MustCompile(`\\(.)`).ReplaceAllString(m[1]+m[2], "$1")
}

// hosts lists the servers in the order in which they are tried.
func (c *Config) hosts() []string {
	var hosts []string
	seen := map[string]bool{}
	add := func(host string, port uint16) {
		at := net.JoinHostPort(host, strconv.Itoa(int(port)))
		if strings.HasPrefix(host, "/") {
			at = host + ":" + strconv.Itoa(int(port))
		}
		if !seen[at] {
			seen[at] = true
			hosts = append(hosts, at)
		}
	}
	add(c.conn.Host, c.conn.Port)
	for _, f := range c.conn.Fallbacks {
		add(f.Host, f.Port)
	}
	return hosts
}

// Address tells people where this is, without secrets: "127.0.0.1:5432/db".
func (c *Config) Address() string {
	return strings.Join(c.hosts(), ",") + "/" + c.conn.Database
}

// String is [Config.Address]; with GoString it keeps secrets out of any print.
func (c *Config) String() string { return c.Address() }

// GoString is [Config.Address].
func (c *Config) GoString() string { return c.Address() }

// what names the server in errors.
func (c *Config) what() string { return "Postgres at " + c.Address() }

// tune bounds connecting: limit for all hosts together, and unanswered data:
// userTimeout until the kernel gives a connection up.
func (c *Config) tune(limit, userTimeout time.Duration) {
	each := limit
	if n := len(c.hosts()); n > 1 {
		each = limit * 2 / 3 / time.Duration(n) // the last host gets its turn within limit
	}
	if c.conn.ConnectTimeout <= 0 || c.conn.ConnectTimeout > each {
		c.conn.ConnectTimeout = each
	}
	d := dialer(userTimeout)
	c.conn.DialFunc = d.DialContext
	c.limit = limit
	timeout := c.conn.ConnectTimeout
	c.conn.LookupFunc = func(ctx context.Context, host string) ([]string, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return lookUp(ctx, host, net.DefaultResolver.LookupHost)
	}
}

// lookUp ends with ctx: a resolver that waits for its server looks at the deadline
// alone, and not at that before its own turn is over.
func lookUp(ctx context.Context, host string, resolve func(context.Context, string) ([]string, error)) ([]string, error) {
	type answer struct {
		addresses []string
		err       error
	}
	answered := make(chan answer, 1)
	go func() {
		addresses, err := resolve(ctx, host)
		answered <- answer{addresses, err}
	}()
	select {
	case a := <-answered:
		return a.addresses, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// dial opens a connection within the limit.
func (c *Config) dial(ctx context.Context, notice pgconn.NoticeHandler) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	cfg := c.conn.Copy()
	cfg.OnNotice = notice
	return pgx.ConnectConfig(ctx, cfg)
}

// tuned is a copy for a run with timing t.
func (c *Config) tuned(t locks.Timing) *Config {
	copied := &Config{conn: c.conn.Copy()}
	copied.tune(t.Call, max(t.TTL/3, time.Second))
	return copied
}

// Connect opens a connection for a command that needs one of its own. The
// caller closes it. Errors are as in [Config.Fault].
func (c *Config) Connect(ctx context.Context) (*pgx.Conn, error) {
	conn, err := c.dial(ctx, nil)
	if err != nil {
		return nil, c.Fault(err)
	}
	return conn, nil
}
