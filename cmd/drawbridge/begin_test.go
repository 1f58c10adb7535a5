package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/freeport"
	"github.com/drawbridge-mcp/drawbridge/server"
)

// TestNobodyIsServedBeforeItIsKnownWhoseSignInsHaveEnded: whoever has signed out a moment
// before a restart would have calls made in the time until the store was asked.
func TestNobodyIsServedBeforeItIsKnownWhoseSignInsHaveEnded(t *testing.T) {
	cfg := parse(t, fmt.Sprintf(`public_url: https://gw.example
data: {dir: %q}
issuers:
  - {issuer: local, hmac_secret_file: secret, algorithms: [HS256], tenant: acme}
  - github: {client_id: gw, client_secret_file: secret, tenant: acme}
tenants:
  acme: {servers: [box]}
servers:
  box: {builtin: [calculate]}
`, t.TempDir()))
	p, err := build(cfg, memoryPlan{budget: 16 << 20}, slog.New(slog.DiscardHandler), new(slog.LevelVar),
		listeners{clients: address{}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.audit.Close()
	defer p.storing.db.Close()
	p.fleet.apply(t.Context(), cfg.ReachedServers())
	defer p.fleet.close()
	soon, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if p.status.await(soon); soon.Err() == nil {
		t.Error("clients are served before the store was asked")
	}
	if p.status.view().Ready {
		t.Error("/readyz says that it is ready before the store was asked")
	}
	if err := p.signIns.server.Learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.status.await(t.Context())
	if !p.signIns.begun() || !p.status.view().Ready {
		t.Error("clients are not served once the store was asked, or /readyz does not say so")
	}
}

// TestACallWaitsForAServerThatIsStarting calls a tool as soon as the address is listened
// on, while its server has not answered yet, as load balancers do that do not ask
// /readyz. The call waits for the server, and is not DB-UPSTREAM-DOWN.
func TestACallWaitsForAServerThatIsStarting(t *testing.T) {
	t.Parallel()
	server := sdk.NewServer(&sdk.Implementation{Name: "late", Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "greet"}, func(context.Context, *sdk.CallToolRequest,
		map[string]any,
	) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "good morning"}}}, nil, nil
	})
	asked, awake := make(chan struct{}, 1000), make(chan struct{})
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-awake
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { upstream.CloseClientConnections(); upstream.Close() })
	r := &recorder{directory: t.TempDir()}
	var addresses [2]string
	for i := range addresses {
		var err error
		if addresses[i], err = freeport.Address(); err != nil {
			t.Fatal(err)
		}
	}
	keys, _ := keyLines(t, 1)
	r.save(t, "keys", keys)
	r.save(t, "secret", "f3b1c0a9e8d7c6b5a4938271605f4e3d2c1b0a99")
	text := strings.Replace(fmt.Sprintf(keyed, addresses[0], addresses[1], ""), "servers: [toolbox]",
		"servers: [toolbox, late]", 1)
	r.save(t, "drawbridge.yaml", text+"  late: {url: \""+upstream.URL+
		"\", revision: \"2025-11-25\", private_addresses: true}\n")
	r.url, r.operator = "http://"+addresses[0]+"/mcp", addresses[1]
	r.token = r.signFor(t, "acme")
	r.start(t, func(r *recorder) { r.process.Dir = r.directory })
	eventually(t, "it listens", func() bool { return listens(t.Context(), addresses[0]) })
	<-asked
	heard := make(chan outcome)
	go func() { heard <- r.call("late__greet", "") }()
	close(awake)
	if got := <-heard; !strings.Contains(got.body, "good morning") {
		t.Errorf("got %v, want the answer of the server", got)
	}
}

// TestThePageOfThisMachineIsForNoOther asks for the operator's page under the names that
// requests bring: those of people and of load balancers beside the gateway, such as the
// name of a cluster, and one that a web page has pointed at this machine.
func TestThePageOfThisMachineIsForNoOther(t *testing.T) {
	for operator, hosts := range map[string]map[string]bool{
		"127.0.0.1:9090": {
			"127.0.0.1:9090": true, "localhost:7000": true, "[::1]:9090": true, "drawbridge": true, "": true,
			"127.0.0.1": true, "10.1.2.3": true,
			"ops.example": true, "evil.example:9090": false, "127.0.0.1.evil.example": false,
		},
		"0.0.0.0:9090": {"gateway.team.svc:9090": true},
	} {
		p := &parts{started: &config.Config{Operator: operator}}
		p.settings.Store(&server.Settings{AllowedHosts: []string{"ops.example"}})
		for host, want := range hosts {
			if got := p.operatorAllows(host); got != want {
				t.Errorf("at %s: %q is allowed: %t, want %t", operator, host, got, want)
			}
		}
	}
}
