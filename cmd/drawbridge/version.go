package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// These are set by the linker (-X main.version=v1.2.3) and never change afterwards. Where
// the repository's history is at hand, commit and date need not be.
var version, commit, date string

// origin is what is known of how this program was built. After orDefaults no field is "".
type origin struct {
	version, commit string
	date            string // of the commit, as in RFC 3339
}

// thisBuild returns the origin of this program: what the linker was told, then what the
// Go command recorded of the repository.
func thisBuild() origin {
	b := origin{version, commit, date}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b.orDefaults()
	}
	if b.version == "" && info.Main.Version != "(devel)" {
		b.version = info.Main.Version
	}
	settings := make(map[string]string, len(info.Settings))
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if b.commit == "" {
		b.commit = settings["vcs.revision"]
		if settings["vcs.modified"] == "true" {
			b.commit += "-dirty" // the working tree had changes; git describe marks it in the same way
		}
	}
	if b.date == "" {
		b.date = settings["vcs.time"]
	}
	return b.orDefaults()
}

// orDefaults puts a word in the place of each field that is not known.
func (b origin) orDefaults() origin {
	if b.version == "" {
		b.version = "devel"
	}
	if b.commit == "" {
		b.commit = "unknown"
	}
	if b.date == "" {
		b.date = "unknown"
	}
	return b
}

// runVersion is the command version.
func runVersion(_ context.Context, args []string, s streams) error {
	flags := newFlags("version", "",
		"Prints the version, the commit it was built from and its date, the version of Go and the protocol "+
			"revisions served.", s)
	if err := parseFlags(flags, args, s); err != nil {
		return err
	}
	b := thisBuild()
	s.say("drawbridge %s\ncommit     %s\ndate       %s\ngo         %s %s/%s\nrevisions  %s\n", b.version,
		b.commit, b.date,
		runtime.Version(), runtime.GOOS, runtime.GOARCH, strings.Join(mcp.Revisions(), " "))
	return nil
}
