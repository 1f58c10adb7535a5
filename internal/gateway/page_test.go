package gateway

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// wide returns a source of so many tools, whose definitions have about 160 bytes each.
func wide(tools int) registry.Source {
	s := registry.Source{Name: "wide", Prefix: "wide"}
	for n := range tools {
		s.Tools = append(s.Tools,
			registry.Offer{Definition: object(
				fmt.Sprintf(`{"name":"tool_%04d","title":"T","description":"Number %d",`+
					`"inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}}`, n, n))})
	}
	return s
}

// tenantOf returns the id of a tenant of a test with many.
func tenantOf(n int) string { return fmt.Sprintf("tenant-%d", n) }

// listers returns tenants that see the tools of the servers, but for those that the
// patterns of deny name.
func listers(count int, servers []string, deny func(n int) []string) []TenantConfig {
	tenants := make([]TenantConfig, count)
	for n := range tenants {
		tenants[n] = TenantConfig{
			ID: tenantOf(n), Servers: servers,
			Rules: []Rule{{Allow: []string{"*"}, Deny: deny(n)}},
		}
	}
	return tenants
}

func nothing(int) []string { return nil }

// resolve returns a caller of a tenant.
func (b *bench) resolve(t testing.TB, tenant string) Caller {
	t.Helper()
	c, err := b.Resolve(auth.Principal{Issuer: "https://login.test/", Subject: "alice", TenantID: tenant})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// tools returns the text of the first page of a tenant's tools.
func (b *bench) tools(t testing.TB, tenant string, form *Form) mcp.RawJSON {
	t.Helper()
	result, failure := b.handleAs(t, b.resolve(t, tenant), &Request{Method: mcp.MethodToolsList, Form: form})
	if failure != nil {
		t.Fatal(failure)
	}
	return result.Value(mcp.ResultTools)
}

// untitled is a form without titles, which counts how often it was asked for.
func untitled(asked *int) *Form {
	return &Form{
		Revision: "untitled",
		Differs:  func(_ string, item mcp.RawJSON) bool { return strings.Contains(string(item), `"title"`) },
		Of: func(_ string, item mcp.RawJSON) mcp.RawJSON {
			*asked++
			definition, _ := mcp.ObjectOf(item)
			return definition.Without("title").JSON()
		},
	}
}

// TestTenantsThatSeeTheSameShareOneList shows that tenants to whom a list is the same
// have it in the same memory, and that others have another.
func TestTenantsThatSeeTheSameShareOneList(t *testing.T) {
	b := newBench(t, listers(4, []string{"box"},
		func(n int) []string { return [][]string{2: {"*plain"}, 3: nil}[n] })...)
	first := b.tools(t, tenantOf(0), nil)
	if again := b.tools(t, tenantOf(1), nil); &again[0] != &first[0] {
		t.Error("two tenants who see the same have two texts, want one")
	}
	if other := string(b.tools(t, tenantOf(2), nil)); strings.Contains(other, `plain"`) ||
		!strings.Contains(string(first), `plain"`) {
		t.Errorf("with one tool denied: %s, want all the others", other)
	}
}

// TestItemIsLoweredOnceForAllLists shows that an item is brought into a form once,
// however many different lists it is in, and that lists of another form do not have it.
func TestItemIsLoweredOnceForAllLists(t *testing.T) {
	b := newBench(t, listers(8, []string{"wide"},
		func(n int) []string { return []string{fmt.Sprintf("wide__tool_000%d", n)} })...)
	b.replace(t, wide(20))
	asked := 0
	for range 2 {
		for n := range 8 {
			got := string(b.tools(t, tenantOf(n), untitled(&asked)))
			if strings.Count(got, `"name":"wide__tool_`) != 19 ||
				strings.Contains(got, fmt.Sprintf("tool_000%d", n)) || strings.Contains(got, "title") {
				t.Fatalf("tenant %d sees %s, want 19 tools without titles and without the one denied", n, got)
			}
		}
	}
	if asked != 20 {
		t.Errorf("20 items were brought into the form %d times, want once each", asked)
	}
	if got := string(b.tools(t, tenantOf(0), nil)); strings.Count(got, `"title"`) != 19 {
		t.Errorf("in the form of the catalogue: %s, want the titles", got)
	}
}

// TestListsOfManyTenantsAreBounded lets more tenants list than there is room for, all of
// whom see something else.
func TestListsOfManyTenantsAreBounded(t *testing.T) {
	const tenants, limit = 200, 128 << 10
	b := newBench(t, listers(tenants, []string{"wide"},
		func(n int) []string { return []string{fmt.Sprintf("wide__tool_%04d", n)} })...)
	b.rendered = newRendered(pagePart * limit)
	b.replace(t, wide(tenants))
	asked := 0
	for range 2 {
		for n := range tenants {
			got := string(b.tools(t, tenantOf(n), untitled(&asked)))
			if strings.Count(got, `"name":"wide__tool_`) != tenants-1 ||
				strings.Contains(got, fmt.Sprintf("tool_%04d", n)) {
				t.Fatalf("tenant %d does not see all tools but its own: %s", n, got)
			}
		}
	}
	for name, held := range map[string]int64{
		"pages": b.rendered.pages.size,
		"items": b.rendered.shapes.size,
	} {
		if held <= 0 || held > limit {
			t.Errorf("%d bytes of %s are remembered, want some and at most %d", held, name, limit)
		}
	}
}

// TestListsAreForgottenWithTheirCatalogue shows that nothing is remembered of tenants and
// catalogues that are gone.
func TestListsAreForgottenWithTheirCatalogue(t *testing.T) {
	tenants := listers(1, []string{"wide"}, nothing)
	b := newBench(t, tenants...)
	b.replace(t, wide(20))
	asked := 0
	b.tools(t, tenantOf(0), untitled(&asked))
	b.SetPolicy("", tenants)
	if pages, items := b.rendered.pages.size, b.rendered.shapes.size; pages+items != 0 {
		t.Errorf("after a reload, %d bytes of pages and %d of items are remembered, want none", pages, items)
	}
	b.replace(t, wide(5))
	if got := string(b.tools(t, tenantOf(0), nil)); strings.Count(got, `"name":"wide__tool_`) != 5 {
		t.Errorf("after a change: %s, want five tools", got)
	}
}

// TestListTakesMemoryOfWhoAsksFirst shows that a list that has to be made counts as
// memory of who asked for it, and one that is there already does not.
func TestListTakesMemoryOfWhoAsksFirst(t *testing.T) {
	b := newBench(t, listers(1, []string{"wide"}, nothing)...)
	b.replace(t, wide(200))
	caller := b.resolve(t, tenantOf(0))
	ask := func(room *share.Reservation) *mcp.Error {
		_, failure := b.handleAs(t, caller, &Request{Method: mcp.MethodToolsList, Memory: room})
		return failure
	}
	if failure := ask(share.New(1 << 10).Reserve(share.User{TenantID: "t", Subject: "s"})); stable(
		failure) != "DB-LIMIT-MEMORY" && stable(failure) != "DB-OVERLOAD-MEMORY" {
		t.Errorf("without memory: %v, want a refusal", failure)
	}
	room := share.New(1 << 30).Reserve(share.User{TenantID: "t", Subject: "s"})
	if failure := ask(room); failure != nil || room.Size() < 30<<10 {
		t.Errorf("with memory: %v, and %d bytes are held, want those of the list", failure, room.Size())
	}
	again := share.New(1 << 10).Reserve(share.User{TenantID: "t", Subject: "s"})
	if failure := ask(again); failure != nil || again.Size() != 0 {
		t.Errorf("for the second time: %v, and %d bytes are held, want none", failure, again.Size())
	}
}

// TestTenantsWithTheSameRightsShareOneGrant shows that tenants with the same servers to
// whom the same is allowed share what is worked out for that, by whatever rules, while
// the limits of each hold for it alone; and that a reload leaves nothing behind.
func TestTenantsWithTheSameRightsShareOneGrant(t *testing.T) {
	tenants := listers(3, []string{"box"}, func(n int) []string { return [][]string{2: {"*plain"}}[n] })
	tenants[1].Rules = []Rule{{Allow: []string{"box__*"}, Deny: []string{"*none"}}}
	tenants[1].Limits.Tools = map[string]ratelimit.Limit{"*plain": {}}
	b := newBench(t, tenants...)
	first, same, other := b.resolve(t, tenantOf(0)), b.resolve(t, tenantOf(1)), b.resolve(t, tenantOf(2))
	if b.callerViewOf(first) != b.callerViewOf(same) || b.callerViewOf(first) == b.callerViewOf(other) {
		t.Error("want one view for those two who see the same, and another for the third")
	}
	for _, test := range []struct {
		caller Caller
		code   string
	}{{first, ""}, {same, "DB-LIMIT-TOOL"}, {other, "DB-TOOL"}} {
		_, failure := b.handleAs(t, test.caller, request("box__plain", "{}"))
		if stable(failure) != test.code {
			t.Errorf("%s calls a tool: %v, want %q", test.caller.Tenant.ID, failure, test.code)
		}
	}
	b.SetPolicy("", tenants)
	b.callerViews.known.Range(func(key, _ any) bool {
		t.Errorf("a view is left after a reload: %v", key)
		return true
	})
}

// TestViewsOfOneTenantAreBounded has callers with every set of scopes, to each of whom
// another set of tools is allowed.
func TestViewsOfOneTenantAreBounded(t *testing.T) {
	const tools = 12
	tenant := TenantConfig{ID: "acme", Servers: []string{"wide"}}
	for n := range tools {
		tenant.Rules = append(tenant.Rules, Rule{
			Scopes: []string{fmt.Sprint(n)}, Allow: []string{fmt.Sprintf("wide__tool_%04d", n)},
		})
	}
	b := newBench(t, tenant)
	b.replace(t, wide(tools))
	for set := range 1 << tools {
		who := alice
		who.Scopes = nil
		for n := range tools {
			if set>>n&1 == 1 {
				who.Scopes = append(who.Scopes, fmt.Sprint(n))
			}
		}
		c, err := b.Resolve(who)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(b.callerViewOf(c).tools); got != len(who.Scopes) {
			t.Fatalf("with the scopes %v: got %d tools, want as many", who.Scopes, got)
		}
	}
	kept := 0
	b.callerViews.known.Range(func(any, any) bool { kept++; return true })
	if kept > maxCallerViews {
		t.Errorf("got %d views remembered, want at most %d", kept, maxCallerViews)
	}
}

// TestInlinedListIsAnother shows that a tenant whose tools are shown without references
// shares no list with others.
func TestInlinedListIsAnother(t *testing.T) {
	tenants := listers(2, []string{"refs"}, nothing)
	tenants[1].InlineRefs = true
	b := newBench(t, tenants...)
	b.replace(t, registry.Source{Name: "refs", Tools: []registry.Offer{{Definition: object(
		`{"name":"t","inputSchema":{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":"string"}}}}`)}}})
	for range 2 {
		for n, refs := range []bool{true, false} {
			if got := string(b.tools(t, tenantOf(n), nil)); strings.Contains(got, "$ref") != refs {
				t.Errorf("tenant %d sees %s, want references: %v", n, got, refs)
			}
		}
	}
}

// TestListsChangeWhileTheyAreRead lets many list while the catalogue and the tenants
// change: each gets one state of the catalogue, whole.
func TestListsChangeWhileTheyAreRead(t *testing.T) {
	tenants := listers(4, []string{"wide"}, nothing)
	b := newBench(t, tenants...)
	b.rendered = newRendered(pagePart * 8 << 10) // too little for all
	b.replace(t, wide(20))
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			asked := 0
			for range 200 {
				if got := strings.Count(string(b.tools(t, tenantOf(n), untitled(&asked))),
					`"name":"wide__tool_`); got != 20 && got != 10 {
					t.Errorf("%d tools, want 20 or 10", got)
				}
			}
		})
	}
	for n := range 50 {
		b.replace(t, wide([]int{10, 20}[n%2]))
		b.SetPolicy("", tenants)
	}
	all.Wait()
}
