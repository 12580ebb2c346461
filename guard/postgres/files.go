package postgres

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"lockrun/locks"
)

// namedFiles are the keywords that name a file, the variables that do so too, and
// where the file is in the home directory if neither does.
var namedFiles = []struct{ key, env, home string }{
	{"servicefile", "PGSERVICEFILE", ".pg_service.conf"}, // the first: it may name the others
	{"passfile", "PGPASSFILE", ".pgpass"},
	{"sslrootcert", "PGSSLROOTCERT", ".postgresql/root.crt"},
	{"sslcert", "PGSSLCERT", ".postgresql/postgresql.crt"},
	{"sslkey", "PGSSLKEY", ".postgresql/postgresql.key"},
}

// checkFiles refuses files that pgx would read for ever or without end: it opens
// whatever it finds. One that isn't there, or can't be read, it judges itself.
func checkFiles(dsn string) error {
	home, _ := os.UserHomeDir()
	wanted := cmp.Or(keyword(dsn, "service"), os.Getenv("PGSERVICE"))
	var service map[string]string
	for _, f := range namedFiles {
		path := cmp.Or(keyword(dsn, f.key), service[f.key], os.Getenv(f.env))
		if path == "" && home != "" {
			path = filepath.Join(home, f.home)
		}
		if path == "" || path == os.DevNull || f.key == "sslrootcert" && path == "system" || f.key == "servicefile" && wanted == "" {
			continue
		}
		content, _, err := locks.ReadRegular(path)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		case err != nil:
			return fmt.Errorf("the Postgres connection: %s %w", f.key, err)
		case f.key == "servicefile":
			service = serviceSettings(string(content), wanted)
		}
	}
	return nil
}

// serviceSettings is what a service file says of a service.
func serviceSettings(content, name string) map[string]string {
	settings := map[string]string{}
	section := ""
	for line := range strings.Lines(content) {
		line = strings.TrimSpace(line)
		key, value, found := strings.Cut(line, "=")
		switch {
		case strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]"):
			section = line[1 : len(line)-1]
		case found && section == name:
			settings[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	return settings
}
