package server_test

import (
	"context"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/wiretest"
)

func TestWireModern(t *testing.T)    { wiretest.Run(t, "testdata/modern/*.txtar", scripted) }
func TestWireLegacy(t *testing.T)    { wiretest.Run(t, "testdata/legacy/*.txtar", scripted) }
func TestWireLegacySSE(t *testing.T) { wiretest.Run(t, "testdata/legacysse/*.txtar", scripted) }
func TestWireQuestions(t *testing.T) { wiretest.Run(t, "testdata/questions/*.txtar", scriptedAsking) }

func TestWireResources(t *testing.T) { wiretest.Run(t, "testdata/resources/*.txtar", scriptedAsking) }

// scriptedAsking opens the world of a wire script whose tools ask and whose resources
// change.
func scriptedAsking(t *testing.T) *wiretest.World {
	w := newWorld(t)
	asker, files := w.asking()
	script := w.script(t)
	script.Actions["change prompts"] = func() { asker.changePrompts(); w.offer(t, "extra") }
	script.Actions["change a"] = func() { files.change("file:///a", "file:///a") }
	script.Actions["change part of a"] = func() { files.change("file:///a", "file:///a/part") }
	script.Actions["change b"] = func() { files.change("file:///b", "file:///b") }
	script.Actions["hide"] = files.hide
	script.Actions["two subscriptions"] = func() { wantOpen(t, files, 2) }
	script.Actions["no subscriptions"] = func() { wantOpen(t, files, 0) }
	script.Actions["nothing waits"] = func() {
		if w.Wait(doneContext(t)) != 0 || asker.endings() != 1 {
			t.Errorf("want no call in work, and the desk told once of the end, got %d", asker.endings())
		}
	}
	return script
}

func wantOpen(t *testing.T, f *files, want int) {
	t.Helper()
	synctest.Wait()
	if got := f.open(); got != want {
		t.Errorf("got %d subscriptions, want %d", got, want)
	}
}

func doneContext(t *testing.T) context.Context {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	synctest.Wait()
	return ctx
}

// scripted opens the world of a wire script.
func scripted(t *testing.T) *wiretest.World { return newWorld(t).script(t) }

func (w *world) script(t *testing.T) *wiretest.World {
	return &wiretest.World{
		Handler: w.Handler(),
		Headers: map[string]string{
			"Authorization": "Bearer alice", "Content-Type": "application/json",
			"Accept": "application/json, text/event-stream", "User-Agent": "",
		},
		Vars: map[string]string{
			"meta": `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`,
		},
		Capture: []*regexp.Regexp{
			regexp.MustCompile(`Mcp-Session-Id: (?<session>\S+)`),
			regexp.MustCompile(`sessionId=(?<session>[\w-]+)`),
			regexp.MustCompile(`"id":"(?<question>q[0-9a-f]{32})"`),
			regexp.MustCompile(`retry: (?<retry>\d+)\n\n`), // of a stream that ends, which is random
			regexp.MustCompile(`"requestId":"(?<request>[A-Z2-7]{26})"`),
			regexp.MustCompile(`"elicitationId":"(?<elicitation>q[A-Z2-7]{26})"`),
		},
		Actions: map[string]func(){
			"release":           w.letGo,
			"add a tool":        func() { w.offer(t, "extra") },
			"remove a tool":     func() { w.offer(t) },
			"same tools":        func() { w.offer(t) },
			"lose the server":   func() { w.registry.Lose("box", "") },
			"the grace is over": func() { w.registry.Unlist("box", w.registry.Lose("box", "")) },
			"close tenant":      func() { w.setTenants(t, w.tenants[1:]) },
			// they end one after the other
			"end streams": func() { w.EndStreams(); <-time.After(time.Second) },
		},
	}
}

func (w *world) setTenants(t testing.TB, tenants []gateway.TenantConfig) {
	t.Helper()
	w.gateway.SetPolicy("", tenants)
}
