package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// runScale is the command scale.
func runScale(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("bench scale", flag.ContinueOnError)
	requests := flags.Int("requests", 4000, "how many requests are measured at each size")
	if err := flags.Parse(args); err != nil {
		return err
	}
	lab, err := newScaleLab(ctx)
	if err != nil {
		return err
	}
	defer lab.close()
	return lab.scales(ctx, *requests, out)
}

// figure is one thing that was measured: the same work at several sizes.
type figure struct {
	what   string
	sizes  []string
	values []string
	note   string
}

// scales measures what grows, and how, and writes each figure as soon as it is there.
func (l *scaleLab) scales(ctx context.Context, requests int, out io.Writer) error {
	for _, measure := range []func(context.Context, int) (figure, error){
		l.lists, l.tenantsOfCalls, l.rulesOfCalls, l.toolsOfCalls, l.startAndReload, l.sessions,
	} {
		f, err := measure(ctx, requests)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(out, "%s (%s)\n", f.what, f.note)
		for i, size := range f.sizes {
			_, _ = fmt.Fprintf(out, "  %-22s %s\n", size, f.values[i])
		}
	}
	return nil
}

func (f *figure) add(size, format string, args ...any) {
	f.sizes = append(f.sizes, size)
	f.values = append(f.values, fmt.Sprintf(format, args...))
}

// lists asks for all tools in one answer, through the gateway and through ReverseProxy.
func (l *scaleLab) lists(ctx context.Context, requests int) (figure, error) {
	f := figure{what: "tools/list, µs of CPU: drawbridge / ReverseProxy", note: "of the answering process alone, all tools in one answer"}
	for _, tools := range []int{1000, 5000} {
		err := l.with(ctx, world{tenants: 1, servers: 1, tools: tools, rules: 1}, func(g *gatewayProcess) error {
			own, err := l.cost(ctx, g.pid, requests, l.asks("http://"+l.gateway+"/mcp", g.token(0), mcp.MethodToolsList, ""))
			if err != nil {
				return err
			}
			other, err := l.cost(ctx, l.proxyPID, requests, l.asks(fmt.Sprintf("http://%s/tools/%d", l.proxy, tools), "", mcp.MethodToolsList, ""))
			f.add(strconv.Itoa(tools)+" tools", "%d / %d", own.Microseconds(), other.Microseconds())
			return err
		})
		if err != nil {
			return f, err
		}
	}
	return f, nil
}

// calls measures calls of a tool in worlds of several sizes.
func (l *scaleLab) calls(ctx context.Context, requests int, what, unit string, sizes []int, of func(size int) world) (figure, error) {
	f := figure{what: what, note: "of the gateway alone"}
	for _, size := range sizes {
		w := of(size)
		err := l.with(ctx, w, func(g *gatewayProcess) error {
			took, err := l.cost(ctx, g.pid, requests, func(ctx context.Context, n int) (*http.Request, error) {
				return l.asks("http://"+l.gateway+"/mcp", g.token(n%len(g.tokens)), mcp.MethodToolsCall, "s0__echo")(ctx, n)
			})
			f.add(fmt.Sprintf("%d %s", size, unit), "%d", took.Microseconds())
			return err
		})
		if err != nil {
			return f, err
		}
	}
	return f, nil
}

func (l *scaleLab) tenantsOfCalls(ctx context.Context, requests int) (figure, error) {
	return l.calls(ctx, requests, "tools/call, µs of CPU", "tenants", []int{10, 5000}, func(size int) world {
		return world{tenants: size, servers: 10, tools: 20, rules: 10}
	})
}

func (l *scaleLab) rulesOfCalls(ctx context.Context, requests int) (figure, error) {
	return l.calls(ctx, requests, "tools/call, µs of CPU", "rules", []int{10, 1000}, func(size int) world {
		return world{tenants: 10, servers: 10, tools: 20, rules: size}
	})
}

func (l *scaleLab) toolsOfCalls(ctx context.Context, requests int) (figure, error) {
	return l.calls(ctx, requests, "tools/call, µs of CPU", "tools", []int{10, 5000}, func(size int) world {
		return world{tenants: 10, servers: 1, tools: size, rules: 10}
	})
}

// sessions opens sessions until there are as many as the size says, and measures those that come next.
func (l *scaleLab) sessions(ctx context.Context, requests int) (figure, error) {
	f := figure{what: "initialize, µs of CPU", note: "of the gateway alone"}
	err := l.with(ctx, world{tenants: 1, servers: 1, tools: 10, rules: 1}, func(g *gatewayProcess) error {
		open := func(ctx context.Context, n int) (*http.Request, error) {
			return l.asks("http://"+l.gateway+"/mcp", g.token(0), mcp.MethodInitialize, "")(ctx, n)
		}
		for opened, size := 0, 0; size <= 100_000; {
			if _, err := l.cost(ctx, g.pid, size-opened, open); err != nil {
				return err
			}
			took, err := l.cost(ctx, g.pid, requests, open)
			if err != nil {
				return err
			}
			f.add(fmt.Sprintf("%d sessions", size), "%d", took.Microseconds())
			opened = size + requests
			size = map[int]int{0: 20_000, 20_000: 100_000, 100_000: 100_001}[size]
		}
		return nil
	})
	return f, err
}

// startAndReload measures a gateway of very many tenants from its start until every server is there, and a reload after
// one tenant has changed.
func (l *scaleLab) startAndReload(ctx context.Context, _ int) (figure, error) {
	w := world{tenants: 5000, servers: 50, tools: 100, rules: 20}
	f := figure{what: "5000 tenants, each with 200 of 5000 tools and 20 rules", note: "resident memory after each"}
	err := l.with(ctx, w, func(g *gatewayProcess) error {
		memory, err := resident(g.pid)
		if err != nil {
			return err
		}
		busy, err := processorTime(g.pid)
		if err != nil {
			return err
		}
		f.add("start", "%.2f s, %.2f s of CPU, %d MiB", g.took.Seconds(), busy.Seconds(), memory>>20)
		w.changed = true
		if err := l.write(w); err != nil {
			return err
		}
		before := g.reloads()
		started := time.Now()
		if err := g.reload(); err != nil {
			return err
		}
		if err := within(ctx, time.Minute, "the gateway reloads", func() bool { return g.reloads() > before }); err != nil {
			return err
		}
		took := time.Since(started)
		if memory, err = resident(g.pid); err != nil {
			return err
		}
		all, err := processorTime(g.pid)
		f.add("reload of one tenant", "%.2f s, %.2f s of CPU, %d MiB", took.Seconds(), (all - busy).Seconds(), memory>>20)
		return err
	})
	return f, err
}

// cost returns how much CPU a process needs for each of that many requests, of which four are under way at once.
func (l *scaleLab) cost(ctx context.Context, pid, requests int, ask func(ctx context.Context, n int) (*http.Request, error)) (time.Duration, error) {
	const clients = 4
	before, err := processorTime(pid)
	if err != nil {
		return 0, err
	}
	var all sync.WaitGroup
	failures := make([]error, clients)
	for c := range clients {
		all.Go(func() {
			for n := c; n < requests && failures[c] == nil; n += clients {
				failures[c] = l.send(ctx, n, ask)
			}
		})
	}
	all.Wait()
	for _, err := range failures {
		if err != nil {
			return 0, err
		}
	}
	after, err := processorTime(pid)
	return (after - before) / time.Duration(max(requests, 1)), err
}

func (l *scaleLab) send(ctx context.Context, n int, ask func(ctx context.Context, n int) (*http.Request, error)) error {
	r, err := ask(ctx, n)
	if err != nil {
		return err
	}
	response, err := l.client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // it was read to its end
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(body), `"result"`) {
		return fmt.Errorf("%s: status %d: %.200s (%w)", r.URL, response.StatusCode, body, err)
	}
	return nil
}

// processorTime returns how long a process has run on processors, in steps of 10 ms.
// https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
func processorTime(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("unknown form of /proc/%d/stat", pid)
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond, err
}
