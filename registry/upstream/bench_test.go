package upstream_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// fast answers every call with the same small result at the least cost.
func fast(b *testing.B, modern bool) string {
	b.Helper()
	s := &web{modern: modern, session: "s", open: map[string]bool{}}
	if modern {
		s.session = ""
	}
	slow := http.HandlerFunc(s.ServeHTTP)
	handler := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, rest, call := bytes.Cut(body, []byte(`"id":`))
		id, _, _ := bytes.Cut(rest, []byte(","))
		if !call || !bytes.Contains(body, []byte(`"tools/call"`)) {
			r.Body = io.NopCloser(bytes.NewReader(body))
			slow(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"hello"}]}}`, id)
	}
	server := httptest.NewServer(http.HandlerFunc(handler))
	b.Cleanup(server.Close)
	return server.URL
}

// BenchmarkCall compares a call through a peer with a bare post of the same bytes.
func BenchmarkCall(b *testing.B) {
	const params = `{"name":"tool","arguments":{"text":"hello"}}`
	for _, modern := range []bool{false, true} {
		b.Run(fmt.Sprintf("peer/modern=%v", modern), func(b *testing.B) {
			cfg := (&web{Server: &httptest.Server{URL: fast(b, modern)}}).config()
			r := start(b, cfg)
			r.untilTool("tool")
			tool := r.tool("tool")
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				call := request(b, params, nil)
				for pb.Next() {
					if _, err := tool.Call(b.Context(), call); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
	b.Run("bare", func(b *testing.B) {
		address, client := fast(b, false), newClient(b)
		body := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + params + `}`)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				resp, err := client.Post(address, "application/json", bytes.NewReader(body)) //nolint:noctx // as bare as can be
				if err != nil {
					b.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	})
}
