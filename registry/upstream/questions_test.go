package upstream

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// TestALongIDOfAnAddressIsNotKept asks questions whose ids of addresses are far longer
// than any that is told of: nothing counts them, so that they must not stay in memory.
func TestALongIDOfAnAddressIsNotKept(t *testing.T) {
	t.Parallel()
	var strict atomic.Bool
	roots, _ := mcp.ParseObject([]byte(`{"roots":{}}`))
	q := newQuestions(auth.Owner{}, &registry.Call{Capabilities: mcp.CapabilitiesOf(mcp.LatestModern, roots)},
		&strict, func(Anomaly, int) {}, &elicitations{})
	for id, want := range map[string]string{"theirs": "theirs", strings.Repeat("x", 1<<20): ""} {
		params := mcp.NewObject(mcp.Member{Name: "elicitationId", Value: mcp.String(id)})
		m := &mcp.Message{ID: mcp.ID(mcp.String(want)), Method: mcp.MethodRoots, Params: params}
		if refused := q.ask(m, true); refused != nil {
			t.Fatal(refused)
		}
		if got := q.open[len(q.open)-1].message().Params.Text("elicitationId"); got != want {
			t.Errorf("kept %d bytes of an id of %d, want %q", len(got), len(id), want)
		}
	}
}

// TestALongProgressTokenIsNone: each notification would repeat it, so that a call would
// be answered with any number of megabytes a second.
func TestALongProgressTokenIsNone(t *testing.T) {
	t.Parallel()
	for token, want := range map[string]string{
		"mine": `{"progressToken":7}`, strings.Repeat("t", maxToken): `{}`,
	} {
		meta := mcp.NewObject(mcp.Member{Name: mcp.MetaProgressToken, Value: mcp.String(token)})
		if got := string(appendMeta(nil, "7", meta, "")); got != want {
			t.Errorf("a token of %d bytes: the server gets %.100s, want %s", len(token), got, want)
		}
		if hears := notifier(&registry.Call{}, meta) != nil; hears != (want != `{}`) {
			t.Errorf("a token of %d bytes: the client hears of progress: %v", len(token), hears)
		}
	}
}
