package gateway

import (
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// leftOut is the kind of a resource that a result mentioned and that the caller may not
// see. It is counted with what output cleaning changed.
const leftOut sanitize.Kind = "left_out"

// mentionFilter applies the rules of the caller to the resources that the result of its
// call mentions.
//
//	embedded   shown unless a rule denies it. An allowed tool may make up the URIs of
//	           what it answers, so it needs no rule that allows them
//	linked     shown if the caller may read it: a resource is listed for whoever may
//	           read it, and for nobody else
//	elsewhere  shown unless a rule denies it: the client does not read it here
//
// A rule that denies resources of a server can judge only URIs with one reading. So of
// such a server nothing is shown under another URI, unless its list has that very URI. Of
// links to the web that holds only where a rule denies URIs of the web, and a host in
// capitals or without a path has one reading there: people write such links.
type mentionFilter struct{ call *call }

var _ registry.Filter = mentionFilter{}

// Shows implements registry.Filter. The call counts what it does not show.
func (j mentionFilter) Shows(uri string, m registry.Mention) bool {
	n := policyName{
		kind: registry.KindResource, name: j.call.item.Server + ":" + uri, skills: j.call.item.SkillsOf(uri),
	}
	if j.shows(uri, &n, m) {
		if j.call.mayBeHeld() {
			j.call.shown = append(j.call.shown, mention{uri, m})
		}
		return true
	}
	j.call.leftOut++
	return false
}

func (j mentionFilter) shows(uri string, n *policyName, m registry.Mention) bool {
	allowed, concerned := m != registry.Linked, false
	meant := "" // with what the URIs begin that it may be read as; "": the server may read anything out of it
	if m == registry.Elsewhere {
		meant = "http"
	}
	rules, apply := j.call.rulesNow()
	for i := range rules {
		if !apply.has(&rules[i]) {
			continue
		}
		if !j.affords(n, &rules[i]) || rules[i].denies(n) {
			return false
		}
		allowed = allowed || rules[i].allow.match(n)
		concerned = concerned || rules[i].deniesSomeOf(j.call.item.Server+":"+meant)
	}
	return allowed && (!concerned || j.hasOneReading(uri, m))
}

// rulesNow returns the rules of the tenant, and which of them apply to the caller. A
// reload may have changed them while the server worked. A caller whose tenant is not
// served any more gets no result.
func (c *call) rulesNow() ([]rule, ruleSet) {
	was := c.caller.Tenant
	now := c.gateway.tenants.Load().byID[was.ID]
	if now == nil || now == was {
		return was.rules, c.caller.rules
	}
	return now.rules, now.matching(&c.caller.Principal)
}

// hasOneReading tells whether the rules have judged all that a program may read the
// mentioned URI as. Other elsewheres than the web are data, scripts and what is no URI at
// all, which address nothing.
func (j mentionFilter) hasOneReading(uri string, m registry.Mention) bool {
	if m == registry.Elsewhere {
		uri = registry.UsualSpelling(uri)
	}
	return j.call.item.Lists(uri) || registry.IsPlain(uri) || m == registry.Elsewhere && !isOfWeb(uri)
}

// isOfWeb tells whether the URI begins like one of the web.
func isOfWeb(uri string) bool {
	scheme, _, _ := strings.Cut(uri, ":")
	return strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https")
}

// maxJudging bounds the work of judging the mentions in one result, in bytes of URIs and
// of the skills that they may be files of, times patterns that they are matched with. A
// server writes as many mentions as fit in a result, so without a bound it could keep a
// processor busy for minutes. What is beyond the bound is not shown.
const maxJudging = 100_000_000

// affords tells whether there is work left for judging by the rule what is called n, and
// takes it.
func (j mentionFilter) affords(n *policyName, r *rule) bool {
	size := len(n.name)
	for _, skill := range n.skills {
		size += len(skill)
	}
	// three spellings, and deniesSomeOf
	const resource, skill = registry.KindResource, registry.KindSkill
	j.call.judging += size * (len(r.allow[resource]) + len(r.allow[skill]) +
		4*(len(r.deny[resource])+len(r.deny[skill])))
	return j.call.judging <= maxJudging
}
