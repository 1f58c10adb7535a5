package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// newScale is the part scale: it shows how the gateway's work grows with what it holds.
// It fails if a goal is not kept.
func newScale(flags *flag.FlagSet) page.Measure {
	rounds := flags.Int("rounds", 15, "rounds that are measured at each size; the median counts")
	requests := flags.Int("requests", 500, "requests of each size in a round")
	return func(ctx context.Context, r page.Report) (string, error) {
		l := emptyLab("scale", r)
		defer l.Close()
		l.beginScale(ctx)
		found := l.growth(ctx, *rounds, *requests)
		return found.section(*rounds, *requests, r.Chart("bench-scale", found.chart(),
			"How the cost of a request changes with what the gateway holds")), found.missed()
	}
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
func (l *lab) growth(ctx context.Context, rounds, requests int) (found growth) {
	found.figures = append(found.figures, l.lists(ctx, rounds, max(1, requests/5)))
	for _, grows := range []struct {
		unit  string
		sizes []int
		of    func(size int) contents
	}{
		{"tenants", []int{10, 5000}, func(size int) contents {
			return contents{tenants: size, servers: 10, tools: 20, rules: 10}
		}},
		{"rules", []int{10, 1000}, func(size int) contents {
			return contents{tenants: 10, servers: 10, tools: 20, rules: size}
		}},
		{"tools", []int{10, 5000}, func(size int) contents {
			return contents{tenants: 10, servers: 1, tools: size, rules: 10}
		}},
	} {
		f := scaleFigure{what: "tools/call", unit: grows.unit, sizes: grows.sizes, goal: goal{within: 0.1}}
		gateways := l.serveAll(ctx, grows.of(grows.sizes[0]), grows.of(grows.sizes[1]))
		var subjects []subject
		for i, g := range gateways {
			subjects = append(subjects, subject{
				what: fmt.Sprintf("tools/call with %d %s", grows.sizes[i], grows.unit), pids: g.pids,
				ask: asks(ctx, g.addr, "/mcp", mcp.MethodToolsCall, "s0__echo", g.tokens...),
			})
		}
		f.costs = l.compare(ctx, rounds, requests, subjects)
		end(gateways...)
		found.figures = append(found.figures, f)
	}
	f, session := l.sessions(ctx, rounds, requests)
	found.figures, found.session = append(found.figures, f), session
	for _, files := range []bool{false, true} {
		found.loads = append(found.loads, l.startAndReload(ctx, contents{
			tenants: 5000, servers: 50, tools: 100, rules: 20, files: files,
		}))
	}
	return found
}

// lists asks for all tools in one answer, through the gateway and through ReverseProxy.
func (l *lab) lists(ctx context.Context, rounds, requests int) scaleFigure {
	f := scaleFigure{what: "tools/list", unit: "tools", sizes: []int{1000, 5000}, goal: goal{beside: true}}
	gateways := l.serveAll(ctx, contents{tenants: 1, servers: 1, tools: f.sizes[0], rules: 1},
		contents{tenants: 1, servers: 1, tools: f.sizes[1], rules: 1})
	defer end(gateways...)
	var subjects []subject
	for i, g := range gateways {
		what := fmt.Sprintf("tools/list of %d tools", f.sizes[i])
		subjects = append(subjects, subject{
			what: what, pids: g.pids, ask: asks(ctx, g.addr, "/mcp", mcp.MethodToolsList, "", g.tokens...),
		}, subject{
			what: what + ", ReverseProxy", pids: l.parts[wayProxy].pids,
			ask: asks(ctx, l.parts[wayProxy].addr, fmt.Sprintf("/tools/%d", f.sizes[i]), mcp.MethodToolsList, ""),
		})
	}
	costs := l.compare(ctx, rounds, requests, subjects)
	f.costs, f.beside = [][]float64{costs[0], costs[2]}, [][]float64{costs[1], costs[3]}
	return f
}

// sessions measures how long it takes to open one when there are many. Those that are
// measured end after their round. It also returns what an open session takes of resident
// memory, in bytes.
func (l *lab) sessions(ctx context.Context, rounds, requests int) (f scaleFigure, held int64) {
	f = scaleFigure{
		what: "initialize", unit: "sessions", sizes: []int{0, 20_000, 100_000},
		goal: goal{within: 0.2},
	}
	w := contents{tenants: 1, servers: 1, tools: 10, rules: 1}
	gateways := l.serveAll(ctx, w, w, w)
	defer end(gateways...)
	var subjects []subject
	for i, g := range gateways {
		open := asks(ctx, g.addr, "/mcp", mcp.MethodInitialize, "", g.tokens...)
		// what the first requests take is not the sessions'
		open.sendAll(requests)
		before := world.Resident(g.pids...)
		open.sendAll(f.sizes[i])
		open.close() // or the gateway does, while the next one is filled
		held = (world.Resident(g.pids...) - before) / int64(max(1, f.sizes[i]))
		subjects = append(subjects, subject{
			what: fmt.Sprintf("initialize with %d sessions", f.sizes[i]), pids: g.pids, ask: open,
			done: func(ctx context.Context, sessions []string) {
				endSessions(ctx, g.addr, g.tokens[0], sessions...)
			},
		})
	}
	f.costs = l.compare(ctx, rounds, requests, subjects)
	return f, held
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
func (l *lab) startAndReload(ctx context.Context, w contents) loadFigure {
	g := l.serveAll(ctx, w)[0]
	defer end(g)
	f := loadFigure{files: w.files, start: g.took, started: world.Resident(g.pids...)}
	f.cpu = world.Busy(g.pids...)
	const reloads = 5
	for range reloads {
		var took time.Duration
		busy := busyDuring(g.pids, func() { took = g.reload(ctx) })
		f.reloads = append(f.reloads, float64(took)/float64(time.Millisecond))
		f.busy = append(f.busy, float64(busy)/float64(time.Millisecond))
		// It gives memory back after it has said that it is done.
		_ = world.Within(ctx, 2*time.Second, "", func() bool {
			f.reloaded = world.Resident(g.pids...)
			return f.reloaded <= f.started
		})
	}
	l.Say("start with %d tenants (files %t) %.2f s, %.2f s of CPU, %d MiB; reloads %s ms, %d MiB\n",
		w.tenants, w.files, f.start.Seconds(), f.cpu.Seconds(), f.started>>20, medianAndEnds(f.reloads),
		f.reloaded>>20)
	return f
}
