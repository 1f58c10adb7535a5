package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/client"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// beginScale starts an upstream and Go's ReverseProxy. Gateways of several sizes come
// later, also several at a time.
func (l *lab) beginScale(ctx context.Context) {
	l.build(ctx)
	l.startUpstream(ctx, "upstream")
	proxy := world.Addresses(1)[0]
	l.parts[wayProxy] = l.start(ctx, proxy, l.Self, "proxy", proxy, "http://"+l.upstream)
}

// gatewayProcess is a gateway that is running.
type gatewayProcess struct {
	part

	contents contents
	dir      string
	tokens   []string
	took     time.Duration // from its start until all servers were there
}

// serveAll starts a gateway for each contents, and returns when all their servers are
// there.
func (l *lab) serveAll(ctx context.Context, all ...contents) (gateways []*gatewayProcess) {
	for _, w := range all {
		addrs := world.Addresses(2)
		g := &gatewayProcess{
			contents: w, dir: filepath.Join(l.Dir, fmt.Sprintf("gateway-%d", l.started)), tokens: w.tokens(addrs[0]),
		}
		w.write(g.dir, addrs[0], addrs[1], l.upstream)
		began := time.Now()
		g.part = l.serveConfig(ctx, addrs[0], l.Program, g.dir+"/drawbridge.yaml")
		l.isReady(ctx, addrs[1])
		g.took = time.Since(began)
		gateways = append(gateways, g)
	}
	return gateways
}

// end stops gateways.
func end(gateways ...*gatewayProcess) {
	for _, g := range gateways {
		g.Kill()
	}
}

// isReady waits until the gateway of an operator's address has reached every server.
func (l *lab) isReady(ctx context.Context, operator string) {
	request := client.Request{Addr: operator, Method: http.MethodGet, Path: "/readyz"}
	world.For(ctx, startTime, func(ctx context.Context) {
		world.Until(ctx, func() { answered(client.Once(ctx, request, 300)) })
	})
}

// reload changes the first tenant, asks for a reload, and returns how long it took until
// the change was in force.
func (g *gatewayProcess) reload(ctx context.Context) (took time.Duration) {
	g.contents.version++
	file := g.contents.fileOf(g.dir, 0)
	must.OK(os.WriteFile(file+".next", []byte(g.contents.part(0)), 0o600))
	before, began := len(g.reloads()), time.Now()
	must.OK(os.Rename(file+".next", file))
	must.OK(g.Signal(syscall.SIGHUP))
	must.OK(world.Within(ctx, time.Minute, "the change is in force", func() bool {
		// the gateway may also have seen by itself that the file changed
		for _, line := range g.reloads()[before:] {
			if line.Changes == "tenant "+tenantName(0)+" changed (rules)" {
				took = line.Time.Sub(began)
				return true
			}
		}
		return false
	}))
	return took
}

// reloadLine is what the gateway logs of a reload.
type reloadLine struct {
	Time    time.Time `json:"time"`
	Changes string    `json:"changes"`
}

// reloads returns what the log says of reloads that are done.
func (g *gatewayProcess) reloads() []reloadLine {
	text, _ := os.ReadFile(g.Log) // while there is none, nothing was reloaded
	var all []reloadLine
	for line := range strings.Lines(string(text)) {
		var l reloadLine
		if strings.Contains(line, `"config reloaded"`) && json.Unmarshal([]byte(line), &l) == nil { //nolint:forbidigo // our own log
			all = append(all, l)
		}
	}
	return all
}
