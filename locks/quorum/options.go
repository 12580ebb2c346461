package quorum

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"lockrun/locks"
)

// Options is what a quorum is made from.
type Options struct {
	URLs   []string // one for each independent master
	TLS    TLSFiles
	Timing locks.Timing
	Clock  locks.Clock
	// Warn is told, once for each node and kind of fault, that a minority of
	// the nodes is set up wrongly while the lock works. It may be nil. It is
	// called by the goroutine that calls Acquire or Renew.
	Warn func(node string, err error)
	// Debug is told what may help to find a fault. It may be nil. It is called
	// by several goroutines, also after Close, and also with lines of the Redis
	// library that concern another Quorum of this process.
	Debug func(msg string)
}

// TLSFiles are paths of PEM files for rediss URLs. Without CA the system's
// roots are trusted.
type TLSFiles struct{ CA, Cert, Key string }

// OptionError says which option can't be used. Its text holds nothing of a URL
// that may be secret.
type OptionError struct {
	Flag string // "--redis no. 2", "--redis-ca"
	Text string
}

func (e *OptionError) Error() string { return e.Flag + ": " + e.Text }

// parse reads the URLs.
func (o Options) parse() ([]target, error) {
	if len(o.URLs) == 0 {
		return nil, &OptionError{"--redis", "no URL given"}
	}
	targets := make([]target, 0, len(o.URLs))
	for i, text := range o.URLs {
		t, err := parseURL(text)
		if err != nil {
			return nil, &OptionError{entry(i), err.Error()}
		}
		targets = append(targets, t)
	}
	return targets, nil
}

// entry names a URL without showing it.
func entry(i int) string { return fmt.Sprintf("--redis no. %d", i+1) }

// targets reads the URLs and refuses the same address twice: two entries for
// one server would make a majority out of one machine.
func (o Options) targets() ([]target, error) {
	targets, err := o.parse()
	if err != nil {
		return nil, err
	}
	first := map[string]int{}
	for i, t := range targets {
		if j, twice := first[t.key]; twice {
			return nil, &locks.SetupError{
				What: entry(i),
				Err:  fmt.Errorf("%s is the same server as --redis no. %d", t.name, j),
				Next: "list each independent master once; another database of a server is not another master",
			}
		}
		first[t.key] = i + 1
	}
	return targets, nil
}

// tlsConfig loads the files. It returns nil when no target wants TLS.
func (o Options) tlsConfig(targets []target) (*tls.Config, error) {
	wanted := false
	for _, t := range targets {
		wanted = wanted || t.tls
	}
	for _, f := range []struct{ flag, path string }{
		{"--redis-ca", o.TLS.CA}, {"--redis-cert", o.TLS.Cert}, {"--redis-key", o.TLS.Key},
	} {
		if f.path != "" && !wanted {
			return nil, &OptionError{f.flag, "no --redis URL asks for TLS; write rediss:// instead of redis://"}
		}
	}
	if !wanted {
		return nil, nil
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.TLS.CA != "" {
		pem, _, err := locks.ReadRegular(o.TLS.CA)
		if err != nil {
			return nil, &OptionError{"--redis-ca", err.Error()}
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, &OptionError{"--redis-ca", fmt.Sprintf("%q holds no PEM certificate", o.TLS.CA)}
		}
	}
	switch {
	case o.TLS.Cert == "" && o.TLS.Key == "":
		return conf, nil
	case o.TLS.Cert == "":
		return nil, &OptionError{"--redis-key", "needs --redis-cert as well"}
	case o.TLS.Key == "":
		return nil, &OptionError{"--redis-cert", "needs --redis-key as well"}
	}
	certPEM, _, err := locks.ReadRegular(o.TLS.Cert)
	if err != nil {
		return nil, &OptionError{"--redis-cert", err.Error()}
	}
	keyPEM, _, err := locks.ReadRegular(o.TLS.Key)
	if err != nil {
		return nil, &OptionError{"--redis-key", err.Error()}
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, &OptionError{"--redis-cert", err.Error()}
	}
	conf.Certificates = []tls.Certificate{cert}
	return conf, nil
}

// bufferSize is of each buffer of a connection, in bytes. The largest message is
// a script of a few hundred; the library's 32 KiB would be touched in vain.
const bufferSize = 4 << 10

// options are those of a client that opens nothing by itself. All that could repeat a
// request, wait longer than it is told, resolve a name early or ask the server
// something of its own is switched off. A repeated SET NX whose first answer
// got lost would take our own key for another's.
func (t target) options(conf *tls.Config, patience time.Duration) *redis.Options {
	o := &redis.Options{
		Network: t.network, Addr: t.addr, Username: t.user, Password: t.password, DB: t.db,
		Protocol:                 2,
		MaxRetries:               -1, // 0 would mean three
		DialerRetries:            1,
		DialTimeout:              patience, // it bounds name look-up and TLS handshake as well
		ReadTimeout:              patience,
		WriteTimeout:             patience,
		PoolTimeout:              patience,
		ContextTimeoutEnabled:    true,
		PoolSize:                 3,  // a request that was left behind must not block the next
		PipelinePoolSize:         -1, // pipelines share the one connection
		ReadBufferSize:           bufferSize,
		WriteBufferSize:          bufferSize,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if t.tls {
		o.TLSConfig = conf
	}
	return o
}
