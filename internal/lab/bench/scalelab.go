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
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// scaleLab has an upstream and Go's ReverseProxy, and starts gateways of several sizes,
// also several at a time.
type scaleLab struct {
	*lab

	proxyPID int
	gateways int // started so far
}

func newScaleLab(ctx context.Context) (*scaleLab, error) {
	empty, err := emptyLab("scale")
	if err != nil {
		return nil, err
	}
	l := &scaleLab{lab: empty}
	return world.Begun(l, l.Close, l.begin(ctx))
}

// begin starts all but the gateways.
func (l *scaleLab) begin(ctx context.Context) error {
	if err := l.build(ctx); err != nil {
		return err
	}
	addrs, err := world.Addresses(2)
	if err != nil {
		return err
	}
	l.upstream, l.proxy = addrs[0], addrs[1]
	if _, err := l.start(ctx, l.upstream, l.Self, "upstream", l.upstream); err != nil {
		return err
	}
	proxy, err := l.start(ctx, l.proxy, l.Self, "proxy", l.proxy, "http://"+l.upstream)
	if err == nil {
		l.proxyPID = proxy.PID()
	}
	return err
}

// gatewayProcess is a gateway that is running.
type gatewayProcess struct {
	contents contents
	dir      string
	address  string
	operator string
	upstream string
	tokens   []string
	process  part
	pid      int
	took     time.Duration // from its start until all servers were there
}

// serve starts a gateway, and returns when all its servers are there.
func (l *scaleLab) serve(ctx context.Context, w contents) (*gatewayProcess, error) {
	addrs, err := world.Addresses(2)
	if err != nil {
		return nil, err
	}
	l.gateways++
	g := &gatewayProcess{
		contents: w, address: addrs[0], operator: addrs[1], upstream: l.upstream,
		dir: filepath.Join(l.Dir, fmt.Sprintf("gateway-%d", l.gateways)),
	}
	g.tokens = w.tokens(g.address)
	if err := w.write(g.dir, g.address, g.operator, g.upstream); err != nil {
		return nil, err
	}
	began := time.Now()
	if g.process, err = l.serveConfig(ctx, g.address, l.Program, g.dir+"/drawbridge.yaml"); err != nil {
		return nil, err
	}
	g.pid = g.process.PID()
	if err := world.Within(ctx, startTime, "all servers are there",
		func() bool { return l.isReady(ctx, g.operator) }); err != nil {
		return nil, err
	}
	g.took = time.Since(began)
	return g, nil
}

// end stops gateways.
func (l *scaleLab) end(gateways ...*gatewayProcess) {
	for _, g := range gateways {
		g.process.Kill()
	}
}

// isReady tells whether the gateway of an operator's address has reached every server.
func (l *lab) isReady(ctx context.Context, operator string) bool {
	a, err := client.Once(ctx, client.Request{Addr: operator, Method: http.MethodGet, Path: "/readyz"}, 0)
	return err == nil && a.Status == http.StatusOK
}

// reload changes the first tenant, asks for a reload, and returns how long it took until
// the change was in force.
func (g *gatewayProcess) reload(ctx context.Context) (took time.Duration, err error) {
	g.contents.version++
	commit, err := g.contents.rewrite(g.dir)
	if err != nil {
		return 0, err
	}
	before := len(g.reloads())
	began := time.Now()
	if err := commit(); err != nil {
		return 0, err
	}
	if err := syscall.Kill(g.pid, syscall.SIGHUP); err != nil {
		return 0, err
	}
	err = world.Within(ctx, time.Minute, "the change is in force", func() bool {
		// the gateway may also have seen by itself that the file changed
		for _, line := range g.reloads()[before:] {
			if line.Changes == "tenant "+tenantName(0)+" changed (rules)" {
				took = line.Time.Sub(began)
				return true
			}
		}
		return false
	})
	return took, err
}

// reloadLine is what the gateway logs of a reload.
type reloadLine struct {
	Time    time.Time `json:"time"`
	Changes string    `json:"changes"`
}

// reloads returns what the log says of reloads that are done.
func (g *gatewayProcess) reloads() []reloadLine {
	text, _ := os.ReadFile(g.process.Log) // while there is none, nothing was reloaded
	var all []reloadLine
	for line := range strings.Lines(string(text)) {
		var l reloadLine
		if strings.Contains(line, `"config reloaded"`) && json.Unmarshal([]byte(line), &l) == nil { //nolint:forbidigo // our own log
			all = append(all, l)
		}
	}
	return all
}
