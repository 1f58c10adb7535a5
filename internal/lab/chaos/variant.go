package main

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/sources"
)

// patch is a change of one source file: text is put behind anchor, which must stand there
// once.
type patch struct{ file, anchor, text string }

const (
	// clockVariable is the environment variable that names the file with the offset of
	// the wall clock, in seconds.
	clockVariable = "CHAOS_CLOCK"
	// panicHeader is the header of a request whose handler panics.
	panicHeader = "Chaos-Panic"
)

// patches make time.Now of the standard library, and so of all that the gateway is made
// of, tell a wall clock that somebody has set. The monotonic clock stays as it is, as
// with a real jump of the clock. They also make the handler of a request with panicHeader
// panic.
var patches = []patch{
	{
		"time/time.go", "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n",
		"\tsec += wallOffset.Load()\n",
	},
	{
		"time/time.go", "\nfunc now() (sec int64, nsec int32, mono int64)\n",
		"\nvar wallOffset atomic.Int64\n\nfunc SetWallOffset(seconds int64) { " +
			"wallOffset.Store(seconds) }\n",
	},
	{"time/time.go", "import (\n", "\t\"sync/atomic\"\n"},
	{
		"server/middleware.go", "func (s *Server) bounded(x *exchange.Exchange, r *http.Request) bool {\n",
		"\tif r.Header.Get(\"" + panicHeader + "\") != \"\" {\n\t\tpanic(\"a fault that was made\")\n\t}\n",
	},
}

// clockReader is a file of the gateway's main package that sets the wall clock.
const clockReader = `package main

import (
	"os"
	"strconv"
	"strings"
	"time"
)

func init() {
	go func() {
		for range time.Tick(20 * time.Millisecond) {
			text, _ := os.ReadFile(os.Getenv("` + clockVariable + `"))
			if seconds, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil {
				time.SetWallOffset(seconds)
			}
		}
	}()
}
`

// buildVariant compiles a gateway whose wall clock can be set and whose handlers can be
// made to panic, which no gateway that is shipped can. The sources stay as they are: the
// compiler is told to read other files in the place of a few. Since one of these is part
// of the standard library, all is compiled anew the first time.
func buildVariant(ctx context.Context, dir string) (program string) {
	root := must.Have(sources.Root())
	library := world.Run(ctx, "", "go", "env", "GOROOT")
	edits := []world.Edit{{
		File:   filepath.Join(root, "cmd", "drawbridge", "zz_clock.go"),
		Change: func(string) string { return clockReader },
	}}
	for _, p := range patches {
		file := page.Either(strings.HasPrefix(p.file, "time/"), filepath.Join(library, "src", p.file),
			filepath.Join(root, p.file))
		edits = append(edits, world.Edit{File: file, Change: p.apply})
	}
	program = filepath.Join(dir, "drawbridge-variant")
	world.BuildWith(ctx, program, dir, edits...)
	return program
}

// apply returns a source with the patch.
func (p patch) apply(text string) string {
	before, after, found := strings.Cut(text, p.anchor)
	must.Be(found && !strings.Contains(after, p.anchor), "%w: %q in %s", errAnchor, p.anchor, p.file)
	return before + p.anchor + p.text + after
}

var errAnchor = errors.New("the text behind which the variant differs does not stand there once")
