package registry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// TestALostSourceKeepsItsNames lets two sources offer the same, and loses the one that
// stands first.
func TestALostSourceKeepsItsNames(t *testing.T) {
	for _, prefix := range []string{"", "same"} {
		r := registry.New()
		mustReplace(t, r, everything("a", prefix))
		mustReplace(t, r, everything("b", prefix))
		servers := []string{"a", "b"}
		before := r.Catalogue().View(servers)
		r.Unlist("a", r.Lose("a", prefix))
		lost := r.Catalogue().View(servers)
		if diff := cmp.Diff(names(before), names(lost)); diff != "" {
			t.Errorf("prefix %q: names moved: %s", prefix, diff)
		}
		if lost.Lists("a") || !lost.Lists("b") {
			t.Errorf("prefix %q: a listed %v, b listed %v; want b alone", prefix, lost.Lists("a"),
				lost.Lists("b"))
		}
		for _, tool := range lost.Tools {
			_, err := tool.Call(t.Context(), &registry.Call{Method: mcp.MethodToolsCall})
			if down, ok := errors.AsType[*registry.DownError](err); ok != (tool.Server == "a") || ok &&
				(down.Name != tool.Exposed || !down.Outage.Reached) {
				t.Errorf("prefix %q: call of %s of %s: got %v", prefix, tool.Exposed, tool.Server, err)
			}
		}
		r.Remove("a")
		for _, tool := range r.Catalogue().View(servers).Tools {
			if tool.Server != "b" {
				t.Errorf("prefix %q: %s is still of %s after its source was removed", prefix, tool.Exposed,
					tool.Server)
			}
		}
	}
}

func TestASourceThatIsBackInTimeIsNoChange(t *testing.T) {
	r := registry.New()
	mustReplace(t, r, everything("a", "a"))
	held := r.Catalogue().View([]string{"a"})
	changed := r.Changed()
	outage := r.Lose("a", "a")
	if again := r.Lose("a", "a"); again != outage {
		t.Errorf("lost twice: got another outage %+v, want %+v", again, outage)
	}
	mustReplace(t, r, everything("a", "a"))
	r.Unlist("a", outage) // comes too late
	select {
	case <-changed:
		t.Error("the catalogue changed")
	default:
	}
	if !r.Catalogue().View([]string{"a"}).Lists("a") {
		t.Error("a late Unlist took the items out of the lists")
	}
	if _, err := held.Tools[0].Call(t.Context(), &registry.Call{Method: mcp.MethodToolsCall}); err != nil {
		t.Errorf("call of a tool that was held meanwhile: %v", err)
	}
}

// TestAnOutageSaysSinceWhen loses a source, brings it back and loses it again.
func TestAnOutageSaysSinceWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := registry.New()
		began := time.Now()
		if got := r.Lose("a", "a"); !got.Since.Equal(began) || got.Reached {
			t.Errorf("never reached: got %+v", got)
		}
		time.Sleep(time.Minute)
		if got := r.Lose("a", "a"); !got.Since.Equal(began) {
			t.Errorf("still not reached: got %+v, want since %v", got, began)
		}
		mustReplace(t, r, source("a", "a")) // which offers nothing
		if got := r.Lose("a", "a"); !got.Since.Equal(began.Add(time.Minute)) || !got.Reached {
			t.Errorf("lost: got %+v, want since a minute later", got)
		}
	})
}

// TestASourceThatWasNotReachedHasItsForms asks for what nobody knows yet.
func TestASourceThatWasNotReachedHasItsForms(t *testing.T) {
	r := registry.New()
	mustReplace(t, r, library("open", "", nil, []string{"{+any}"}))
	mustReplace(t, r, source("known", "known", "x"))
	r.Lose("new", "pre")
	r.Lose("bare", "")
	view := r.Catalogue().View([]string{"open", "known", "new", "bare"})
	for _, test := range []struct {
		kind registry.Kind
		name string
		want string // policy name of the guess; "": there is none
	}{
		{registry.KindTool, "pre__read", "pre__read"},
		{registry.KindPrompt, "pre__read", "pre__read"},
		{registry.KindTool, "pre__", ""},
		{registry.KindTool, "new__read", ""},
		{registry.KindTool, "known__y", ""},
		{registry.KindTool, "read", ""},
		// too long for any exposed name
		{registry.KindTool, "pre__0123456789012345678901234567890123456789xyz", ""},
		{registry.KindTemplate, "mcp.new+file:///{x}", "new:file:///{x}"},
		{registry.KindTemplate, "mcp.bare+file:///{x}", ""},
		{registry.KindTemplate, "mcp.known+file:///{x}", ""},
	} {
		got := ""
		if guess := view.Unreached(test.kind, test.name); guess != nil {
			got = guess.PolicyName()
			if down := guess.Down(); down == nil || down.Outage.Reached || down.Kind != test.kind {
				t.Errorf("%s %s: got %+v, want a server that was not reached", test.kind, test.name, down)
			}
		}
		if got != test.want {
			t.Errorf("%s %s: got %q, want %q", test.kind, test.name, got, test.want)
		}
	}
	resource, err := view.Resource("mcp.new+file:///a")
	if err != nil || resource.Server != "new" {
		t.Fatalf(
			"resource by its form: got %+v, %v; want one of new, and not one of the server that takes any URI", resource, err)
	}
	if _, err := view.Resource("mcp.new+file:///../a"); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("a URI with dot segments: got %v, want ErrNotFound", err)
	}
	if _, err := resource.Subscribe(t.Context(), share.User{TenantID: "t"}, nil); !isDown(err) {
		t.Errorf("Subscribe: got %v, want a *DownError", err)
	}
	mustReplace(t, r, source("new", "pre", "other"))
	if guess := r.Catalogue().View([]string{"new"}).Unreached(registry.KindTool, "pre__read"); guess != nil {
		t.Errorf("after the server was reached: got %+v, want no guess", guess)
	}
}

func isDown(err error) bool {
	_, ok := errors.AsType[*registry.DownError](err)
	return ok
}

// TestURIsOfAServerThatWasNotReachedGoToNoOther asks for a URI in no list, which two
// servers without prefix may have: that nothing is known of one of them yet makes it not
// the other's.
func TestURIsOfAServerThatWasNotReachedGoToNoOther(t *testing.T) {
	r := registry.New()
	mustReplace(t, r, library("there", "", []string{"file:///known"}, nil))
	r.Lose("new", "")
	view := r.Catalogue().View([]string{"there", "new"})
	if got, err := view.Resource("file:///x"); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("a URI in no list: got one of %v, %v, want ErrNotFound", got, err)
	}
	if got, err := view.Resource("file:///known"); err != nil || got.Server != "there" {
		t.Errorf("a URI that is listed: got %v, %v, want one of the server that lists it", got, err)
	}
	alone, err := r.Catalogue().View([]string{"new"}).Resource("file:///x")
	if err != nil || alone.Down() == nil {
		t.Errorf("a URI that only the server that was not reached can have: got %v, %v, want that it is down",
			alone, err)
	}
	mustReplace(t, r, source("new", "", "tool"))
	if got, err := r.Catalogue().View([]string{"there", "new"}).Resource("file:///x"); err != nil ||
		got.Server != "there" {
		t.Errorf(
			"once the other is known to have no resources: got %v, %v, want one of the server that has some",
			got, err)
	}
}

// TestUnreadListsStayAsTheyWere replaces a lost source by what is known of it so far.
func TestUnreadListsStayAsTheyWere(t *testing.T) {
	r := registry.New()
	mustReplace(t, r, everything("a", "a"))
	before, changed := names(r.Catalogue().View([]string{"a"})), r.Changed()
	r.Lose("a", "a")
	half := everything("a", "a")
	half.Prompts, half.Resources, half.Templates = nil, nil, nil
	half.Unread = []registry.Kind{registry.KindPrompt, registry.KindResource, registry.KindTemplate}
	mustReplace(t, r, half)
	select {
	case <-changed:
		t.Error("the catalogue changed")
	default:
	}
	half.Unread = half.Unread[1:]
	mustReplace(t, r, half)
	view := r.Catalogue().View([]string{"a"})
	if len(view.Prompts) != 0 || len(names(view)) != len(before)-2 {
		t.Errorf("got %q, want all of %q but the prompts", names(view), before)
	}
}

// unread is what a server offers to each user before anybody has asked it.
type unread struct{}

func (unread) Lists(context.Context, *auth.Principal) (*registry.Lists, error) { return nil, nil }
func (unread) Known(*auth.Principal) *registry.Lists                           { return nil }

// TestListsOfAUserGoDownWithTheirServer shows that a tool which a server offers to one
// user is down while the server is, and there again once it is back.
func TestListsOfAUserGoDownWithTheirServer(t *testing.T) {
	r := registry.New()
	shared := source("a", "a", "tool")
	r.ReplacePersonal(shared, unread{})
	own, _ := r.NewLists(source("a", "a", "mine"))
	mine, err := r.Catalogue().ViewOf([]string{"a"}, map[string]*registry.Lists{"a": own}).Lookup("a__mine")
	if err != nil || mine.Down() != nil {
		t.Fatalf("got %v, %v, want a tool that is there", mine, err)
	}
	if r.Lose("a", "a"); mine.Down() == nil {
		t.Error("the tool is there although its server is lost")
	}
	if r.ReplacePersonal(shared, unread{}); mine.Down() != nil {
		t.Error("the tool is down although its server is back")
	}
}
