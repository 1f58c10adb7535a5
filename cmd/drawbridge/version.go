package main

import (
	"cmp"
	"context"
	"flag"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// These are set by the linker (-X main.version=v1.2.3) and never change afterwards. Where
// the repository's history is at hand, commit and date need not be.
var version, commit, date string

// origin is what is known of how this program was built. No field is "".
type origin struct {
	version, commit string
	date            string // of the commit, as in RFC 3339
}

// thisBuild returns the origin of this program: what the linker was told, then what the
// Go command recorded of the repository.
func thisBuild() origin {
	settings := map[string]string{}
	built := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		built = strings.TrimPrefix(info.Main.Version, "(devel)")
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
	}
	// that the working tree had changes, git describe marks in the same way
	revision := settings["vcs.revision"] + when(settings["vcs.modified"] == "true", "-dirty")
	return origin{
		cmp.Or(version, built, "devel"), cmp.Or(commit, revision, "unknown"),
		cmp.Or(date, settings["vcs.time"], "unknown"),
	}
}

// versionHelp is the help of the command version.
var versionHelp = help{
	"",
	"Prints the version, the commit it was built from and its date, the version of Go and the protocol " +
		"revisions served.",
}

// versionCommand is the command version.
func versionCommand(*flag.FlagSet) action {
	return func(_ context.Context, _ []string, s streams) error {
		b := thisBuild()
		s.say("drawbridge %s\ncommit     %s\ndate       %s\ngo         %s %s/%s\nrevisions  %s\n", b.version,
			b.commit, b.date,
			runtime.Version(), runtime.GOOS, runtime.GOARCH, strings.Join(mcp.Revisions(), " "))
		return nil
	}
}
