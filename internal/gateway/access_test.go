package gateway

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// differing are two generated policies of one tenant, over one server.
type differing struct {
	*rand.Rand

	before, after *Gateway
}

var (
	scopesOfTests   = []string{"a", "b", "c"}
	subjectsOfTests = []string{"i#x", "i#y"}
	patternsOfTests = []string{"box__one", "box__t*", "*", "box__three", "*e"}
)

func (d *differing) some(most int, words []string) []string {
	words = slices.Clone(words)
	d.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
	return words[:d.IntN(most+1)]
}

func (d *differing) rules() (all []Rule) {
	for range 1 + d.IntN(4) {
		r := Rule{Allow: d.some(2, patternsOfTests)}
		if d.IntN(3) > 0 {
			r.Scopes = d.some(2, scopesOfTests)
		}
		if d.IntN(3) == 0 {
			r.Subjects = d.some(2, subjectsOfTests)
		}
		if d.IntN(2) == 0 || len(r.Allow) == 0 {
			r.Deny = []string{patternsOfTests[d.IntN(len(patternsOfTests))]}
		}
		all = append(all, r)
	}
	return all
}

// deskWith returns a gateway with one tenant and, unless it is unread, what box offers.
func deskWith(t *testing.T, unread bool, tools []string, rules []Rule) *Gateway {
	t.Helper()
	catalogue := registry.New()
	source := registry.Source{Name: "box", Prefix: "box"}
	for _, tool := range tools {
		source.Tools = append(source.Tools, registry.Offer{
			Definition: object(`{"name":"` + tool + `","inputSchema":{"type":"object"}}`),
			Call:       func(context.Context, *registry.Call) (mcp.Object, error) { return texts("ok"), nil },
		})
	}
	if unread {
		catalogue.Lose("box", "box")
	} else {
		catalogue.Replace(source)
	}
	g := New(Config{Registry: catalogue})
	g.SetPolicy("", []TenantConfig{{ID: "acme", Servers: []string{"box"}, Rules: rules}})
	return g
}

// may tells whether a caller may use a tool, as the running gateway judges it.
func may(g *Gateway, p auth.Principal, tool string) bool {
	c, err := g.Resolve(p)
	return err == nil && g.callerViewOf(c).tool("box__"+tool) != nil
}

// claims are what Compare says of one tool: whose, and the kinds of callers that it is
// not true of.
type claim struct {
	loss    bool
	of      profile
	but     []profile
	decides string
}

func claimsOf(t *testing.T, found []Difference, tool string) (all []claim) {
	t.Helper()
	for _, d := range found {
		if !slices.Contains(d.names, "box__"+tool) {
			continue
		}
		who, but, excepted := strings.Cut(strings.TrimSuffix(d.who, ")"), " (but not ")
		c := claim{loss: d.Loss, of: profileNamed(t, who), decides: d.why}
		if excepted {
			for name := range strings.SplitSeq(but, ", ") {
				c.but = append(c.but, profileNamed(t, name))
			}
		}
		all = append(all, c)
	}
	return all
}

// profileNamed reads what String has written.
func profileNamed(t *testing.T, text string) (p profile) {
	t.Helper()
	who, scopes, _ := strings.Cut(text, " with the scopes ")
	p.scopes = strings.Fields(scopes)
	if who != "everyone" && who != "whoever comes" {
		var isSubject bool
		if p.issuer, p.subject, isSubject = strings.Cut(who, "#"); !isSubject {
			t.Fatalf("who is %q?", text)
		}
	}
	return p
}

// TestWhatPlanSaysIsWhatTheGatewayDoes compares generated policies, and asks gateways
// with each of them about every caller. Whoever is named gains or loses what is said, and
// whoever is excepted does not. Whoever gains or loses something is one of those who are
// named.
func TestWhatPlanSaysIsWhatTheGatewayDoes(t *testing.T) {
	t.Parallel()
	tools := []string{"one", "two", "three"}
	lines := 0
	for seed := range 1000 {
		d := differing{Rand: rand.New(rand.NewPCG(uint64(seed), 1))}
		before, after := d.rules(), d.rules()
		offered, offers := tools, tools
		if d.IntN(4) == 0 {
			offered, offers = tools[:2], tools[1:]
		}
		d.before, d.after = deskWith(t, false, offered, before), deskWith(t, false, offers, after)
		found, err := d.after.Compare(t.Context(), d.before.Access(), d.after.Access())
		if err != nil {
			t.Fatal(err)
		}
		changes := func(p auth.Principal, tool string) (loses, gains bool) {
			could, can := may(d.before, p, tool), may(d.after, p, tool)
			return could && !can, can && !could
		}
		for _, tool := range tools {
			claims := claimsOf(t, found, tool)
			lines += len(claims)
			for _, c := range claims {
				for i, p := range append([]profile{c.of}, c.but...) {
					loses, gains := changes(p.principal("acme"), tool)
					if is := c.loss && loses || !c.loss && gains; is != (i == 0) {
						t.Fatalf("seed %d: %v, of which %s is wrong\n%v\n%v", seed, found, p.String(), before,
							after)
					}
				}
			}
			for _, p := range callersOfTests() {
				loses, gains := changes(p.principal("acme"), tool)
				named := slices.ContainsFunc(claims,
					func(c claim) bool { return c.loss == loses && c.of.covers(&p) })
				if (loses || gains) && !named {
					t.Fatalf("seed %d: nobody says that %s loses (%t) or gains (%t) %s: %v\n%v\n%v", seed,
						p.String(),
						loses, gains, tool, found, before, after)
				}
			}
		}
	}
	if lines < 1000 {
		t.Errorf("%d lines were judged; the generator has to make more changes", lines)
	}
}

// callersOfTests returns all callers that rules of tests can tell apart.
func callersOfTests() (all []profile) {
	for _, subject := range append([]string{"i#other"}, subjectsOfTests...) {
		for set := range 1 << len(scopesOfTests) {
			p := profile{}
			p.issuer, p.subject, _ = strings.Cut(subject, "#")
			for i, scope := range scopesOfTests {
				if set&(1<<i) != 0 {
					p.scopes = append(p.scopes, scope)
				}
			}
			all = append(all, p)
		}
	}
	return all
}

// TestPlanSaysWhatDecides shows the words of each kind of difference.
func TestPlanSaysWhatDecides(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name          string
		unread        bool
		before, after []Rule
		want          []string
	}{
		{
			"a denial", false,
			[]Rule{{Allow: []string{"*"}}},
			[]Rule{{Allow: []string{"*"}}, {Deny: []string{"box__t*"}}},
			[]string{"tenant acme: everyone loses the tools box__three, box__two (rule 2 denies it)"},
		},
		{
			"a scope", false,
			[]Rule{{Allow: []string{"box__one"}}},
			[]Rule{{Allow: []string{"box__one"}, Scopes: []string{"a"}}},
			[]string{"tenant acme: everyone (but not whoever comes with the scopes a) loses the tool box__one " +
				"(rule 1 wants a)"},
		},
		{
			"for one person", false,
			[]Rule{{Deny: []string{"x"}}},
			[]Rule{{Allow: []string{"box__one"}, Subjects: []string{"i#x"}}},
			[]string{"tenant acme: i#x gains the tool box__one (rule 1 allows it)"},
		},
		{
			"the first of several rules that allow", false,
			[]Rule{{Deny: []string{"x"}}},
			[]Rule{{Deny: []string{"x"}}, {Allow: []string{"box__one"}}, {Allow: []string{"box__o*"}}},
			[]string{"tenant acme: everyone gains the tool box__one (rule 2 allows it)"},
		},
		{
			"nothing", false,
			[]Rule{{Allow: []string{"box__one", "box__two"}}},
			[]Rule{{Allow: []string{"box__two"}}, {Allow: []string{"box__one"}}},
			nil,
		},
		{
			"what nobody knows", true,
			[]Rule{{Allow: []string{"box__one"}}},
			[]Rule{{Allow: []string{"box__two"}}, {Scopes: []string{"a"}, Deny: []string{"*"}}},
			[]string{
				`tenant acme: everyone: no rule allows "box__one" now (rule 1; what box offers is not known)`,
				`tenant acme: whoever comes with the scopes a: a rule denies "*" now (rule 2; what box offers is not known)`,
				`tenant acme: everyone: a rule allows "box__two" now (rule 1; what box offers is not known)`,
			},
		},
	}
	for _, test := range tests {
		tools := []string{"one", "two", "three"}
		before, after := deskWith(t, test.unread, tools, test.before), deskWith(t, test.unread, tools,
			test.after)
		found, err := after.Compare(t.Context(), before.Access(), after.Access())
		var got []string
		for i := range found {
			got = append(got, found[i].Text(5))
		}
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, %v, want %q", test.name, got, err, test.want)
		}
	}
}

// TestPlanSaysThatALowRateChanges compares rates of a few calls a day.
func TestPlanSaysThatALowRateChanges(t *testing.T) {
	var desks []*Gateway
	for _, rate := range []float64{0.0001, 0.0002} {
		b, _ := newLibrary(t, TenantConfig{ID: "acme", Servers: []string{"lib"}, Limits: Limits{
			UserCalls: &ratelimit.Limit{Rate: rate, Burst: 2},
		}})
		desks = append(desks, b.Gateway)
	}
	found, err := desks[1].Compare(t.Context(), desks[0].Access(), desks[1].Access())
	const want = "the limit user_calls changes from 0.0001 a second, 2 at once to 0.0002 a second, 2 at once"
	if err != nil || len(found) != 1 || !strings.Contains(found[0].Text(5), want) {
		t.Errorf("got %v, %v, want %q", found, err, want)
	}
}

// TestPlanOfManyKindsOfCallersEnds has a thousand rules for as many people, and a denial
// for each of as many scopes.
func TestPlanOfManyKindsOfCallersEnds(t *testing.T) {
	t.Parallel()
	var rules []Rule
	for i := range 1000 {
		rules = append(rules, Rule{Allow: []string{"*"}, Subjects: []string{fmt.Sprintf("i#%d", i)}},
			Rule{Deny: []string{"*"}, Scopes: []string{fmt.Sprintf("s%d", i)}})
	}
	before := deskWith(t, false, []string{"one"}, rules)
	after := deskWith(t, false, []string{"one"}, rules[:500])
	found, err := after.Compare(t.Context(), before.Access(), after.Access())
	if err != nil || len(found) == 0 ||
		!strings.Contains(found[0].Text(5), "more kinds of callers than were looked at") {
		t.Errorf("got %v, %v, want differences that say they are not all", found, err)
	}
}
