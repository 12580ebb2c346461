package app

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"lockrun/guard"
)

// release is set by the release build: -ldflags "-X lockrun/runner/app.release=v1.2.3".
var release string

// version is the release, or what the build knows of its source.
func version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	revision, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+dirty"
		}
	}
	if revision == "" {
		return "devel"
	}
	return "devel-" + revision[:min(12, len(revision))] + dirty
}

func (in *invocation) versionCommand() *command {
	return &command{
		name: "version", help: versionHelp,
		run: func(*settings) error { return in.printVersion() },
	}
}

func (in *invocation) printVersion() error {
	return in.print(fmt.Sprintf("lockrun %s, schema %d, %s %s/%s\n", version(), guard.SchemaVersion, runtime.Version(), runtime.GOOS, runtime.GOARCH))
}
