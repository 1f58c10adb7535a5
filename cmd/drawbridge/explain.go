package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

// asked is what the command explain is asked about.
type asked struct {
	file                    string
	tenant, issuer, subject string
	scopes                  string
	tokenFile               string
	tool, prompt, resource  string
	arguments               string
	request                 string
	audits                  []string
	online                  bool
}

// explainHelp is the help of the command explain.
var explainHelp = help{
	"[-config F] -tenant T [-issuer I] -subject S [-scopes a,b] | -token-file F  " +
		"[-tool X | -prompt X | -resource X]  [-args JSON]\n" +
		"       drawbridge explain -request ID [-audit F]… [-args JSON]",
	"Says what would become of a request, and why: issuer, tenant, each rule with its line, limits, " +
		"arguments, cleaning, server, and what to change.\n" +
		"Without -tool, -prompt and -resource it lists what the caller may use.\n" +
		"With -request it says what happened to one request, from its line in the audit file, and with " +
		"-args whether these were its arguments.\n" +
		"It starts nothing but the config's own tools, and asks no server unless -online is given.\n" +
		"Exit 0 when the request, or without one the caller, would be let through, or the request is " +
		"found, 1 when not, 2 when the config or the command line is refused.",
}

// explainCommand is the command explain.
func explainCommand(flags *flag.FlagSet) action {
	var q asked
	flags.StringVar(&q.file, "config", defaultConfigFile, "the config `file`")
	flags.StringVar(&q.tenant, "tenant", "", "the `id` of the tenant")
	flags.StringVar(&q.issuer, "issuer", "", "the issuer of the token (the first that serves the tenant)")
	flags.StringVar(&q.subject, "subject", "", "who the token is for")
	flags.StringVar(&q.scopes, "scopes", "", "scopes of the token, separated by commas")
	flags.StringVar(&q.tokenFile, "token-file", "",
		"a `file` with a token or access key, in place of issuer, subject and scopes; - is standard input")
	flags.StringVar(&q.tool, "tool", "", "the `name` of a tool, as clients call it")
	flags.StringVar(&q.prompt, "prompt", "", "the `name` of a prompt")
	flags.StringVar(&q.resource, "resource", "", "the `URI` of a resource, as clients read it")
	flags.StringVar(&q.arguments, "args", "", "the arguments, as `JSON`")
	flags.StringVar(&q.request, "request", "", "the `id` of a request that was made")
	flags.Func("audit", "an audit `file` that may have it, in place of the config's"+auditAgain,
		each(&q.audits))
	flags.BoolVar(&q.online, "online", false,
		"connect to the servers, to know what they offer, and fetch key sets")
	return func(ctx context.Context, _ []string, s streams) error {
		if q.request != "" {
			if err := without(flags, "-request", "tenant", "issuer", "subject", "scopes", "token-file",
				"tool", "prompt", "resource", "online"); err != nil {
				return err
			}
			return explainRequest(q, s)
		}
		if err := q.check(); err != nil {
			return err
		}
		cfg, err := config.Load(q.file, config.ProcessEnvironment())
		if err != nil {
			return refusedConfig(err)
		}
		w := &walk{cfg: cfg, asked: q}
		allowed, err := w.run(ctx)
		if err != nil {
			return refused("%w", err)
		}
		s.say("%s", w.out.String())
		return unsaidIf(!allowed)
	}
}

// check refuses a question about no request that makes no sense.
func (q *asked) check() error {
	named := []string{q.tool, q.prompt, q.resource}
	items := len(slices.DeleteFunc(named, func(name string) bool { return name == "" }))
	return refusedFirst(
		wrong{len(q.audits) > 0, "-audit goes with -request alone"},
		wrong{items > 1, "-tool, -prompt and -resource exclude each other"},
		wrong{
			q.tokenFile != "" && q.subject+q.scopes+q.issuer != "",
			"-token-file goes in place of -issuer, -subject and -scopes; with it -tenant is the one of " +
				"the address",
		},
		wrong{
			q.tokenFile == "" && (q.tenant == "" || q.subject == ""),
			"-tenant and -subject are needed, or -token-file",
		},
		wrong{
			q.arguments != "" && q.tool+q.prompt == "",
			"-args goes with -tool or -prompt; a resource takes no arguments",
		})
}

// walk explains one request.
type walk struct {
	asked

	cfg      *config.Config
	statuses map[string]upstream.Status // of the servers whose items are known, by name
	out      strings.Builder
}

// line writes one line of the walk, with what it is about in front.
func (w *walk) line(about, format string, args ...any) {
	w.out.WriteString(lineAbout(about, format, args...))
}

// putFirst puts a conclusion before what was written.
func (w *walk) putFirst(conclusion string) {
	walked := w.out.String()
	w.out.Reset()
	w.out.WriteString(conclusion + "\n\n" + walked)
}

// run writes the walk, and tells whether the request would be let through.
func (w *walk) run(ctx context.Context) (bool, error) {
	principal, refused, err := w.principal(ctx)
	if err != nil || refused != nil {
		return false, err
	}
	if err := oneTenant(&principal); err != nil {
		return false, err
	}
	request, err := w.gatewayRequest()
	if err != nil {
		return false, err
	}
	by := newPlanned(ctx, w.cfg, w.online)
	defer by.fleet.close()
	w.statuses = by.fleet.known()
	for _, c := range failed(by.checks) {
		w.line("server", "%s", c)
	}
	return w.judge(ctx, principal, request, by.desk())
}

// oneTenant returns an error for a token of several tenants of which none is chosen.
func oneTenant(p *auth.Principal) error {
	if len(p.Tenants) == 0 {
		return nil
	}
	return fmt.Errorf("the token is for several tenants, and /mcp answers DB-TENANT-CHOICE: "+
		"choose with -tenant, as clients do with /t/TENANT/mcp; there are %s", strings.Join(p.Tenants, ", "))
}

// judge writes what becomes of a request at a gateway; nil: what the caller may use
// there.
func (w *walk) judge(
	ctx context.Context, p auth.Principal, request *gateway.Request, g *gateway.Gateway,
) (allowed bool, err error) {
	if request == nil {
		return true, w.tellItems(g, p)
	}
	if e := explainItem(ctx, g, p, request); e.Outcome != outcomeUnknown && request.Extensions.Any() {
		w.line("client", "only one that hosts apps may use it, and declares %s", mcp.ExtensionApps)
	}
	e := g.Explain(ctx, p, request)
	w.tell(g, &e, p)
	return e.Outcome == outcomeLet, nil
}

// explainItem is Gateway.ExplainItem for a client of which it is not known what it
// declares. It hosts apps, and the request then says so, if no other client is offered
// the item.
func explainItem(
	ctx context.Context, g *gateway.Gateway, p auth.Principal, request *gateway.Request,
) gateway.Explanation {
	e := g.ExplainItem(ctx, p, request)
	if e.Outcome == outcomeUnknown {
		request.Extensions = mcp.ExtensionsNamed(mcp.ExtensionApps)
		e = g.ExplainItem(ctx, p, request)
	}
	return e
}

// outcomeLet is the outcome of a request that would be sent to its server.
const outcomeLet = "ok"

// principal returns who the request is from, and writes how that is known. refused is why
// the token is none.
func (w *walk) principal(ctx context.Context) (p auth.Principal, refused *auth.Error, err error) {
	if w.tokenFile != "" {
		return w.ofToken(ctx)
	}
	if err := cmp.Or(checkTenant(w.cfg, w.tenant), subjectAlone(w.cfg, w.subject)); err != nil {
		return p, nil, err
	}
	speakers := w.cfg.Speakers()
	i := slices.IndexFunc(speakers, func(pair [2]string) bool {
		return pair[1] == w.tenant && (w.issuer == "" || pair[0] == w.issuer)
	})
	if i < 0 {
		return p, nil, w.whyNobody(speakers)
	}
	p = auth.Principal{
		Issuer: speakers[i][0], Subject: w.subject, TenantID: w.tenant, Scopes: scopesOf(w.scopes),
	}
	at, by := w.loginLocation(p.Issuer), "its sign-in or access key"
	if i := slices.IndexFunc(w.cfg.Issuers, func(iss config.Issuer) bool {
		return iss.Issuer.Issuer == p.Issuer && serves(&iss, w.tenant)
	}); i >= 0 {
		at, by = w.entryLocation(i), tenantSource(&w.cfg.Issuers[i])
	}
	w.line("issuer", "%s (%s)", p.Issuer, at)
	w.line("tenant", "%s, by %s", p.TenantID, by)
	w.line("caller", "%s#%s%s", p.Issuer, p.Subject, scopesIn(p.Scopes))
	return p, nil, nil
}

// whyNobody says why none of those who speak for tenants, or not the issuer that is asked
// about, speaks for the tenant.
func (w *walk) whyNobody(speakers [][2]string) error {
	var names []string
	for _, pair := range speakers {
		names = append(names, pair[0])
	}
	switch {
	case w.issuer == "":
		return fmt.Errorf("no issuer serves the tenant %s", w.tenant)
	case slices.Contains(names, w.issuer):
		return fmt.Errorf(
			"the issuer %s serves other tenants than %s: name one that does, or change its tenant", w.issuer,
			w.tenant)
	}
	return unknownIssuer(w.issuer, names)
}

// subjectAlone refuses a subject that is written as rules write it, with its issuer. It
// would be another person, whom no rule names.
func subjectAlone(cfg *config.Config, subject string) error {
	for _, pair := range cfg.Speakers() {
		if subject, whole := strings.CutPrefix(subject, pair[0]+"#"); whole {
			return fmt.Errorf("-subject is without the issuer: write -issuer %s -subject %s",
				quoted(pair[0]), quoted(subject))
		}
	}
	return nil
}

// tenantSource says what makes the tenant of an issuer's tokens.
func tenantSource(iss *config.Issuer) string {
	if iss.TenantClaim != "" {
		return "the claim " + iss.TenantClaim
	}
	return "the issuer's setting tenant"
}

func scopesIn(scopes []string) string {
	if len(scopes) == 0 {
		return ", without scopes"
	}
	return ", with the scopes " + strings.Join(scopes, " ")
}

func location(p config.Problem) string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

// outcomeUnauthenticated is the outcome of a request whose token is refused.
const outcomeUnauthenticated = "unauthenticated"

// requestOf returns the request of an item, nil if the method has none that rules know.
func requestOf(method, item string) *gateway.Request {
	subject := map[string]string{
		mcp.MethodToolsCall: "name", mcp.MethodPromptsGet: "name", mcp.MethodResourcesRead: "uri",
	}[method]
	if subject == "" {
		return nil
	}
	return &gateway.Request{
		Method: method, Params: mcp.NewObject(mcp.Member{Name: subject, Value: mcp.String(item)}),
		Notify: func(context.Context, mcp.Notification) error { return nil }, Tasks: mcp.TasksAsked,
	}
}

// gatewayRequest returns the request for the desk, nil if no item is named.
func (w *walk) gatewayRequest() (r *gateway.Request, err error) {
	for method, item := range map[string]string{
		mcp.MethodToolsCall: w.tool, mcp.MethodPromptsGet: w.prompt, mcp.MethodResourcesRead: w.resource,
	} {
		if item != "" {
			r = requestOf(method, item)
		}
	}
	if w.arguments != "" {
		if err := strictjson.Check([]byte(w.arguments)); err != nil {
			return nil, fmt.Errorf("-args: %w", err)
		}
		r.Params = r.Params.With("arguments", mcp.RawJSON(w.arguments))
	}
	return r, nil
}

// tell writes what the desk says, the conclusion first.
func (w *walk) tell(g *gateway.Gateway, e *gateway.Explanation, p auth.Principal) {
	w.putFirst(w.conclusion(e))
	w.tellServer(e)
	for _, r := range e.Rules {
		w.line("rule", "%s %s", r.Location, describeRule(&r, p))
	}
	if len(e.Rules) == 0 && e.Server == "" && e.Outcome == "unknown" {
		w.line("rule", "none was asked: there is nothing of that name")
	}
	for _, l := range e.Limits {
		w.line("limit", "%s", placed(l))
	}
	if len(e.Limits) > 0 {
		w.line("", "(what is left of them now is not known here)")
	}
	w.tellArguments(e)
	does := map[sanitize.Mode]string{sanitize.Repair: "removed", sanitize.Off: "off", sanitize.Block: "block"}
	w.line("cleaning", "secrets: %s, hidden text: %s", does[e.Output.Secrets], does[e.Output.HiddenText])
	if e.Outcome != outcomeLet {
		w.line("change", "%s", w.change(g, e, p))
	}
}

// conclusion says in one line what becomes of the request.
func (w *walk) conclusion(e *gateway.Explanation) string {
	guessed := when(e.Guessed, ", if the server %s has it", e.Server)
	if e.Outcome == outcomeLet {
		return "let through" + guessed
	}
	text := "refused: " + e.Outcome +
		when(e.Reason != "" && !strings.HasPrefix(e.Reason, "DB-"), ", %s", e.Reason) +
		when(e.Rule != "" && e.Outcome == outcomeForbidden, ", by %s", e.Rule)
	if e.Err != nil {
		text += " (the client reads " + e.Err.StableCode() + ")"
	}
	return text + guessed
}

func (w *walk) tellServer(e *gateway.Explanation) {
	switch {
	case e.Server == "":
	case e.Guessed && w.cfg.ListsForUsers(e.Server):
		w.line("server", "%s (%s): the server decides what this person is listed (lists: user), so the name "+
			"alone was judged by the patterns", e.Server, location(w.cfg.Position("server "+e.Server)))
	case e.Guessed:
		w.line(
			"server", "%s (%s): what it offers is not known here, so the name alone was judged by the "+
				"patterns",
			e.Server, location(w.cfg.Position("server "+e.Server)))
	default:
		w.line("server", "%s (%s) offers it", e.Server, location(w.cfg.Position("server "+e.Server)))
	}
}

func (w *walk) tellArguments(e *gateway.Explanation) {
	switch {
	case e.Outcome == outcomeInvalidArguments:
		w.line("arguments", "do not fit the schema: %s", e.Text)
	case e.Reason == codeParams:
		w.line("arguments", "are refused: %s", e.Err.Message)
	case e.Guessed && w.arguments != "":
		w.line("arguments", "were not checked: the schema is not known here")
	case e.Outcome == outcomeLet && !e.Guessed && w.resource == "":
		w.line("arguments", "fit the schema")
	}
}

// Outcomes to which the walk has words of its own.
const (
	outcomeInvalidArguments = "invalid_arguments"
	outcomeForbidden        = "forbidden"
	outcomeLimited          = "limited"
	outcomeUnknown          = "unknown"
	outcomeUnavailable      = "unavailable"
)

// describeRule says what a rule says of the item, and why.
func describeRule(r *gateway.RuleSays, p auth.Principal) string {
	says := "names other items"
	switch {
	case r.Denies:
		says = fmt.Sprintf("denies it by %q", r.Pattern)
	case r.Allows:
		says = fmt.Sprintf("allows it by %q", r.Pattern)
	}
	if r.Applies {
		return says
	}
	why := "the token lacks " + strings.Join(r.Missing, " ")
	if r.Others {
		why = "it is for other subjects than " + p.Issuer + "#" + p.Subject
	}
	return "does not apply, " + why + "; it " + says
}

// change says what an operator may change so that the request is let through.
func (w *walk) change(g *gateway.Gateway, e *gateway.Explanation, p auth.Principal) string {
	switch {
	case e.Outcome == outcomeForbidden && (e.Reason == "denied" || len(e.Missing) > 0):
		return changeRule(e.Rule, e.Missing)
	case e.Outcome == outcomeForbidden && e.Reason == "no_rule":
		return fmt.Sprintf("add to the rules of tenant %s: - {allow: [%q]}", p.TenantID, e.Pattern)
	case e.Outcome == outcomeInvalidArguments, e.Reason == codeParams:
		return "the arguments"
	case e.Outcome == outcomeLimited:
		return changeLimits(e.Limits)
	case e.Outcome == outcomeUnknown:
		if left := w.leftOut(p.TenantID, e.Kind, e.Name); left != "" {
			return left
		}
		if near := nearName(e.Name, g.Names(p, e.Kind)); near != "" {
			return fmt.Sprintf("no server of the tenant offers it: did you mean %s?", near)
		}
		return "no server of the tenant offers it: add its server to servers of the tenant, or correct the " +
			"name"
	}
	return cmp.Or(meaningOf(e.Err.StableCode()).cure, e.Err.Message)
}

// nearName returns which of the names was probably meant by one that is not among them,
// "" if none is near. It is the same behind its prefix, or behind what a client put
// before it, or is spelt alike.
func nearName(name string, names []string) string {
	for _, known := range names {
		if strings.HasSuffix(known, "__"+name) || strings.HasSuffix(name, "_"+known) {
			return known
		}
	}
	return registry.Nearest(name, names)
}

// changeRule says what to change where a rule refuses a request: because of scopes that
// its token lacks or, without any, because it denies the item.
func changeRule(rule string, missing []string) string {
	if len(missing) > 0 {
		return "give the token " + strings.Join(missing, " ") + ", or take it out of the scopes of " + rule
	}
	return "a denial wins over all rules that allow: narrow the patterns of " + rule + ", or whom it is for"
}

// changeLimits says what to change where limits refuse a request though nothing of them
// is used: those that let nothing through.
func changeLimits(limits []gateway.LimitSays) string {
	var never []string
	for _, l := range limits {
		if l.Never {
			never = append(never, "the limit "+placed(l))
		}
	}
	return strings.Join(never, "; ")
}

// Codes to which the walk has words of its own.
const (
	codeToolLimit = "DB-LIMIT-TOOL" // of a limit that only calls of some tools count in
	codeParams    = "DB-PARAMS"     // of arguments, where the item is there; the message says which
)

// placed says a limit in words, what of it is for one user, and where that of a tool
// stands.
func placed(l gateway.LimitSays) string {
	return l.String() + when(l.User > 0 && !l.Never, ", of which one user %d", l.User) +
		when(l.Location != "", " (%s)", l.Location)
}
