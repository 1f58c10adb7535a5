package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// manyTools returns a source of so many tools, whose definitions have about 160 bytes
// each. Older revisions do not know the title of every second one.
func manyTools(server string, count int) registry.Source {
	s := registry.Source{Name: server, Prefix: server}
	for n := range count {
		title := ""
		if n%2 == 0 {
			title = `"title":"T",`
		}
		s.Tools = append(s.Tools, registry.Offer{
			Definition: object(
				fmt.Sprintf(
					`{"name":"tool_%04d",%s"description":"Says what it is told, number %d","inputSchema":`+
						`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}}`, n,
					title,
					n)),
			Call: func(context.Context, *registry.Call) (mcp.Object, error) { return textResult("x"), nil },
		})
	}
	return s
}

// offering returns a change of a world by which its tenants see so many tools and nothing
// else.
func offering(t testing.TB, tools int) func(*world) {
	return func(w *world) {
		for _, refusal := range w.registry.Replace(manyTools("many", tools)) {
			t.Fatalf("refused: %+v", refusal)
		}
		for i := range w.tenants {
			w.tenants[i].Servers = []string{"many"}
			w.tenants[i].Rules = []gateway.Rule{{Allow: []string{"*"}}}
		}
	}
}

// modernList asks for a page of the tools in 2026-07-28.
func modernList(cursor string) message {
	params := modernMeta
	if cursor != "" {
		params = `"cursor":"` + cursor + `",` + params
	}
	return message{
		method: "POST", path: "/mcp", token: "alice",
		body: `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + params + `}}`,
		headers: map[string]string{
			mcp.HeaderProtocolVersion: mcp.Revision2607,
			mcp.HeaderMethod:          mcp.MethodToolsList,
		},
	}
}

// legacyList asks for a page of the tools in a session.
func legacyList(id, cursor string) message {
	params := ""
	if cursor != "" {
		params = `"cursor":"` + cursor + `"`
	}
	return inSession("POST", id, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+params+`}}`)
}

// BenchmarkList asks for the first page of a list, of 1000 tools at most, through door
// and desk.
func BenchmarkList(b *testing.B) {
	for _, tools := range []int{10, 1000, 5000} {
		w := newWorld(b, offering(b, tools))
		h := w.Handler()
		asks := []struct {
			name string
			ask  message
		}{
			{"2026-07-28", modernList("")},
			{
				"2026-07-28 as a stream",
				modernList("").with("Accept", "text/event-stream, application/json;q=0.5"),
			},
			{"2025-11-25", legacyList(w.open(b, "alice", mcp.Revision2511), "")},
			{"2025-03-26", legacyList(w.open(b, "alice", mcp.Revision2503), "")},
		}
		for _, test := range asks {
			b.Run(fmt.Sprintf("%d tools/%s", tools, test.name),
				func(b *testing.B) { benchmark(b, h, test.ask) })
		}
	}
}

// BenchmarkWholeList follows the cursors to the end of 5000 tools.
func BenchmarkWholeList(b *testing.B) {
	w := newWorld(b, offering(b, 5000))
	h := w.Handler()
	b.ReportAllocs()
	for b.Loop() {
		for cursor, pages := "", 0; pages == 0 || cursor != ""; pages++ {
			got := record(h, modernList(cursor).request(b.Context(), ""))
			if got.Code != http.StatusOK {
				b.Fatalf("got %d %s", got.Code, got.Body)
			}
			_, rest, _ := strings.Cut(got.Body.String(), `"nextCursor":"`)
			cursor, _, _ = strings.Cut(rest, `"`)
		}
	}
}
