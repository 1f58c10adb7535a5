package modern

import (
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/notices"
)

// TestAStateThatComesMeanwhileIsKept puts a later state of a task, and that of another
// task, while the client is about to be told of the first.
func TestAStateThatComesMeanwhileIsKept(t *testing.T) {
	t.Parallel()
	memory := share.New(1 << 20)
	sub := &subscription{memory: notices.Memory{Budget: memory, User: share.User{TenantID: "acme"}}}
	put := func(id, text string) {
		t.Helper()
		if !sub.tasks.Put(sub.memory, id, notices.State{Text: []byte(text)}) {
			t.Fatalf("%s: no room", id)
		}
	}
	next := func(want string) (forget func()) {
		t.Helper()
		id, state, ok := sub.first(&sub.tasks)
		if got := id + " " + string(state); got != want || !ok {
			t.Errorf("got %s, want %s", got, want)
		}
		return func() { sub.forget(&sub.tasks, id) }
	}
	put("b", "1")
	forget := next("b 1")
	put("b", "2")
	forget()
	next("b 2") // its client does not take it yet
	put("a", "1")
	next("a 1")()
	next("b 2")()
	if _, _, more := sub.first(&sub.tasks); more || memory.InUse() != 0 {
		t.Errorf("there are more: %t, and %d bytes are held, want none", more, memory.InUse())
	}
}

// TestLittleIsKeptOfWhatAListenerSaysOfItself: it stays for as long as a subscription,
// and nothing counts it.
func TestLittleIsKeptOfWhatAListenerSaysOfItself(t *testing.T) {
	t.Parallel()
	long := mcp.String(strings.Repeat("x", 1<<20))
	info := mcp.NewObject(mcp.Member{Name: "name", Value: long}, mcp.Member{Name: "version", Value: long})
	x := &exchange.Exchange{Meta: mcp.NewObject(mcp.Member{Name: mcp.MetaClientInfo, Value: info.JSON()})}
	r := requestOfListener(t.Context(), x)
	if kept := len(r.Client) + len(r.From.Name) + len(r.From.Version); kept > 1<<10 || r.Client == "" {
		t.Errorf("%d bytes are kept", kept)
	}
}
