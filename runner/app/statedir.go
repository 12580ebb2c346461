package app

import (
	"os"
	"path/filepath"
)

// stateDir is where the local store lives: --state-dir, or the place that the
// system has for such data. "" means that there is none.
func stateDir(s *settings, env map[string]string) (string, error) {
	dir, from := s.text("state-dir", "")
	switch {
	case from != fromDefault && !filepath.IsAbs(dir):
		abs, err := filepath.Abs(dir)
		if err != nil {
			return "", usagef("%s: %w", s.where("state-dir"), err)
		}
		return abs, nil
	case from != fromDefault:
		return dir, nil
	case filepath.IsAbs(env["XDG_STATE_HOME"]):
		return filepath.Join(env["XDG_STATE_HOME"], "lockrun"), nil
	case os.Geteuid() == 0:
		return "/var/lib/lockrun", nil
	case filepath.IsAbs(env["HOME"]):
		return filepath.Join(env["HOME"], ".local", "state", "lockrun"), nil
	}
	return "", nil
}
