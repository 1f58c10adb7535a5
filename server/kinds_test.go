package server_test

import (
	"bufio"
	"bytes"
	"os"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/replica/replicatest"
	"github.com/drawbridge-mcp/drawbridge/server/primary/primarytest"
)

// kindRecorder is a replica that notes which kinds of message it takes.
type kindRecorder struct {
	*replicatest.Member
	kinds map[string]bool
}

func (n kindRecorder) Handle(kind string, h replica.Handler) {
	n.kinds[kind] = true
	n.Member.Handle(kind, h)
}

// TestKeptKindsOfWordAreTaken has a list of the kinds that an earlier version says. A
// kind may be added; one that is not taken any more would be lost in a rollout.
func TestKeptKindsOfWordAreTaken(t *testing.T) {
	t.Parallel()
	kept, err := os.ReadFile("testdata/formats/kinds")
	if err != nil {
		t.Fatal(err)
	}
	n := kindRecorder{(&replicatest.Hub{}).Join(), make(map[string]bool)}
	newWorld(t, func(w *world) { w.config.Entries, w.config.Others = &primarytest.Store{}, n })
	for lines := bufio.NewScanner(bytes.NewReader(kept)); lines.Scan(); delete(n.kinds, lines.Text()) {
		if !n.kinds[lines.Text()] {
			t.Errorf("word of the kind %q is not taken any more", lines.Text())
		}
	}
	for kind := range n.kinds {
		t.Errorf("the kind %q is not in testdata/formats/kinds; the next version must take it, so add it",
			kind)
	}
}

// TestAnIDOfALaterVersionIsNotCalledUnknown: while a new version is rolled out, a replica
// of the old one says of ids it cannot read that another replica may. On a 404 clients
// would give up sessions which go on at the new ones.
func TestAnIDOfALaterVersionIsNotCalledUnknown(t *testing.T) {
	t.Parallel()
	member := (&replicatest.Hub{}).Join()
	w := newWorld(t, func(w *world) { w.config.Entries, w.config.Others = &primarytest.Store{}, member })
	good := w.open(t, "alice", mcp.Revision2511)
	later := good[:len(good)-4] + "AAAA" // what this version cannot open
	member.Outdate(true)
	wantReplicas(t, "while a later version runs", w.do(t, inSession("POST", later, pingBody)))
	wantReplicas(t, "to DELETE", w.do(t, inSession("DELETE", later, "")))
	wantStatus(t, "what it can read", w.do(t, inSession("POST", good, pingBody)), 200)
	wantStatus(t, "of somebody else", w.do(t, inSession("POST", good, pingBody).as("bob")), 404)
	member.Outdate(false)
	wantStatus(t, "when none runs", w.do(t, inSession("POST", later, pingBody)), 404)
}
