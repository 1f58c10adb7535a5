package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// version is set by the linker (-X main.version=v1.2.3) and never changes afterwards.
var version string

// origin is what is known of how this program was built.
type origin struct {
	version, commit string
}

func thisBuild() origin {
	b := origin{version: version}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b.orDefaults()
	}
	if b.version == "" && info.Main.Version != "(devel)" {
		b.version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			b.commit = s.Value + b.commit
		case s.Key == "vcs.modified" && s.Value == "true":
			b.commit += " (modified)"
		}
	}
	return b.orDefaults()
}

func (b origin) orDefaults() origin {
	if b.version == "" {
		b.version = "devel"
	}
	if b.commit == "" {
		b.commit = "unknown"
	}
	return b
}

func runVersion(_ context.Context, args []string, s streams) int {
	flags := newFlags("version", "", "Prints the version, the commit it was built from, the version of Go and the protocol revisions served.", s)
	if code, done := parseFlags(flags, args, s); done {
		return code
	}
	b := thisBuild()
	s.say("drawbridge %s\ncommit     %s\ngo         %s %s/%s\nrevisions  %s\n", b.version, b.commit,
		runtime.Version(), runtime.GOOS, runtime.GOARCH, strings.Join(mcp.Revisions(), " "))
	return exitOK
}
