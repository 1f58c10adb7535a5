package page

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
)

// Measure measures something and returns the text of its section. With an error beside a
// text, what was measured is not as it must be; with an error alone, it was not measured.
type Measure func(ctx context.Context, r Report) (section string, err error)

// Report is where a measure goes.
type Report struct {
	Path string    // of the page, for charts beside it; "": there is none
	Log  io.Writer // gets how it goes; whoever reads it may have gone, which ends no measure
}

// Say writes how it goes.
func (r Report) Say(format string, args ...any) { _, _ = fmt.Fprintf(r.Log, format, args...) }

// Part is one measure of a lab.
type Part struct {
	Section string // of the page; "": all of it
	// Begin adds its flags, and returns what measures once they are parsed
	Begin func(flags *flag.FlagSet) Measure
}

// Run does what the arguments of a lab say: the part that the first one names, or that
// without a name, with its flags. It writes the section of the part into the page that
// -out names, or to log, with where it comes from below its heading. What else is on the
// page stays as it is.
func Run(ctx context.Context, lab string, parts map[string]Part, args []string, log io.Writer) error {
	return must.Try(func() { runPart(ctx, lab, parts, args, log) })
}

func runPart(ctx context.Context, lab string, parts map[string]Part, args []string, log io.Writer) {
	begun, whole, name := time.Now(), append([]string{lab}, args...), ""
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		name, args = args[0], args[1:]
	}
	known := strings.Join(slices.Sorted(maps.Keys(parts)), ", ")
	part, found := parts[name]
	must.Be(found, "there is no part %q of %s: the parts are %s", name, lab, known)
	flags := flag.NewFlagSet(strings.TrimSpace(lab+" "+name), flag.ContinueOnError)
	r := Report{Log: log}
	flags.StringVar(&r.Path, "out", "", "page that is written, or its section of the same name, with charts beside it; "+
		"the standard output, without charts, when empty")
	measure := part.Begin(flags)
	err := flags.Parse(args)
	must.Be(err == nil, "%w (the parts of %s are %s)", err, lab, known)
	must.Be(flags.NArg() == 0, "%q is no flag of %s", flags.Arg(0), flags.Name())
	origin := Origin(ctx, begun, whole...)
	text, err := measure(ctx, r)
	if text != "" {
		origin += fmt.Sprintf(" It took %v.\n\n", time.Since(begun).Round(time.Second))
		heading, rest, _ := strings.Cut(text, "\n\n")
		if !strings.HasPrefix(heading, "#") {
			heading, rest = "", text
		}
		err = errors.Join(err, WriteSection(log, r.Path, part.Section, heading+"\n\n"+origin+rest))
	}
	must.OK(err)
}
