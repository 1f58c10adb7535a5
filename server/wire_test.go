package server_test

import (
	"regexp"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/wiretest"
)

func TestWireModern(t *testing.T)    { wiretest.Run(t, "testdata/modern/*.txtar", scripted) }
func TestWireLegacy(t *testing.T)    { wiretest.Run(t, "testdata/legacy/*.txtar", scripted) }
func TestWireLegacySSE(t *testing.T) { wiretest.Run(t, "testdata/legacysse/*.txtar", scripted) }

// scripted opens the world of a wire script.
func scripted(t *testing.T) *wiretest.World {
	w := newWorld(t)
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
		},
		Actions: map[string]func(){
			"release":       w.letGo,
			"add a tool":    func() { w.offer(t, "extra") },
			"remove a tool": func() { w.offer(t) },
			"same tools":    func() { w.offer(t) },
			"close tenant":  func() { w.setTenants(t, w.tenants[1:]) },
			"end streams":   w.EndStreams,
		},
	}
}

func (w *world) setTenants(t testing.TB, tenants []gateway.TenantConfig) {
	t.Helper()
	if err := w.gateway.SetTenants(tenants); err != nil {
		t.Error(err)
	}
}
