package gateway

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// Access is who may use what: a policy, and what servers offer.
type Access struct {
	tenants   *directory
	catalogue *registry.Catalogue
}

// Access returns that of the moment.
func (g *Gateway) Access() Access { return Access{g.tenants.Load(), g.config.Registry.Catalogue()} }

// Difference is one thing that changes for callers of a tenant.
type Difference struct {
	Tenant string
	Loss   bool // somebody may do less than before

	who, what string
	names     []string // of items; nil where what says all
	why       string   // "" for none
}

// Text says the difference in words, with at most that many names of items.
func (d *Difference) Text(most int) string {
	text := "tenant " + d.Tenant + ": " + d.who + d.what
	if names := d.names; len(names) > most {
		text += fmt.Sprintf(" %s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	} else if len(names) > 0 {
		text += " " + strings.Join(names, ", ")
	}
	if d.why != "" {
		text += " (" + d.why + ")"
	}
	return text
}

// Compare returns what callers gain and lose between two states of access, tenant by
// tenant in the order of their ids, losses first. Who may use an item is for the loop
// over the rules to say that judges calls. Where it is not known what a server offers,
// the patterns are compared that could name something of it. The work takes turns with
// that of calls. The error is that of the context.
func (g *Gateway) Compare(ctx context.Context, before, after Access) ([]Difference, error) {
	ids := slices.Concat(before.tenants.ids, after.tenants.ids)
	slices.Sort(ids)
	var all []Difference
	for _, id := range slices.Compact(ids) {
		c := comparison{g: g, id: id, before: before.of(id), after: after.of(id)}
		if c.before.t == c.after.t && c.before.view == c.after.view {
			continue
		}
		if err := c.run(ctx); err != nil {
			return nil, err
		}
		all = append(all, c.found...)
	}
	return all, nil
}

// side is one tenant in a state of access.
type side struct {
	t         *Tenant // without servers and rules where the tenant is not served
	view      *registry.View
	directory *directory
}

func (a Access) of(id string) side {
	t := a.tenants.byID[id]
	if t == nil {
		t = &Tenant{ID: id}
	}
	return side{t, a.catalogue.View(t.servers), a.tenants}
}

// serves tells whether the tenant is served at all.
func (s *side) serves() bool { return s.directory.byID[s.t.ID] != nil }

// comparison compares one tenant.
type comparison struct {
	g             *Gateway
	id            string
	before, after side
	found         []Difference
}

func (c *comparison) add(d Difference) {
	d.Tenant = c.id
	c.found = append(c.found, d)
}

func (c *comparison) run(ctx context.Context) error {
	switch was, is := c.before.serves(), c.after.serves(); {
	case is && !was:
		c.add(Difference{what: "is new"})
	case was && !is:
		c.add(Difference{Loss: true, what: "is served no more"})
	default:
		c.limits()
	}
	c.servers()
	if err := c.items(ctx); err != nil {
		return err
	}
	c.patterns()
	place := map[bool]int{true: 0, false: 1} // losses come first
	slices.SortStableFunc(c.found, func(a, b Difference) int { return place[a.Loss] - place[b.Loss] })
	return nil
}

// limits compares the limits, those of tools included.
func (c *comparison) limits() {
	was, is := c.before.t.allLimits(), c.after.t.allLimits()
	both := maps.Clone(was)
	maps.Copy(both, is)
	for _, name := range slices.Sorted(maps.Keys(both)) {
		if a, b := limitIn(was, name), limitIn(is, name); a != b {
			c.add(Difference{
				Loss: is[name].Never && !was[name].Never,
				what: fmt.Sprintf("the limit %s changes from %s to %s", name, a, b),
			})
		}
	}
}

// limitIn says the limit of that setting in words.
func limitIn(all map[string]LimitSays, setting string) string {
	l, set := all[setting]
	if !set {
		return "none"
	}
	return strings.TrimPrefix(l.String(), setting+": ")
}

// allLimits returns all limits of the tenant by their settings.
func (t *Tenant) allLimits() map[string]LimitSays {
	all := make(map[string]LimitSays)
	for _, l := range append(t.limitsOf(func(string) bool { return true }),
		LimitSays{Setting: "streams", Slots: t.streams, Never: t.streams == 0},
		LimitSays{Setting: "sessions", Slots: t.sessions, Never: t.sessions == 0},
		LimitSays{Setting: "user_sessions", Slots: t.ofUser, Never: t.ofUser == 0},
	) {
		all[l.Setting] = l
	}
	return all
}

// servers compares which servers the tenant can reach.
func (c *comparison) servers() {
	gone, added := without(c.before.t.servers, c.after.t.servers), without(c.after.t.servers,
		c.before.t.servers)
	if len(gone) > 0 {
		c.add(Difference{Loss: true, what: "no longer reaches", names: gone})
	}
	if len(added) > 0 {
		c.add(Difference{what: "reaches also", names: added})
	}
}

// judgedAtOnce is how many items are judged in one turn.
const judgedAtOnce = 64

// itemKey names an item on both sides.
type itemKey struct {
	kind registry.Kind
	name string
}

// items compares who may use which item.
func (c *comparison) items(ctx context.Context) error {
	was, is := c.before.offers(), c.after.offers()
	both := maps.Clone(was)
	maps.Copy(both, is)
	keys := slices.SortedFunc(maps.Keys(both), func(a, b itemKey) int {
		return cmp.Or(strings.Compare(string(a.kind), string(b.kind)), strings.Compare(a.name, b.name))
	})
	w := itemWork{c: c, known: make(map[[3]string][]change), groups: make(map[change]int)}
	for some := range slices.Chunk(keys, judgedAtOnce) {
		release, err := c.turn(ctx, len(some))
		if err != nil {
			return err
		}
		for _, key := range some {
			w.compare(key, was[key], is[key])
		}
		release()
	}
	return nil
}

// itemWork is what comparing items has found so far.
type itemWork struct {
	c *comparison
	// by the kind of an item and what every rule says of it on both sides: callers are
	// looked for once for all items of which that is the same, as it mostly is
	known  map[[3]string][]change
	groups map[change]int // place in c.found
}

// compare compares one item, which is nil on a side that does not have it.
func (w *itemWork) compare(key itemKey, was, is *registry.Item) {
	if was == nil && w.c.before.isOpen(is) || is == nil && w.c.after.isOpen(was) {
		return // it may be there on both sides
	}
	before, after := w.c.before.saidOf(was), w.c.after.saidOf(is)
	alike := [...]string{string(key.kind), before, after}
	changes, judged := w.known[alike]
	if !judged {
		changes = w.c.changes(was, is, before, after)
		w.known[alike] = changes
	}
	for _, ch := range changes {
		ch.kind = key.kind
		if _, there := w.groups[ch]; !there {
			w.groups[ch] = len(w.c.found)
			w.c.add(ch.difference())
		}
		d := &w.c.found[w.groups[ch]]
		if d.names = append(d.names, key.name); len(d.names) == 2 {
			d.what += "s" // of the kind
		}
	}
}

// perPattern is about how long it takes to compare a name with a pattern.
const perPattern = 50 * time.Nanosecond

// turn waits until it is this comparison's turn to keep a processor busy with that many
// items.
func (c *comparison) turn(ctx context.Context, items int) (release func(), err error) {
	rules := len(c.before.t.rules) + len(c.after.t.rules)
	estimate := time.Duration(items*rules) * 2 * perPattern
	release, err = c.g.config.Turns.Finish(ctx, share.Server("(comparison)"), estimate)
	if err == nil && ctx.Err() != nil {
		release()
		return nil, ctx.Err()
	}
	return release, err
}

// offers returns the items of the tenant's servers but skills.
func (s *side) offers() map[itemKey]*registry.Item {
	all := make(map[itemKey]*registry.Item, itemsOf(s.view))
	for _, item := range itemsIn(s.view) {
		if item.Kind != registry.KindSkill {
			all[itemKey{item.Kind, item.Exposed}] = item
		}
	}
	return all
}

// isOpen tells whether the server of an item is one of the tenant's, and it is not known
// whether it offers the item. It is false for no item.
func (s *side) isOpen(item *registry.Item) bool {
	return item != nil && slices.Contains(s.t.servers, item.Server) && !s.view.Listed(item.Server, item.Kind)
}

// saidOf returns what each rule says of an item to those to whom it applies: the effect
// of the first in the first byte. It is "-" for no item.
func (s *side) saidOf(item *registry.Item) string {
	if item == nil {
		return "-"
	}
	n := policyNameOf(item)
	everyRule := ruleSet(strings.Repeat("\x01", len(s.t.conditions)))
	var said strings.Builder
	s.t.judge(everyRule, &n, func(_ int, e effect) { said.WriteByte(byte(e)) })
	return said.String()
}

// with returns the rules that have that effect, where saidOf returned said.
func (s *side) with(e effect, said string) (rules []*rule) {
	for i := range said {
		if effect(said[i]) == e {
			rules = append(rules, &s.t.rules[i])
		}
	}
	return rules
}

// change is what changes for some callers, of an item of that kind.
type change struct {
	kind     registry.Kind
	gains    bool
	who, why string
	cut      bool // there are more kinds of callers than were looked at
}

func (ch *change) difference() Difference {
	what := " loses "
	if ch.gains {
		what = " gains "
	}
	d := Difference{Loss: !ch.gains, who: ch.who, what: what + "the " + string(ch.kind), why: ch.why}
	if ch.cut {
		d.why += "; there are more kinds of callers than were looked at"
	}
	return d
}

// changes returns for whom it changes whether they may use an item, which is nil on a
// side that does not have it. before and after are what the rules say of it.
func (c *comparison) changes(was, is *registry.Item, before, after string) (all []change) {
	kinds, whole := profilesOf(
		slices.Concat(c.before.with(allowing, before), c.after.with(allowing, after)),
		slices.Concat(c.before.with(denying, before), c.after.with(denying, after)))
	lost, gained := make([]bool, len(kinds)), make([]bool, len(kinds))
	why := make([]string, len(kinds))
	for i := range kinds {
		could, _ := c.before.decides(was, &kinds[i])
		can, because := c.after.decides(is, &kinds[i])
		lost[i], gained[i], why[i] = could && !can, can && !could, because
	}
	for _, one := range []struct {
		gains bool
		has   []bool
	}{{false, lost}, {true, gained}} {
		but := widest(kinds, one.has, false)
		for _, i := range widest(kinds, one.has, true) {
			who := kinds[i].String() + exceptions(kinds, but, i)
			all = append(all, change{gains: one.gains, who: who, why: why[i], cut: !whole})
		}
	}
	return all
}

// maxExceptions is how many kinds of callers are named of which something is not true.
const maxExceptions = 8

// exceptions names those of but who are of the kind i, too.
func exceptions(all []profile, but []int, i int) string {
	var names []string
	for _, j := range but {
		if j != i && all[i].covers(&all[j]) {
			names = append(names, all[j].String())
		}
	}
	if len(names) == 0 {
		return ""
	}
	if more := len(names) - maxExceptions; more > 0 {
		names = append(names[:maxExceptions], fmt.Sprintf("%d others", more))
	}
	return " (but not " + strings.Join(names, ", ") + ")"
}

// decides tells whether callers of a kind may use an item, and what decides that.
func (s *side) decides(item *registry.Item, p *profile) (allowed bool, because string) {
	switch {
	case item == nil && !s.serves():
		return false, "the tenant is served no more"
	case item == nil:
		return false, "no server of the tenant offers it"
	}
	n := policyNameOf(item)
	c := Caller{Principal: p.principal(s.t.ID), Tenant: s.t}
	c.rules = s.t.matching(&c.Principal)
	allowed, by := s.t.judge(c.rules, &n, nil)
	if allowed {
		return true, s.directory.locationOf(s.t, by) + " allows it"
	}
	reason, by, missing := s.t.whyNot(&c, &n)
	switch {
	case reason == reasonDenied:
		return false, s.directory.locationOf(s.t, by) + " denies it"
	case by >= 0:
		return false, s.directory.locationOf(s.t, by) + " wants " + strings.Join(missing, " ")
	}
	return false, "no rule allows it"
}

// openPattern is a pattern that may name what nobody knows, and for whom it is.
type openPattern struct {
	who     string
	deny    bool
	pattern string
}

// patterns compares the patterns that could name something of servers whose items are not
// known.
func (c *comparison) patterns() {
	was, is := c.openPatterns(&c.before), c.openPatterns(&c.after)
	c.onlyIn(was, is, "no", true)
	c.onlyIn(is, was, "a", false)
}

// onlyIn notes the patterns of one side that the other does not have. article is that of
// the rule, of which there is one now or, if it is gone, none.
func (c *comparison) onlyIn(one, other openPatterns, article string, gone bool) {
	verb := map[bool]string{false: "allows", true: "denies"}
	for _, p := range one.order {
		if _, there := other.positions[p]; !there {
			c.add(Difference{
				Loss: p.deny != gone, who: p.who, why: one.positions[p],
				what: fmt.Sprintf(": %s rule %s %q now", article, verb[p.deny], p.pattern),
			})
		}
	}
}

// openPatterns are the patterns of one side, with where they stand.
type openPatterns struct {
	order     []openPattern
	positions map[openPattern]string
}

func (c *comparison) openPatterns(s *side) openPatterns {
	all := openPatterns{positions: make(map[openPattern]string)}
	for i := range s.t.config.Rules {
		r := &s.t.config.Rules[i]
		for _, deny := range []bool{false, true} {
			patterns := r.Allow
			if deny {
				patterns = r.Deny
			}
			for _, text := range patterns {
				server := c.open(s, text)
				if server == "" {
					continue
				}
				for _, who := range s.t.rules[i].profiles() {
					p := openPattern{who.String(), deny, text}
					if _, twice := all.positions[p]; !twice {
						all.order = append(all.order, p)
						all.positions[p] = s.directory.locationOf(s.t, i) + "; what " + server +
							" offers is not known"
					}
				}
			}
		}
	}
	return all
}

// open returns a server of which the pattern could name something that no list of both
// sides shows, "" for none.
func (c *comparison) open(s *side, text string) string {
	kind, pattern := PatternKind(text)
	shows := func(s *side, server string) bool {
		return !slices.Contains(s.t.servers, server) ||
			s.view.Listed(server, kind) && (kind != registry.KindResource || !s.view.Reads(server))
	}
	for _, server := range s.t.servers {
		if known := shows(&c.before, server) && shows(&c.after, server); !known &&
			registry.MayMatch(pattern, s.view.Beginning(kind, server)) {
			return server
		}
	}
	return ""
}
