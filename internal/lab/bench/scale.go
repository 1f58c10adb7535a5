package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// runScale is the command scale: it shows how the gateway's work grows with what it
// holds.
func runScale(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("bench scale", flag.ContinueOnError)
	path := flags.String("out", "", "the page whose section to write; the standard output when empty")
	rounds := flags.Int("rounds", 15, "rounds that are measured at each size; the median counts")
	requests := flags.Int("requests", 500, "requests of each size in a round")
	if err := flags.Parse(args); err != nil {
		return err
	}
	begun := time.Now()
	from := page.Origin(ctx, begun, append([]string{"bench", "scale"}, args...)...)
	lab, err := newScaleLab(ctx)
	if err != nil {
		return err
	}
	defer lab.Close()
	found, err := lab.growth(ctx, *rounds, *requests, out)
	if err != nil {
		return err
	}
	shown := ""
	if *path != "" {
		if shown, err = page.Chart(*path, "bench-scale", found.chart(),
			"How the cost of a request changes with what the gateway holds"); err != nil {
			return err
		}
	}
	return page.WriteSection(out, *path, "bench-scale", found.section(from, *rounds, *requests, shown))
}

// growth is what was measured.
type growth struct {
	figures []scaleFigure // requests
	loads   []loadFigure  // starts and reloads
	session int64         // bytes of resident memory that an open session takes
}

// scaleFigure is one kind of request at several sizes, in microseconds of the gateway's
// processor time.
type scaleFigure struct {
	what   string
	unit   string // of the sizes
	sizes  []int
	costs  [][]float64 // of each size, one in each round
	beside [][]float64 // of ReverseProxy for the same; nil where it does not compare
	goal   goal
}

// goal is what must be true of a figure.
type goal struct {
	within float64 // the part by which the cost at a size may exceed that at the smallest; zero: any
	// at the smallest size it costs no more than ReverseProxy, and at others grows no
	// faster than the size
	beside bool
}

// growth measures everything. Each figure starts its gateways, one for each size, and
// ends them.
func (l *scaleLab) growth(ctx context.Context, rounds, requests int, progress io.Writer) (growth, error) {
	var found growth
	for _, f := range []func() (scaleFigure, error){
		func() (scaleFigure, error) { return l.lists(ctx, rounds, max(1, requests/5), progress) },
		func() (scaleFigure, error) {
			return l.calls(ctx, rounds, requests, progress, "tenants", []int{10, 5000},
				func(size int) contents {
					return contents{tenants: size, servers: 10, tools: 20, rules: 10}
				})
		},
		func() (scaleFigure, error) {
			return l.calls(ctx, rounds, requests, progress, "rules", []int{10, 1000},
				func(size int) contents {
					return contents{tenants: 10, servers: 10, tools: 20, rules: size}
				})
		},
		func() (scaleFigure, error) {
			return l.calls(ctx, rounds, requests, progress, "tools", []int{10, 5000},
				func(size int) contents {
					return contents{tenants: 10, servers: 1, tools: size, rules: 10}
				})
		},
		func() (scaleFigure, error) {
			f, session, err := l.sessions(ctx, rounds, requests, progress)
			found.session = session
			return f, err
		},
	} {
		figure, err := f()
		if err != nil {
			return found, err
		}
		found.figures = append(found.figures, figure)
	}
	for _, files := range []bool{false, true} {
		load, err := l.startAndReload(ctx, contents{
			tenants: 5000, servers: 50, tools: 100, rules: 20,
			files: files,
		}, progress)
		if err != nil {
			return found, err
		}
		found.loads = append(found.loads, load)
	}
	return found, nil
}

// serveAll starts a gateway for each contents.
func (l *scaleLab) serveAll(ctx context.Context, worlds ...contents) ([]*gatewayProcess, error) {
	var all []*gatewayProcess
	for _, w := range worlds {
		g, err := l.serve(ctx, w)
		if err != nil {
			return nil, err
		}
		all = append(all, g)
	}
	return all, nil
}

// lists asks for all tools in one answer, through the gateway and through ReverseProxy.
func (l *scaleLab) lists(ctx context.Context, rounds, requests int, progress io.Writer) (scaleFigure, error) {
	f := scaleFigure{what: "tools/list", unit: "tools", sizes: []int{1000, 5000}, goal: goal{beside: true}}
	gateways, err := l.serveAll(ctx, contents{tenants: 1, servers: 1, tools: f.sizes[0], rules: 1},
		contents{tenants: 1, servers: 1, tools: f.sizes[1], rules: 1})
	if err != nil {
		return f, err
	}
	defer l.end(gateways...)
	var subjects []subject
	for i, g := range gateways {
		subjects = append(subjects, subject{
			what: fmt.Sprintf("tools/list of %d tools", f.sizes[i]), pid: g.pid,
			ask: asks(g.address, "/mcp", mcp.MethodToolsList, "", g.tokens...),
		}, subject{
			what: fmt.Sprintf("tools/list of %d tools, ReverseProxy", f.sizes[i]), pid: l.proxyPID,
			ask: asks(l.proxy, fmt.Sprintf("/tools/%d", f.sizes[i]), mcp.MethodToolsList, ""),
		})
	}
	costs, err := l.compare(ctx, rounds, requests, subjects, progress)
	if err != nil {
		return f, err
	}
	f.costs, f.beside = [][]float64{costs[0], costs[2]}, [][]float64{costs[1], costs[3]}
	return f, nil
}

// calls calls a tool in worlds of several sizes.
func (l *scaleLab) calls(ctx context.Context, rounds, requests int, progress io.Writer, unit string,
	sizes []int, of func(size int) contents,
) (scaleFigure, error) {
	f := scaleFigure{what: "tools/call", unit: unit, sizes: sizes, goal: goal{within: 0.1}}
	var worlds []contents
	for _, size := range sizes {
		worlds = append(worlds, of(size))
	}
	gateways, err := l.serveAll(ctx, worlds...)
	if err != nil {
		return f, err
	}
	defer l.end(gateways...)
	var subjects []subject
	for i, g := range gateways {
		subjects = append(subjects, subject{
			what: fmt.Sprintf("tools/call with %d %s", sizes[i], unit), pid: g.pid,
			ask: asks(g.address, "/mcp", mcp.MethodToolsCall, "s0__echo", g.tokens...),
		})
	}
	f.costs, err = l.compare(ctx, rounds, requests, subjects, progress)
	return f, err
}

// sessions measures how long it takes to open one when there are many. Those that are
// measured end after their round. It also returns what an open session takes of resident
// memory, in bytes.
func (l *scaleLab) sessions(ctx context.Context, rounds, requests int,
	progress io.Writer,
) (scaleFigure, int64, error) {
	f := scaleFigure{
		what: "initialize", unit: "sessions", sizes: []int{0, 20_000, 100_000},
		goal: goal{within: 0.2},
	}
	w := contents{tenants: 1, servers: 1, tools: 10, rules: 1}
	gateways, err := l.serveAll(ctx, w, w, w)
	if err != nil {
		return f, 0, err
	}
	defer l.end(gateways...)
	var subjects []subject
	var held int64
	for i, g := range gateways {
		open := asks(g.address, "/mcp", mcp.MethodInitialize, "", g.tokens...)
		// what the first requests take is not the sessions'
		if _, err := open.sendAll(ctx, requests); err != nil {
			return f, 0, err
		}
		before, err := world.Resident(g.pid)
		if err != nil {
			return f, 0, err
		}
		if _, err := open.sendAll(ctx, f.sizes[i]); err != nil {
			return f, 0, err
		}
		after, err := world.Resident(g.pid)
		if err != nil {
			return f, 0, err
		}
		held = (after - before) / int64(max(1, f.sizes[i]))
		subjects = append(subjects, subject{
			what: fmt.Sprintf("initialize with %d sessions", f.sizes[i]), pid: g.pid, ask: open,
			done: func(ctx context.Context, sessions []string) error {
				return endSessions(ctx, g.address, g.tokens[0], sessions...)
			},
		})
	}
	f.costs, err = l.compare(ctx, rounds, requests, subjects, progress)
	return f, held, err
}

// loadFigure is what it takes to start with very many tenants and to reload one of them.
type loadFigure struct {
	files             bool // each tenant stands in a file of its own, else 50 in each
	start, cpu        time.Duration
	started, reloaded int64     // resident memory, in bytes: when all servers are there; after the reloads
	reloads           []float64 // milliseconds until each was in force
	busy              []float64 // milliseconds of processor time that each took until then
}

// startAndReload measures a gateway of very many tenants from its start until every
// server is there, and then reloads, each after one tenant has changed.
func (l *scaleLab) startAndReload(ctx context.Context, w contents, progress io.Writer) (loadFigure, error) {
	f := loadFigure{files: w.files}
	g, err := l.serve(ctx, w)
	if err != nil {
		return f, err
	}
	defer l.end(g)
	f.start = g.took
	if f.cpu, err = world.Busy(g.pid); err != nil {
		return f, err
	}
	if f.started, err = world.Resident(g.pid); err != nil {
		return f, err
	}
	const reloads = 5
	for range reloads {
		before, err := world.Busy(g.pid)
		if err != nil {
			return f, err
		}
		took, err := g.reload(ctx)
		if err != nil {
			return f, err
		}
		after, err := world.Busy(g.pid)
		if err != nil {
			return f, err
		}
		f.reloads = append(f.reloads, float64(took)/float64(time.Millisecond))
		f.busy = append(f.busy, float64(after-before)/float64(time.Millisecond))
		f.reloaded = f.started + 1
		// It gives memory back after it has said that it is done.
		_ = world.Within(ctx, 2*time.Second, "", func() bool {
			f.reloaded, err = world.Resident(g.pid)
			return err != nil || f.reloaded <= f.started
		})
		if err != nil {
			return f, err
		}
	}
	_, _ = fmt.Fprintf(progress,
		"start with %d tenants (files %t) %.2f s, %.2f s of CPU, %d MiB; reloads %s ms, %d MiB\n",
		w.tenants, w.files, f.start.Seconds(), f.cpu.Seconds(), f.started>>20, medianAndEnds(f.reloads),
		f.reloaded>>20)
	return f, nil
}
