package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
)

// callsJudged is what a new config makes of the calls in audit files.
type callsJudged struct {
	before, after *planned
	same          bool // the configs say the same
	// changed says in words who gives tokens that may say something else, or be refused,
	// by the issuer or, for a client that has tokens of its own, by issuer#subject.
	changed map[string]string
	touched map[string]bool // tenants of which the configs say something else

	verdicts map[judgedCall][2]verdict // by call, of OLD and of NEW
	rows     uses[judgedRow]
	judged   int // calls
	// calls by what becomes of them: those of which NEW says something else, and those
	// that were not judged
	calls  [becomesOpen + 1]int
	others int // calls refused for what rules do not decide
}

// judgedCall is all of a line that rules look at.
type judgedCall struct {
	tenant, issuer, subject, scopes, missing, method, item string
	named                                                  bool // scopes are those that the rules of OLD name
}

// What becomes of calls by NEW, in the order of the report.
const (
	becomesRefused = iota
	becomesLet
	becomesOpen
)

// judgedRow is a row of the report: calls of which the same becomes, for the same reason.
type judgedRow struct {
	becomes                            int
	tenant, issuer, subject, item, why string
}

// verdict is what would become of a call.
type verdict struct {
	allowed bool
	why     string // it would be refused
	open    string // why it cannot be judged; "": it can
	byRules bool   // rules were asked
}

func newCallsJudged(before, after *planned) *callsJudged {
	return &callsJudged{
		before: before, after: after,
		same:     len(changeList(before.cfg, before.cfg, after.cfg)) == 0,
		changed:  changedSpeakers(before.cfg, after.cfg),
		touched:  touchedTenants(before, after),
		verdicts: map[judgedCall][2]verdict{}, rows: uses[judgedRow]{},
	}
}

// touchedTenants returns the tenants of which something is different by which calls are
// judged: their rules, their servers, or who speaks for them.
func touchedTenants(before, after *planned) map[string]bool {
	touched := map[string]bool{}
	for _, sides := range [][2]*planned{{before, after}, {after, before}} {
		own, others := sides[0].cfg, sides[1].cfg
		servers, tenants := byName(others.Servers, serverName), byName(others.Tenants, tenantName)
		for i := range own.Tenants {
			t := &own.Tenants[i]
			other := tenants[t.ID]
			touched[t.ID] = touched[t.ID] || other == nil || !slices.Equal(t.Servers, other.Servers) ||
				!slices.EqualFunc(t.Rules, other.Rules, sameRule) ||
				slices.ContainsFunc(own.Servers, func(s config.Server) bool {
					return slices.Contains(t.Servers, s.Name) && !reflect.DeepEqual(&s, servers[s.Name])
				})
		}
		for speaker := range sides[0].speaks {
			if !sides[1].speaks[speaker] {
				touched[speaker[1]] = true
			}
		}
	}
	return touched
}

// changedSpeakers returns what callsJudged.changed holds: whom both configs have with
// other settings, by which a token that was good may be refused or say something else.
// When keys are fetched, and names for people's eyes, are none of them.
func changedSpeakers(before, after *config.Config) map[string]string {
	harmless := []string{"keys_refresh", "keys_stale", "name_claim", "private_addresses"}
	name := entryName(before, after)
	old := byName(before.Issuers, name)
	changed := map[string]string{}
	for i := range after.Issuers {
		iss := &after.Issuers[i]
		was := old[name(iss)]
		if was == nil {
			continue
		}
		differ := slices.DeleteFunc(issuerChanges(was, iss),
			func(key string) bool { return slices.Contains(harmless, key) })
		if len(differ) > 0 {
			changed[iss.Issuer.Issuer] = "the issuer " + iss.Issuer.Issuer
		}
	}
	logins := loginsByIssuer(after)
	for issuer, was := range loginsByIssuer(before) {
		if !reflect.DeepEqual(was, logins[issuer]) {
			changed[issuer] = "the issuer " + issuer
		}
	}
	fixed := byName(after.Clients, clientName)
	for _, was := range before.Clients {
		is := fixed[was.ID]
		same := is != nil && is.Tenant == was.Tenant && slices.Equal(is.Scopes, was.Scopes)
		if was.Tenant != "" && !same {
			changed[before.PublicAddress()+"#"+was.ID] = "the client " + was.ID
		}
	}
	return changed
}

// loginsByIssuer returns the logins of a config, as far as it depends on them what the
// gateway reads of a person. What it reads in the claims of an issuer that has an entry
// of its own is said there.
func loginsByIssuer(cfg *config.Config) map[string][]config.Login {
	logins := map[string][]config.Login{}
	for _, l := range cfg.Logins {
		issuer := l.Issuer.Issuer
		l.NameClaim = ""
		if !l.GitHub {
			l.Issuer = auth.Issuer{}
		}
		l.Name, l.Title, l.Secret, l.Key, l.PrivateAddresses = "", "", "", nil, false
		logins[issuer] = append(logins[issuer], l)
	}
	return logins
}

// changedSpeaker says in words who gives the caller of a call its tokens and is among
// those that change, "" if nobody is.
func (j *callsJudged) changedSpeaker(call *judgedCall) string {
	return cmp.Or(j.changed[call.issuer], j.changed[call.issuer+"#"+call.subject])
}

// add judges the call of a line. Lines of the door, which are about no item, are of
// requests that were refused before rules were asked. Another config than OLD may have
// decided when the line was written, so OLD is asked too, and only where the line does
// not say enough for that counts how the call ended.
func (j *callsJudged) add(ctx context.Context, e *entry) {
	if e.isSignIn() {
		return
	}
	n := max(1, e.Count)
	if e.isRefused() && (e.Outcome != outcomeForbidden || e.Method == "") {
		j.others += n
		return
	}
	call := judgedCall{
		e.Tenant, e.Issuer, e.Subject, strings.Join(e.Scopes, " "), strings.Join(e.Missing, " "), e.Method,
		e.Item, e.Config == j.before.cfg.Digest,
	}
	if j.untouched(&call) {
		j.judged += n
		return
	}
	both, known := j.verdicts[call]
	if !known {
		both = j.judge(ctx, &call)
		if len(j.verdicts) < maxUses {
			j.verdicts[call] = both
		}
	}
	was, is := both[0], both[1]
	row := judgedRow{
		becomesOpen, e.Tenant, e.Issuer, e.Subject, e.Method + " " + e.Item, cmp.Or(is.open, is.why),
	}
	if is.open == "" {
		j.judged += n
		wasLet := was.allowed
		if was.open != "" {
			wasLet = e.Outcome != outcomeForbidden
		}
		switch {
		case wasLet == is.allowed:
			return
		case wasLet:
			row.becomes = becomesRefused
		default:
			row.becomes = becomesLet
		}
	}
	j.calls[row.becomes] += n
	j.rows.count(row, judgedRow{becomes: row.becomes, item: "others"}, e)
}

// untouched tells whether both configs decide alike about a call, whatever it is.
func (j *callsJudged) untouched(call *judgedCall) bool {
	return j.same || call.tenant != "" && !j.touched[call.tenant] && j.changedSpeaker(call) == ""
}

// judge says what would become of a call under both configs. Of the scopes of its
// caller's token those are on record that rules named, and of a refusal those that it
// lacked. Where others decide the call is judged with and without each: what both configs
// decide alike either way is no change.
func (j *callsJudged) judge(ctx context.Context, call *judgedCall) (both [2]verdict) {
	fixed := [2]verdict{j.beforeRules(call, j.before), j.beforeRules(call, j.after)}
	if fixed[1].open != "" {
		return fixed
	}
	perhaps := j.perhaps(ctx, call)
	open := verdict{open: "scopes decide that may not be on record: " + strings.Join(perhaps, " ")}
	if len(perhaps) > maxPerhaps {
		return [2]verdict{cmp.Or(fixed[0], open), cmp.Or(fixed[1], open)}
	}
	alike := true
	for chosen := range 1 << len(perhaps) {
		scopes := strings.Fields(call.scopes)
		for i, scope := range perhaps {
			if chosen&(1<<i) != 0 {
				scopes = append(scopes, scope)
			}
		}
		now := fixed
		for i, by := range []*planned{j.before, j.after} {
			if fixed[i] == (verdict{}) {
				now[i] = byRules(ctx, call, by, scopes)
			}
		}
		if chosen == 0 {
			both = now
		}
		alike = alike && now[0].allowed == now[1].allowed
		undecided := false // whether more of them may decide something
		for i, v := range now {
			if v.allowed != both[i].allowed {
				both[i] = open
			}
			undecided = undecided || v.byRules && both[i] != open
		}
		if !alike && !undecided {
			break
		}
	}
	if alike {
		both[1].open = "" // either way nothing changes
		both[0] = both[1]
	}
	return both
}

// byRules says what the rules of one config make of a call with these scopes.
func byRules(ctx context.Context, call *judgedCall, by *planned, scopes []string) verdict {
	e := explainItem(ctx, by.desk(), call.principal(scopes), call.request())
	if isLet(&e) {
		return verdict{allowed: true, byRules: true}
	}
	return verdict{why: whyRefused(&e), byRules: true}
}

// beforeRules says what becomes of a call where no rule is asked, and nothing where rules
// decide.
func (j *callsJudged) beforeRules(call *judgedCall, by *planned) verdict {
	switch {
	case call.tenant == "" || call.issuer == "" || call.subject == "" || call.item == "":
		return verdict{open: "tenant, issuer, subject or item is not in the line"}
	case call.request() == nil:
		return verdict{open: "rules alone do not decide about " + cmp.Or(call.method,
			"a line without a method")}
	case audit.MayBeCut(call.item):
		return verdict{open: "the name of the item was cut"}
	case !by.speaks[[2]string{call.issuer, call.tenant}]:
		return verdict{why: "the issuer serves the tenant no more"}
	case by == j.after && j.changedSpeaker(call) != "":
		return verdict{open: j.changedSpeaker(call) + " changes, and its tokens may say something else"}
	}
	return verdict{}
}

// maxPerhaps is how many scopes are tried of which nobody knows whether a token had them.
const maxPerhaps = 6

// perhaps returns the scopes that a rule about the item wants, and of which nobody knows
// whether the token of a call had them.
func (j *callsJudged) perhaps(ctx context.Context, call *judgedCall) (scopes []string) {
	recorded := strings.Fields(call.missing)
	if call.named {
		recorded = append(recorded, j.before.desk().ScopesNamed(call.tenant)...)
	}
	for _, by := range []*planned{j.before, j.after} {
		e := explainItem(ctx, by.desk(), call.principal(strings.Fields(call.scopes)), call.request())
		for _, r := range e.Rules {
			if !r.Allows && !r.Denies || r.Others {
				continue
			}
			for _, scope := range r.Missing {
				if !slices.Contains(recorded, scope) && !slices.Contains(scopes, scope) {
					scopes = append(scopes, scope)
				}
			}
		}
	}
	return scopes
}

// principal returns who made the call, with those scopes.
func (call *judgedCall) principal(scopes []string) auth.Principal {
	return auth.Principal{
		TenantID: call.tenant, Issuer: call.issuer, Subject: call.subject, Scopes: scopes,
	}
}

// isLet tells whether rules let a request through, whether or not its server is up.
func isLet(e *gateway.Explanation) bool {
	return e.Outcome != outcomeForbidden && e.Outcome != outcomeUnknown
}

// whyRefused says in words what refuses a request.
func whyRefused(e *gateway.Explanation) string {
	switch {
	case e.Reason == "denied":
		return e.Rule + " denies it"
	case len(e.Missing) > 0:
		return e.Rule + " wants " + strings.Join(e.Missing, " ")
	case e.Reason == "no_rule":
		return "no rule allows it"
	case e.Outcome == outcomeUnknown:
		return "no server of the tenant offers it"
	}
	return "the tenant is served no more"
}

// request returns the call's request as far as rules look at it, nil if its item is not
// theirs to judge.
func (call *judgedCall) request() *gateway.Request { return requestOf(call.method, call.item) }

// maxOpenRows bounds how many rows name calls that were not judged.
const maxOpenRows = 20

// print writes the report, and returns how many calls would be refused.
func (j *callsJudged) print(s streams) int {
	s.say("audit: %s judged; of those let through %d would be refused, of those refused %d would be let "+
		"through; %d not judged\n", count(j.judged, "call"), j.calls[becomesRefused], j.calls[becomesLet],
		j.calls[becomesOpen])
	rows := slices.SortedFunc(maps.Keys(j.rows), func(a, b judgedRow) int {
		return cmp.Or(cmp.Compare(a.becomes, b.becomes), cmp.Compare(j.rows[b].Calls, j.rows[a].Calls),
			strings.Compare(fmt.Sprint(a), fmt.Sprint(b)))
	})
	open, further := 0, 0
	for _, row := range rows {
		if row.becomes == becomesOpen {
			if open++; open > maxOpenRows {
				further += j.rows[row].Calls
				continue
			}
		}
		s.say("%s\n", strings.Map(visible, row.describe(j.rows[row])))
	}
	if further > 0 {
		s.say("not judged: %s more, of %s and items\n", count(further, "call"), count(open-maxOpenRows,
			"further caller"))
	}
	if j.others > 0 {
		s.say("not looked at: %s refused for what rules do not decide\n", count(j.others, "request"))
	}
	return j.calls[becomesRefused]
}

// describe says what becomes of the calls of a row.
func (r *judgedRow) describe(u *use) string {
	becomes := []string{"refused", "let through", "not judged"}[r.becomes]
	caller := when(r.tenant != "" || r.subject != "", " tenant %s, %s#%s,", cmp.Or(r.tenant, "-"),
		cmp.Or(r.issuer, "-"), cmp.Or(r.subject, "-"))
	return fmt.Sprintf("%s:%s %s: %s, last %s", becomes, caller, r.item, count(u.Calls, "call"),
		u.Last.UTC().Format(time.RFC3339)) + when(r.why != "", " (%s)", r.why)
}
