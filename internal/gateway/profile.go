package gateway

import (
	"cmp"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/auth"
)

// profile is a kind of callers: those who have at least these scopes and, if the subject
// is not empty, are that subject. The zero profile is everyone.
type profile struct {
	issuer, subject string
	scopes          []string // sorted, each once
}

// maxProfiles bounds the kinds of callers for which one item is judged.
const maxProfiles = 256

// principal returns the caller of the kind who has the least.
func (p *profile) principal(tenant string) auth.Principal {
	return auth.Principal{TenantID: tenant, Issuer: p.issuer, Subject: p.subject, Scopes: p.scopes}
}

// covers tells whether all callers of the kind q are of the kind p.
func (p *profile) covers(q *profile) bool {
	if p.subject != "" && (p.issuer != q.issuer || p.subject != q.subject) {
		return false
	}
	return hasAll(q.scopes, p.scopes)
}

// with returns the callers who are of both kinds; none if both name a subject and not the
// same one.
func (p *profile) with(q *profile) (both profile, some bool) {
	if p.subject != "" && q.subject != "" && (p.issuer != q.issuer || p.subject != q.subject) {
		return profile{}, false
	}
	both = profile{cmp.Or(p.issuer, q.issuer), cmp.Or(p.subject, q.subject), nil}
	both.scopes = slices.Compact(slices.Sorted(slices.Values(slices.Concat(p.scopes, q.scopes))))
	return both, true
}

// profiles returns the kinds of callers that a condition is for: one for each subject.
func (c *condition) profiles() []profile {
	base := profile{scopes: slices.Compact(slices.Sorted(slices.Values(c.scopes)))}
	if len(c.subjects) == 0 {
		return []profile{base}
	}
	all := make([]profile, len(c.subjects))
	for i, s := range c.subjects {
		all[i] = base
		all[i].issuer, all[i].subject, _ = strings.Cut(s, "#")
	}
	return all
}

// String says who it is.
func (p *profile) String() string {
	who := "everyone"
	switch {
	case p.subject != "":
		who = p.issuer + "#" + p.subject
	case len(p.scopes) > 0:
		who = "whoever comes"
	}
	if len(p.scopes) > 0 {
		who += " with the scopes " + strings.Join(p.scopes, " ")
	}
	return who
}

// profilesOf returns the kinds of callers between which an item can make a difference,
// the wider ones first: everyone, those whom a rule is for that allows or denies the
// item, and those whom one of each is for. Whatever a change of rules gives or takes, it
// gives or takes to the least caller of one of these kinds: what allows on one side is
// one rule, and what stood against it, or stands against it now, is one denial.
func profilesOf(allowing, denying []*rule) (all []profile, whole bool) {
	all = []profile{{}}
	whole = true
	add := func(p profile) {
		same := func(q profile) bool { return p.covers(&q) && q.covers(&p) }
		switch {
		case slices.ContainsFunc(all, same):
		case len(all) >= maxProfiles:
			whole = false
		default:
			all = append(all, p)
		}
	}
	for _, r := range slices.Concat(allowing, denying) {
		for _, p := range r.profiles() {
			add(p)
		}
	}
	for _, a := range allowing {
		for _, d := range denying {
			if !whole {
				break
			}
			for _, p := range a.profiles() {
				for _, q := range d.profiles() {
					if both, some := p.with(&q); some {
						add(both)
					}
				}
			}
		}
	}
	slices.SortStableFunc(all, func(p, q profile) int {
		return cmp.Or(cmp.Compare(len(p.subject), 0)-cmp.Compare(len(q.subject), 0),
			cmp.Compare(len(p.scopes), len(q.scopes)), strings.Compare(p.String(), q.String()))
	})
	return all, whole
}

// widest returns those of the kinds for which is says what is wanted that must be named,
// so that a reader knows all: a kind need not be when everything just wider than it is
// one of them. is has an entry for each of all.
func widest(all []profile, is []bool, want bool) []int {
	var named []int
	for i := range all {
		if is[i] == want && !followsFrom(all, is, want, i) {
			named = append(named, i)
		}
	}
	return named
}

// followsFrom tells whether the kind i is covered by others, and is says what is wanted
// of the narrowest of those.
func followsFrom(all []profile, is []bool, want bool, i int) bool {
	var wider []int
	for j := range all {
		if j != i && all[j].covers(&all[i]) {
			wider = append(wider, j)
		}
	}
	for _, j := range wider {
		narrowest := !slices.ContainsFunc(wider, func(k int) bool { return k != j && all[j].covers(&all[k]) })
		if narrowest && is[j] != want {
			return false
		}
	}
	return len(wider) > 0
}
