package gateway

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica/replicatest"
	"github.com/drawbridge-mcp/drawbridge/internal/seal/sealtest"
)

// keptState is what the kept states say; that with a home is of the second form.
func keptState(home string) *state {
	s := &state{
		expires: time.Unix(1764000000, 0), spent: 1500 * time.Millisecond, rounds: 2, slotRetained: true,
		hasInner: true,
		server:   "box", callID: "call", inner: "inner",
	}
	copy(s.owner[:], "the digest of an owner, 32 bytes")
	copy(s.request[:], "the digest of a request 32 bytes")
	copy(s.nonce[:], "a nonce, and more of it")
	if home != "" {
		s.home = "0123456789abcdef"
	}
	return s
}

func keptTask(home string) *task {
	t := &task{form: mcp.TasksAsked, server: "box", tool: "box__paint", callID: "call", own: "its own"}
	copy(t.owner[:], "the digest of an owner, 32 bytes")
	if home != "" {
		t.home = "0123456789abcdef"
	}
	return t
}

// TestKeptStatesAndTasksAreRead opens what an earlier build has given to clients. If it
// fails, a rollout loses their calls.
func TestKeptStatesAndTasksAreRead(t *testing.T) {
	t.Parallel()
	g := &Gateway{config: Config{Seal: sealtest.Ring(t), Others: (&replicatest.Hub{}).Join()}}
	for name, home := range map[string]string{"1": "", "2": "home"} {
		purpose := map[string]string{"": purposeState, "home": purposeHome}[home]
		want := keptState(home)
		made, err := g.config.Seal.SealLong(purpose, want.encode())
		if err != nil {
			t.Fatal(err)
		}
		kept := string(sealtest.Stored(t, "requestState-"+name, []byte(made)))
		if got, ok := g.openState(kept); !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("state %s: got %+v, %v, want %+v", name, got, ok, want)
		}
		if plain, err := g.config.Seal.OpenLong(purpose, kept); err != nil ||
			!bytes.Equal(plain, want.encode()) {
			t.Errorf("state %s: kept is %x, %v, and this version writes %x", name, plain, err, want.encode())
		}
		wantTask := keptTask(home)
		id, err := g.sealTask(wantTask)
		if err != nil {
			t.Fatal(err)
		}
		kept = string(sealtest.Stored(t, "task-"+name, []byte(id)))
		if got, err := g.openTask(kept); err != nil || !reflect.DeepEqual(got, wantTask) {
			t.Errorf("task %s: got %+v, %v, want %+v", name, got, err, wantTask)
		}
	}
}

// TestKeptCursorsAreRead goes on with a list that an earlier build has begun, also after
// a cursor of a later one.
func TestKeptCursorsAreRead(t *testing.T) {
	t.Parallel()
	b, _ := newLibrary(t, everything())
	b.config.Seal = sealtest.Ring(t)
	caller := b.caller(t, alice)
	items := b.callerViewOf(caller).lists[listedTools].items
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
// replica of the old one says of what it cannot read that another replica may. It told
// clients that this was no state or task of theirs, so that they gave up calls which
// waited at the new ones.
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
