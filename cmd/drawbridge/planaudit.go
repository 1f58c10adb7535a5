package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// callsJudged is what a new config makes of the calls in audit files.
type callsJudged struct {
	before, after *planned
	changed       map[string]bool // issuers whose tokens may say something else, or be refused

	verdicts map[judgedCall][2]verdict // by call, of OLD and of NEW
	rows     map[judgedRow]*use
	judged   int            // calls
	refused  int            // calls that OLD lets through and NEW refuses
	let      int            // the other way round
	open     map[string]int // calls that were not judged, by the reason
	others   int            // calls refused for what rules do not decide
	unread   int            // lines that are no records
}

// judgedCall is all of a line that rules look at.
type judgedCall struct {
	tenant, issuer, subject, scopes, method, item string
	named                                         bool // scopes are those that the rules of OLD name
}

// judgedRow is a row of the report: calls of which the same becomes, for the same reason.
type judgedRow struct {
	let                                bool
	tenant, issuer, subject, item, why string
}

// verdict is what would become of a call.
type verdict struct {
	allowed bool
	why     string // it would be refused
	open    string // why it cannot be judged; "": it can
}

func newCallsJudged(before, after *planned) *callsJudged {
	return &callsJudged{
		before: before, after: after, changed: changedIssuers(before.cfg, after.cfg),
		verdicts: map[judgedCall][2]verdict{}, rows: map[judgedRow]*use{}, open: map[string]int{},
	}
}

// changedIssuers returns the issuers that both configs have with other settings, by which
// a token that was good may be refused or say something else. When keys are fetched, and
// names for people's eyes, are none of them.
func changedIssuers(before, after *config.Config) map[string]bool {
	harmless := []string{"keys_refresh", "keys_stale", "name_claim", "private_addresses"}
	name := entryName(before, after)
	old := map[string]*config.Issuer{}
	for i := range before.Issuers {
		old[name(&before.Issuers[i])] = &before.Issuers[i]
	}
	changed := map[string]bool{}
	for i := range after.Issuers {
		iss := &after.Issuers[i]
		was := old[name(iss)]
		if was == nil {
			continue
		}
		differ := slices.DeleteFunc(issuerChanges(was, iss),
			func(key string) bool { return slices.Contains(harmless, key) })
		if len(differ) > 0 {
			changed[iss.Issuer.Issuer] = true
		}
	}
	return changed
}

// read judges the calls of an audit file.
func (j *callsJudged) read(ctx context.Context, name string) error {
	unread, err := readAudit(name, func(e *entry) { j.add(ctx, e) })
	j.unread += unread
	return err
}

// add judges the call of a line. Lines of the door, which are about no item, are of
// requests that were refused before rules were asked. Another config than OLD may have
// decided when the line was written, so OLD is asked too, and only where the line does not
// say enough for that counts how the call ended.
func (j *callsJudged) add(ctx context.Context, e *entry) {
	if e.isSignIn() {
		return
	}
	n := max(1, e.Count)
	if e.isRefused() && e.Outcome != outcomeForbidden {
		j.others += n
		return
	}
	call := judgedCall{
		e.Tenant, e.Issuer, e.Subject, strings.Join(e.Scopes, " "), e.Method, e.Item,
		e.Config == j.before.cfg.Digest,
	}
	both, known := j.verdicts[call]
	if !known {
		both = [2]verdict{j.judge(ctx, &call, j.before), j.judge(ctx, &call, j.after)}
		if len(j.verdicts) < maxUses {
			j.verdicts[call] = both
		}
	}
	was, v := both[0], both[1]
	if v.open != "" {
		j.open[v.open] += n
		return
	}
	j.judged += n
	wasLet := was.allowed
	if was.open != "" {
		wasLet = e.Outcome != outcomeForbidden
	}
	switch {
	case wasLet == v.allowed:
		return
	case wasLet:
		j.refused += n
	default:
		j.let += n
	}
	row := judgedRow{v.allowed, e.Tenant, e.Issuer, e.Subject, e.Method + " " + e.Item, v.why}
	if j.rows[row] == nil && len(j.rows) >= maxUses {
		row = judgedRow{let: v.allowed, item: "others"}
	}
	u := j.rows[row]
	if u == nil {
		u = &use{First: e.Time}
		j.rows[row] = u
	}
	u.count(e)
}

// judge says what would become of a call under one of the two configs. Of the scopes of its
// caller's token only those are on record that rules named; where others decide, it cannot
// be judged.
func (j *callsJudged) judge(ctx context.Context, call *judgedCall, by *planned) verdict {
	request := call.request()
	switch {
	case call.tenant == "" || call.issuer == "" || call.subject == "" || call.item == "":
		return verdict{open: "tenant, issuer, subject or item is not in the line"}
	case request == nil:
		return verdict{open: "rules alone do not decide about " + cmp.Or(call.method,
			"a line without a method")}
	case len(call.item) >= audit.MaxName:
		return verdict{open: "the name of the item was cut"}
	case !slices.Contains(by.cfg.Speakers(), [2]string{call.issuer, call.tenant}):
		return verdict{why: "the issuer serves the tenant no more"}
	case by == j.after && j.changed[call.issuer]:
		return verdict{open: "the issuer " + call.issuer + " changes, and its tokens may say something else"}
	}
	p := auth.Principal{TenantID: call.tenant, Issuer: call.issuer, Subject: call.subject}
	p.Scopes = strings.Fields(call.scopes)
	least := by.desk.ExplainItem(ctx, p, request)
	var perhaps []string // it has, too
	for _, scope := range by.desk.ScopesNamed(call.tenant) {
		onRecord := call.named && slices.Contains(j.before.desk.ScopesNamed(call.tenant), scope)
		if !onRecord && !slices.Contains(p.Scopes, scope) {
			perhaps = append(perhaps, scope)
		}
	}
	p.Scopes = slices.Concat(p.Scopes, perhaps)
	most := by.desk.ExplainItem(ctx, p, request)
	switch {
	case isLet(&least) && isLet(&most):
		return verdict{allowed: true}
	case !isLet(&least) && least.Reason == "denied", !isLet(&most) && most.Reason != "denied":
		return verdict{why: whyRefused(&least)}
	case len(least.Missing) > 0:
		perhaps = []string{strings.Join(least.Missing, " "), "at", least.Rule}
	}
	return verdict{open: "scopes decide that may not be on record: " + strings.Join(perhaps, " ")}
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
func (call *judgedCall) request() *gateway.Request {
	subject := "name"
	switch call.method {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet:
	case mcp.MethodResourcesRead:
		subject = "uri"
	default:
		return nil
	}
	return &gateway.Request{
		Method: call.method, Params: mcp.NewObject(mcp.Member{Name: subject, Value: mcp.String(call.item)}),
		Notify: func(context.Context, mcp.Notification) error { return nil }, Tasks: mcp.TasksAsked,
		Extensions: mcp.ExtensionsNamed(mcp.ExtensionApps),
	}
}

// print writes the report, and returns how many calls would be refused.
func (j *callsJudged) print(s streams) int {
	open := 0
	for _, n := range j.open {
		open += n
	}
	s.say("audit: %s judged; of those let through %d would be refused, of those refused %d would be let "+
		"through; %d not judged\n", count(j.judged, "call"), j.refused, j.let, open)
	rows := slices.SortedFunc(maps.Keys(j.rows), func(a, b judgedRow) int {
		return cmp.Or(cmp.Compare(truth(a.let), truth(b.let)), cmp.Compare(j.rows[b].Calls, j.rows[a].Calls),
			strings.Compare(fmt.Sprint(a), fmt.Sprint(b)))
	})
	for _, row := range rows {
		what, why := "refused", " ("+row.why+")"
		if row.let {
			what, why = "let through", ""
		}
		s.say("%s\n", strings.Map(visible, fmt.Sprintf("%s: tenant %s, %s#%s, %s: %s, last %s%s", what,
			row.tenant,
			row.issuer, row.subject, row.item, count(j.rows[row].Calls, "call"),
			j.rows[row].Last.UTC().Format(time.RFC3339), why)))
	}
	for _, reason := range slices.Sorted(maps.Keys(j.open)) {
		s.say("not judged: %s: %s\n", count(j.open[reason], "call"), strings.Map(visible, reason))
	}
	if j.others > 0 {
		s.say("not looked at: %s refused for what rules do not decide\n", count(j.others, "request"))
	}
	if j.unread > 0 {
		s.complain("drawbridge plan: %s could not be read\n", count(j.unread, "line"))
	}
	return j.refused
}

// truth is a number by which truth values can be sorted.
func truth(is bool) int {
	if is {
		return 1
	}
	return 0
}
