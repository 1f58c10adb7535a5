package gateway

import (
	"reflect"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica/replicatest"
	"github.com/drawbridge-mcp/drawbridge/internal/seal/sealtest"
)

// TestKeptStatesAndTasksAreRead opens what an earlier build has given to clients. If it
// fails, a rollout loses their calls.
func TestKeptStatesAndTasksAreRead(t *testing.T) {
	t.Parallel()
	g := &Gateway{config: Config{Seal: sealtest.Ring(t), Others: (&replicatest.Hub{}).Join()}}
	want := &state{
		Expires: time.Unix(1764000000, 0).UTC(), Spent: 15e8, Rounds: 2, SlotRetained: true,
		Server: "box", CallID: "call", Inner: mcp.String("inner"), Home: "0123456789abcdef",
	}
	copy(want.Owner[:], "the digest of an owner, 32 bytes")
	copy(want.Request[:], "the digest of a request 32 bytes")
	copy(want.Nonce[:], "a nonce, and more of it")
	made, err := g.seal(purposeState, want)
	if err != nil {
		t.Fatal(err)
	}
	got := &state{}
	if !g.open(purposeState, string(sealtest.Stored(t, "requestState-3", []byte(made))), got) ||
		!reflect.DeepEqual(got, want) {
		t.Errorf("state: got %+v, want %+v", got, want)
	}
	wantTask := &task{
		Owner: want.Owner, Form: mcp.TasksAsked, Server: "box", Tool: "box__paint", CallID: "call",
		Own: "its own", Home: want.Home,
	}
	if made, err = g.seal(purposeTask, wantTask); err != nil {
		t.Fatal(err)
	}
	gotTask, err := g.openTask(string(sealtest.Stored(t, "task-3", []byte(made))))
	if err != nil || !reflect.DeepEqual(gotTask, wantTask) {
		t.Errorf("task: got %+v, %v, want %+v", gotTask, err, wantTask)
	}
}

// TestKeptCursorsAreRead goes on with a list that an earlier build has begun, also after
// a cursor of a later one.
func TestKeptCursorsAreRead(t *testing.T) {
	t.Parallel()
	b, _ := newLibrary(t, everything())
	b.config.Seal = sealtest.Ring(t)
	caller := b.caller(t, alice)
	items := b.callerViewOf(caller).lists[listedTools]
	made, err := b.sealCursor(caller, listedTools, items, 0)
	if err != nil {
		t.Fatal(err)
	}
	kept := string(sealtest.Stored(t, "cursor-1", []byte(made)))
	if start, ok := b.openCursor(caller, listedTools, items, mcp.String(kept)); !ok || start != 1 {
		t.Errorf("got %d, %v, want 1", start, ok)
	}
	plain, err := b.config.Seal.Open(listedTools.purpose(), kept)
	if err != nil {
		t.Fatal(err)
	}
	later, err := b.config.Seal.Seal(listedTools.purpose(), append(plain, "more"...))
	if err != nil {
		t.Fatal(err)
	}
	if start, ok := b.openCursor(caller, listedTools, items, mcp.String(later)); !ok || start != 1 {
		t.Errorf("with an addition: got %d, %v, want 1", start, ok)
	}
}

// TestAStateOfALaterVersionIsNotTakenForForged: while a new version is rolled out, a
// replica of the old one says of what it cannot read that another replica may. Told that
// this is no state or task of theirs, clients would give up calls which wait at the new
// ones.
func TestAStateOfALaterVersionIsNotTakenForForged(t *testing.T) {
	t.Parallel()
	p := newPair(t, nil)
	member := p.b.config.Others.(*replicatest.Member)
	for _, later := range []bool{true, false} {
		member.Outdate(later)
		want := map[bool]string{true: "DB-REPLICAS", false: "DB-STATE"}[later]
		r := ask("tools/call", `{"name":"box__echo"}`)
		r.Params = r.Params.With("requestState", mcp.String("not to be read"))
		if _, refused := p.b.handle(t, r); stable(refused) != want {
			t.Errorf("a state, later %v: got %v, want %s", later, refused, want)
		}
	}
}
