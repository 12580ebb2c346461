package postgres

import (
	"crypto/tls"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
)

// pgx takes every keyword that it does not know for a setting of the server.
// The lists below tell apart what libpq means by them: a connection string that
// works for psql works here, and a misspelt one does not silently connect
// somewhere else.

// ignoredKeywords change nothing that matters here: lockrun sets its own
// keepalives, tries the hosts in order, and speaks no GSS.
var ignoredKeywords = []string{
	"keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout",
	"load_balance_hosts", "gssencmode", "gsslib", "gssdelegation", "sslcompression", "authtype", "tty",
}

// refusedKeywords ask for something that would not be done.
var refusedKeywords = []string{
	"hostaddr", "requirepeer", "requiressl", "sslcrl", "sslcrldir", "replication", "scram_client_key", "scram_server_key",
	"sslkeylogfile", "oauth_issuer", "oauth_client_id", "oauth_client_secret", "oauth_scope",
}

// serverSettings are the settings of a session that a connection string may
// reasonably carry. Settings with a dot belong to extensions and are let pass.
var serverSettings = []string{
	"application_name", "backend_flush_after", "bytea_output", "client_encoding", "client_connection_check_interval", "client_min_messages",
	"commit_delay", "datestyle", "deadlock_timeout", "debug_print_plan", "default_tablespace",
	"default_transaction_deferrable", "default_transaction_isolation", "default_transaction_read_only",
	"effective_cache_size", "enable_seqscan", "extra_float_digits", "geqo", "idle_in_transaction_session_timeout",
	"idle_session_timeout", "intervalstyle", "jit", "lc_messages", "lc_monetary", "lc_numeric", "lc_time", "lock_timeout",
	"log_duration", "log_error_verbosity", "log_lock_waits", "log_min_duration_statement", "log_min_error_statement",
	"log_min_messages", "log_statement", "maintenance_work_mem", "max_parallel_workers_per_gather", "options",
	"plan_cache_mode", "role", "row_security", "search_path", "session_replication_role", "statement_timeout",
	"synchronous_commit", "tcp_keepalives_count", "tcp_keepalives_idle", "tcp_keepalives_interval", "temp_buffers",
	"temp_tablespaces", "timezone", "transaction_timeout", "wal_compression", "work_mem",
}

var tlsVersions = map[string]uint16{
	"tlsv1": tls.VersionTLS10, "tlsv1.1": tls.VersionTLS11, "tlsv1.2": tls.VersionTLS12, "tlsv1.3": tls.VersionTLS13,
}

// runIDOption is what --export-pgoptions adds for the jobs of a run. A lockrun
// inside such a job inherits it; poolers refuse it.
var runIDOption = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`-c\s*lockrun\.run_id=\S*\s*`) })

// checkKeywords translates or drops libpq's own keywords among the settings,
// and refuses what neither libpq nor the server would understand.
func checkKeywords(dsn string, conn *pgx.ConnConfig) error {
	params := conn.RuntimeParams
	fallbackName := "lockrun"
	var keys []string
	for key := range params {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		value := params[key]
		switch lower := strings.ToLower(key); {
		case lower == "gssencmode" && value == "require", slices.Contains(refusedKeywords, lower):
			return fmt.Errorf("the Postgres connection string: %s is not supported", lower)
		case slices.Contains(ignoredKeywords, lower), strings.HasPrefix(lower, "pool_"):
			delete(params, key)
		case lower == "fallback_application_name":
			delete(params, key)
			fallbackName = value
		case lower == "ssl_min_protocol_version", lower == "ssl_max_protocol_version":
			delete(params, key)
			if err := limitTLS(conn, lower, value); err != nil {
				return err
			}
		case lower == "options":
			if params[key] = strings.TrimSpace(runIDOption().ReplaceAllString(value, "")); params[key] == "" {
				delete(params, key)
			}
		case strings.Contains(lower, "."), slices.Contains(serverSettings, lower):
		default:
			return unknownKeyword(dsn, key)
		}
	}
	if params["application_name"] == "" {
		params["application_name"] = fallbackName
	}
	params["client_encoding"] = "UTF8" // what this program speaks, whatever the string says
	return nil
}

// unknownKeyword names the keyword, unless it stands behind a password: then it
// may be a piece of one that was not quoted as it should be.
func unknownKeyword(dsn, key string) error {
	plain := regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`).MatchString(key)
	if !plain || regexp.MustCompile(`(?is)password\s*=.*`+regexp.QuoteMeta(key)).MatchString(dsn) {
		return errors.New("the Postgres connection string has an unknown keyword: special characters in a URL are written as %XX, " +
			"and a value with blanks in key=value pairs goes in single quotes")
	}
	return fmt.Errorf("the Postgres connection string: unknown keyword %q", key)
}

// limitTLS applies ssl_min_protocol_version or ssl_max_protocol_version.
func limitTLS(conn *pgx.ConnConfig, key, value string) error {
	version, ok := tlsVersions[strings.ToLower(value)]
	if !ok {
		return fmt.Errorf("the Postgres connection string: %s must be TLSv1.2 or TLSv1.3", key)
	}
	limit := func(c *tls.Config) {
		switch {
		case c == nil:
		case key == "ssl_min_protocol_version":
			c.MinVersion = max(version, tls.VersionTLS12)
		default:
			c.MaxVersion = version
		}
	}
	limit(conn.TLSConfig)
	for _, f := range conn.Fallbacks {
		limit(f.TLSConfig)
	}
	return nil
}
