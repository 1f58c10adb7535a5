//go:build !race

package upstream_test

import (
	"net/http"
	"runtime"
	"strings"
	"testing"
)

// The race detector takes memory of its own.

// TestWhatAServerSendsBesidesIsNotKept has a server send 12 MiB of what nobody reads,
// beside its capabilities and beside its tools. No more is kept than what is used.
func TestWhatAServerSendsBesidesIsNotKept(t *testing.T) {
	const size = 12 << 20
	filler := `,"filler":"` + strings.Repeat("x", size) + `"`
	const tools = `"tools":[{"name":"tool","inputSchema":{"type":"object"}}]`
	for name, one := range map[string]*web{
		"capabilities": {modern: true, discover: func(w http.ResponseWriter, m wire) {
			sendJSON(w, m.ID, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},`+
				`"ttlMs":600000,"cacheScope":"private"`+filler+`}`)
		}},
		"large capabilities": {modern: true, declares: `{"tools":{}` + filler + `}`},
		"tools": {modern: true, list: func(w http.ResponseWriter, m wire) {
			sendJSON(w, m.ID, `{`+tools+filler+`}`)
		}},
	} {
		before := live()
		r := start(t, serve(t, one).config())
		r.untilTool("tool")
		if kept := live() - before; kept > size/2 {
			t.Errorf("%s: %d MiB are kept", name, kept>>20)
		}
		runtime.KeepAlive(r)
	}
}

// live returns how many bytes are in use.
func live() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // pools keep what they have for one collection
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
