package once

import (
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/seal/sealtest"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// TestKeptAnswersAreRead reads an answer that an earlier build has kept. If it fails, a
// call may be refused in a rollout of which the answer is there.
func TestKeptAnswersAreRead(t *testing.T) {
	t.Parallel()
	ring := sealtest.Ring(t)
	r := &Request{
		User: share.User{TenantID: "acme", Issuer: "i", Subject: "alice"}, Name: [32]byte{1},
		Body: [32]byte{2},
	}
	want := record{
		state: answered, at: time.Unix(1767225600, 0), body: r.Body, home: "0123456789abcdef",
		answer: Answer{Status: 200, Message: []byte("{}")},
	}
	kept := sealtest.Stored(t, "once-2", []byte(want.seal(ring, r)))
	got, ok := openRecord(ring, r, string(kept))
	if !ok || got.state != want.state || !got.at.Equal(want.at) || got.body != want.body ||
		got.home != want.home || got.answer.Status != 200 || string(got.answer.Message) != "{}" {
		t.Errorf("got %+v, %v, want %+v", got, ok, want)
	}
	if got := keyOf(
		r); got != "db2:{acme}:once:0100000000000000000000000000000000000000000000000000000000000000" {
		t.Errorf("it is looked for under %s", got)
	}
}
