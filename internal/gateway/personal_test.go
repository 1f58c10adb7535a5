package gateway

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
)

// personalServer is a server that offers each user what a test says.
type personalServer struct {
	registry *registry.Registry
	offers   map[string]*registry.Lists // by subject
	fails    error
}

func (w *personalServer) Lists(_ context.Context, p *auth.Principal) (*registry.Lists, error) {
	own := w.offers[p.Subject]
	if own == nil {
		return nil, w.fails
	}
	return own, nil
}

func (w *personalServer) Known(p *auth.Principal) *registry.Lists { return w.offers[p.Subject] }

func (w *personalServer) offer(t *testing.T, subject string, tools ...string) {
	t.Helper()
	s := registry.Source{Name: "own", Prefix: "own"}
	for _, name := range tools {
		s.Tools = append(s.Tools, registry.Offer{
			Definition: object(`{"name":"` + name + `","inputSchema":{"type":"object"}}`), Timeout: time.Minute,
			Call: func(context.Context, *registry.Call) (mcp.Object, error) {
				return object(`{"content":[{"type":"text","text":"` + name + ` of ` + subject + `"}]}`), nil
			},
		})
	}
	lists, refused := w.registry.NewLists(s)
	if len(refused) > 0 {
		t.Fatal(refused)
	}
	w.offers[subject] = lists
}

// TestEachUserSeesListsOfTheirOwn has a server offer users different things. The rules
// hold for each of them, a change is told to whom it concerns, and where the server does
// not say what it offers, a call learns why and a stranger nothing.
func TestEachUserSeesListsOfTheirOwn(t *testing.T) {
	b := newBench(t, TenantConfig{
		ID: "acme", Servers: []string{"own", "box"},
		Rules: []Rule{{Allow: []string{"*"}, Deny: []string{"own__secret"}}},
	})
	w := &personalServer{
		registry: b.registry, offers: map[string]*registry.Lists{},
		fails: &registry.UnavailableError{Server: "own", Credential: credential.FaultExchange, Err: context.Canceled},
	}
	all := []registry.Kind{registry.KindTool, registry.KindPrompt, registry.KindResource}
	if refused := b.registry.ReplacePersonal(
		registry.Source{Name: "own", Prefix: "own", Unread: all}, w); len(refused) > 0 {
		t.Fatal(refused)
	}
	bob := alice
	bob.Subject = "bob"
	w.offer(t, alice.Subject, "one", "secret")
	w.offer(t, "bob", "one", "two")
	admit := func(p auth.Principal) Caller {
		t.Helper()
		c, err := b.Admit(t.Context(), p, 1)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	call := func(p auth.Principal, tool string) string {
		t.Helper()
		result, failure := b.handleAs(t, admit(p), ask(mcp.MethodToolsCall, `{"name":"`+tool+`","arguments":{}}`))
		if failure != nil {
			return failure.StableCode()
		}
		return string(result.JSON())
	}
	list := func(p auth.Principal) string {
		t.Helper()
		result, failure := b.handleAs(t, admit(p), ask(mcp.MethodToolsList, `{}`))
		if failure != nil || result.Text("cacheScope") != "private" {
			t.Fatalf("got %v, %v, want a list that is private", result, failure)
		}
		return string(result.JSON())
	}
	for _, test := range []struct {
		who  auth.Principal
		has  string
		want bool
	}{
		{alice, "own__one", true},
		{alice, "own__two", false},
		{alice, "own__secret", false},
		{bob, "own__one", true},
		{bob, "own__two", true},
		{alice, "box__", true},
	} {
		if got := list(test.who); strings.Contains(got, test.has) != test.want {
			t.Errorf("%s: got %s, want %s in it: %v", test.who.Subject, got, test.has, test.want)
		}
	}
	for _, test := range []struct {
		who        auth.Principal
		tool, want string
	}{
		{alice, "own__one", "one of " + alice.Subject},
		{bob, "own__one", "one of bob"},
		{bob, "own__two", "two of bob"},
		{alice, "own__two", "DB-TOOL"},
		{alice, "own__secret", "DB-TOOL"},
	} {
		if got := call(test.who, test.tool); !strings.Contains(got, test.want) {
			t.Errorf("%s calls %s: got %s, want %s", test.who.Subject, test.tool, got, test.want)
		}
	}
	before, other := b.Lists(admit(alice)), b.Lists(admit(bob))
	changed := b.registry.Changed()
	w.offer(t, "bob", "one", "two", "three")
	b.registry.Renew("own")
	select {
	case <-changed:
	default:
		t.Error("got no word of the change, want one")
	}
	if b.Lists(admit(alice)) != before || b.Lists(admit(bob))[digestOfTools] == other[digestOfTools] {
		t.Error("got another list for alice or the same for bob, want the change told to bob alone")
	}
	stranger := alice
	stranger.Subject = "stranger"
	for tool, want := range map[string]string{"own__one": "DB-UPSTREAM-TOKEN", "own__secret": "DB-TOOL"} {
		if got := call(stranger, tool); got != want {
			t.Errorf("a stranger calls %s: got %s, want %s", tool, got, want)
		}
	}
	w.fails = nil // it takes longer than a request waits
	for tool, want := range map[string]string{
		"own__one": "DB-UPSTREAM-DOWN", "own__secret": "DB-TOOL", "none__one": "DB-TOOL",
	} {
		if got := call(stranger, tool); got != want {
			t.Errorf("a stranger calls %s of whom nothing is known yet: got %s, want %s", tool, got, want)
		}
	}
	// another replica has made the call, and this one does not know the user's lists
	for tool, want := range map[string]string{"own__one": "", "own__secret": "DB-TOOL"} {
		err := b.Repeat(t.Context(), b.caller(t, stranger), request(tool, `{}`))
		got := ""
		if err != nil {
			got = asError(t, err).StableCode()
		}
		if got != want {
			t.Errorf("a stranger asks for an answer of %s again: got %s, want %s", tool, got, want)
		}
	}
}

// awaited is a server that answers once all others are asked, too.
type awaited struct{ all *sync.WaitGroup }

func (a *awaited) Lists(ctx context.Context, _ *auth.Principal) (*registry.Lists, error) {
	a.all.Done()
	asked := make(chan struct{})
	go func() {
		a.all.Wait()
		close(asked)
	}()
	select {
	case <-asked:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (a *awaited) Known(*auth.Principal) *registry.Lists { return nil }

// TestSlowServersAreAskedAtOnce has three servers with lists for each user, of which each
// waits for the others: a request waits for the slowest, and not for one after the other.
func TestSlowServersAreAskedAtOnce(t *testing.T) {
	names := []string{"one", "two", "three"}
	b := newBench(t, TenantConfig{ID: "acme", Servers: names, Rules: []Rule{{Allow: []string{"*"}}}})
	all := &sync.WaitGroup{}
	all.Add(len(names))
	for _, name := range names {
		b.registry.ReplacePersonal(registry.Source{Name: name, Prefix: name}, &awaited{all})
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	caller, err := b.Admit(ctx, alice, 1)
	if err != nil || ctx.Err() != nil || len(caller.personal.why) > 0 {
		t.Errorf("got %v, %v, want each server asked before the first has answered", err, caller.personal.why)
	}
}

// TestGrantsOfPersonalListsAreBounded has users who are offered the same, and to each of
// whom other rules apply: no more views are remembered than of lists for all.
func TestGrantsOfPersonalListsAreBounded(t *testing.T) {
	b := newBench(t, TenantConfig{ID: "acme", Servers: []string{"own"}, Rules: []Rule{{Allow: []string{"*"}}}})
	w := &personalServer{registry: b.registry, offers: map[string]*registry.Lists{}}
	b.registry.ReplacePersonal(registry.Source{Name: "own", Prefix: "own"}, w)
	w.offer(t, alice.Subject, "one")
	caller, err := b.Admit(t.Context(), alice, 1)
	if err != nil {
		t.Fatal(err)
	}
	s := b.tenantViewOf(&caller)
	for i := range maxCallerViews + 100 {
		caller.rules = ruleSet("\x01" + strconv.Itoa(i)) // the first is that of the one rule
		if made := b.callerViewIn(s, caller); made.tool("own__one") == nil {
			t.Fatal("got a view without the tool, want one with it")
		}
	}
	kept := 0
	s.callers.known.Range(func(any, any) bool { kept++; return true })
	if kept > maxCallerViews {
		t.Errorf("got %d views remembered, want at most %d", kept, maxCallerViews)
	}
}

// panicking is a server at whose lists the gateway itself fails.
type panicking struct{}

func (panicking) Lists(context.Context, *auth.Principal) (*registry.Lists, error) {
	panic("a fault of ours")
}
func (panicking) Known(*auth.Principal) *registry.Lists { return nil }

// TestPanicAtOneOfSeveralListsIsTheRequests has the lists of several servers be asked for
// at once: a panic reaches the request, which recovers from it, and ends no process.
func TestPanicAtOneOfSeveralListsIsTheRequests(t *testing.T) {
	names := []string{"one", "two", "three"}
	for _, bad := range names {
		b := newBench(t, TenantConfig{ID: "acme", Servers: names, Rules: []Rule{{Allow: []string{"*"}}}})
		all := &sync.WaitGroup{}
		all.Add(2)
		for _, name := range names {
			if name == bad {
				b.registry.ReplacePersonal(registry.Source{Name: name, Prefix: name}, panicking{})
			} else {
				b.registry.ReplacePersonal(registry.Source{Name: name, Prefix: name}, &awaited{all})
			}
		}
		func() {
			defer func() {
				if got := recover(); got != "a fault of ours" {
					t.Errorf("at %s: got %v, want the panic", bad, got)
				}
			}()
			_, _ = b.Admit(t.Context(), alice, 1)
		}()
	}
}

// forgetful is a server that has to be asked each time what it offers a user, as after a
// new connection to it.
type forgetful struct{ *personalServer }

func (forgetful) Known(*auth.Principal) *registry.Lists { return nil }

// TestATaskIsFollowedWhileItsServerHasToBeAsked follows a task of a server that has lists
// for each user, and that offers its user nothing that is known. The rules still hold.
func TestATaskIsFollowedWhileItsServerHasToBeAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tenant := TenantConfig{ID: "acme", Servers: []string{"own"}, Rules: []Rule{{Allow: []string{"*"}}}}
		b := newBench(t, tenant)
		w := &personalServer{registry: b.registry, offers: map[string]*registry.Lists{}}
		all := []registry.Kind{registry.KindTool, registry.KindPrompt, registry.KindResource}
		b.registry.ReplacePersonal(registry.Source{Name: "own", Prefix: "own", Unread: all}, forgetful{w})
		var status atomic.Value
		status.Store("working")
		lists, _ := b.registry.NewLists(registry.Source{Name: "own", Prefix: "own", Tools: []registry.Offer{{
			Definition: object(`{"name":"one","inputSchema":{"type":"object"}}`), Timeout: time.Minute,
			Tasks: mcp.TasksGiven,
			Call: func(context.Context, *registry.Call) (mcp.Object, error) {
				return object(`{"taskId":"own-1","status":"` + status.Load().(string) + `"}`), nil
			},
		}}})
		w.offers[alice.Subject] = lists
		id, err := b.seal(purposeTask, &task{
			Owner: alice.Owner().Digest(), Form: mcp.TasksGiven, Server: "own", Tool: "own__one", Own: "own-1",
		})
		if err != nil {
			t.Fatal(err)
		}
		caller, err := b.Admit(t.Context(), alice, 0)
		if err != nil {
			t.Fatal(err)
		}
		told := make(chan string, 9)
		followed, err := b.FollowTask(t.Context(), caller, knowing(mcp.TasksGiven, "", `{}`), id,
			func(state mcp.Object) bool { told <- state.Text("status"); return true })
		if err != nil {
			t.Fatal(err)
		}
		if got := <-told; got != "working" {
			t.Errorf("told %q, want what it is", got)
		}
		now := func() Caller {
			t.Helper()
			c, err := b.Resolve(alice)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		if !followed.Allows(now()) {
			t.Error("the task is not followed any more, though nothing says that it is not offered")
		}
		status.Store("cancelled")
		select {
		case got := <-told:
			if got != "cancelled" {
				t.Errorf("told %q, want how it ended", got)
			}
		case <-time.After(time.Minute):
			t.Error("nothing was told of its end")
		}
		tenant.Rules = []Rule{{Allow: []string{"*"}, Deny: []string{"own__one"}}}
		b.SetPolicy("", []TenantConfig{tenant})
		if followed.Allows(now()) {
			t.Error("the task of a tool that is denied is followed")
		}
		followed.Stop()
	})
}
