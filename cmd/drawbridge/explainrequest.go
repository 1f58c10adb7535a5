package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// explainRequest says what happened to one request, from its lines in the audit file. A
// call of several rounds has one for each round, and all are shown. The config is needed
// for the place of the file, and for the key with which arguments are compared; without
// it the limit of a tool is not named. Where another config decided than the one at hand,
// what that one says is left out.
func explainRequest(q asked, s streams) error {
	files := q.audits
	cfg, err := config.Load(q.file, config.ProcessEnvironment())
	if err == nil && len(files) == 0 {
		files, err = auditOf(cfg, "explain")
	}
	if err != nil && (len(files) == 0 || q.arguments != "") {
		return refusedConfig(err)
	}
	found := 0
	_, err = readAudits("explain", files, s, func(e *entry) {
		if e.RequestID != q.request && e.CallID != q.request {
			return
		}
		if found++; found > 1 {
			s.say("\n")
		}
		s.say("%s", happened(e, cfg, q.file))
		if q.arguments != "" {
			s.say("%-9s %s\n", "digest", argumentsCompared(e, cfg, q.arguments))
		}
	})
	switch {
	case err != nil:
		return refused("%w", err)
	case found == 0:
		return fmt.Errorf("no line of %s has the request %s; was the file rotated, is it of another "+
			"replica, or was it no call, such as a list?",
			strings.Join(files, " and "), q.request)
	}
	return nil
}

// argumentsCompared says whether the arguments of a line are those that somebody shows.
func argumentsCompared(e *entry, cfg *config.Config, arguments string) string {
	keys := audit.NewKeys(cfg.Records.Keys)
	is, known := keys.Verify(e.Digest, e.Tenant, []byte(arguments))
	switch {
	case e.Digest == "":
		return "the line has none: the call had no arguments, or audit.key_file was not set"
	case keys == nil:
		return "the config has no audit.key_file to compare arguments with"
	case !known:
		return "made with a key that is not in audit.key_file"
	case !is:
		return "of other arguments: each byte counts, blanks too"
	}
	return "of these very arguments"
}

// happened says in words what a line of the audit says. The config may be nil; file is
// its name.
func happened(e *entry, cfg *config.Config, file string) string {
	code := ""
	if !e.isSignIn() { // whose errors are those of OAuth
		code = gateway.CodeOf(e.Outcome, e.Reason, e.Method)
	}
	ended := e.Outcome + when(e.Reason != "" && e.Reason != code, ", %s", e.Reason) +
		when(code != "", " (the client read %s)", code)
	stale := cfg != nil && e.Config != "" && e.Config != cfg.Digest
	rule, digest := e.Rule, e.Config
	if stale {
		rule = when(rule != "", "%s, as it stood then", rule)
		digest += ", not that of now, " + cfg.Digest + ": rules and limits may be others"
		cfg = nil // it does not know the limits of then
	}
	lines := [][2]string{
		{"request", e.RequestID + " at " + e.Time.UTC().Format("2006-01-02 15:04:05.000 MST")},
		{
			"call", when(e.CallID != "" && e.CallID != e.RequestID, "a later round of the request %s",
				e.CallID),
		},
		{"tenant", e.Tenant},
		{"caller", when(e.Subject != "", "%s#%s%s", e.Issuer, e.Subject, named(e.Name))},
		// of a token, or a sign-in, that was refused
		{"caller", when(e.Subject == "" && e.Name != "", "%q, as %s says", e.Name, e.Issuer)},
		{"token", e.TokenID},
		{"claims", e.Claims.String()},
		{"client", strings.TrimSpace(e.Client + " " + e.Version)},
		{"session", e.Session},
		{"remote", e.Remote},
		{"method", strings.TrimSpace(e.Method + " " + e.Item)},
		{"server", e.Server},
		{"arguments", e.Arguments.String()},
		{"audience", audienceAtFault(e.Audience, e.Expected)},
		{"claim", claimAtFault(&auth.Error{Claim: e.Claim, Found: e.Found, Expected: e.Expected})},
		{"rule", rule},
		{"argument", when(e.Argument != "", "%s does not fit, or is missing", e.Argument)},
		{"missing", when(len(e.Missing) > 0, "the token lacks %s", strings.Join(e.Missing, " "))},
		{
			"cleaned", when(e.Repairs > 0, "%s in the answer: drawbridge help cleaning",
				count(e.Repairs, "change")),
		},
		{"time", inTime(e.Duration) + e.upstream()},
		{
			"waited", when(e.WaitedFor != "", "%s, most of it for: %s", inTime(e.Wait),
				meaningOf(e.WaitedFor).says),
		},
		{"config", digest},
	}
	for _, words := range meaningsOf(e, code) {
		lines = append(lines, [2]string{"means", words})
	}
	for _, l := range limitsOfTool(e, code, cfg) {
		lines = append(lines, [2]string{"limit", placed(l)})
	}
	lines = append(lines, [2]string{"change", changeSince(e, code, file, stale)})
	return strings.Map(visible, ended) + "\n\n" + linesAbout(lines)
}

// linesAbout returns a line for each pair of a word and what is said about it, but for
// those about which nothing is said.
func linesAbout(pairs [][2]string) string {
	var out strings.Builder
	for _, pair := range pairs {
		if pair[1] != "" {
			out.WriteString(lineAbout(pair[0], "%s", pair[1]))
		}
	}
	return out.String()
}

// changeSince says what to change so that a request is let through, "" if nothing is
// known. If it is stale, the lines of the record's config are not those of the config
// now.
func changeSince(e *entry, code, file string, stale bool) string {
	ask := askAgain(e, file)
	arguments := e.Outcome == outcomeInvalidArguments ||
		e.Reason == codeParams && (e.Method == mcp.MethodToolsCall || e.Method == mcp.MethodPromptsGet)
	switch {
	case e.Rule != "" && stale:
		return "see which rule decides now: " + ask
	case e.Rule != "":
		return changeRule(e.Rule, e.Missing)
	case e.Outcome == outcomeForbidden && e.Item != "" && e.Reason != code:
		return "see which rule decides: " + ask
	case arguments && e.Argument != "":
		return "see what it must be, with the arguments: " + ask + " -online -args JSON"
	case arguments:
		return "see which argument does not fit, with the arguments: " + ask + " -online -args JSON"
	case e.Outcome == outcomeUnknown && e.Reason == "":
		return "see whether a name is near that there is: " + ask + " -online"
	case e.Reason == "no_access":
		return "give the person the claim at the provider, or name what it says in tenants of the issuer"
	case e.Reason == "provider_failed":
		return "see in the log what the provider answered, in the line with the id of the request"
	}
	return meaningOf(code).cure
}

// askAgain returns the command that says what would become of the same request now. The
// scopes in it are those on record, which rules named then.
func askAgain(e *entry, file string) string {
	item := map[string]string{
		mcp.MethodToolsCall: "-tool", mcp.MethodPromptsGet: "-prompt", mcp.MethodResourcesRead: "-resource",
	}[e.Method]
	if item == "" || e.Tenant == "" || e.Issuer == "" || e.Subject == "" || audit.MayBeCut(e.Item) {
		return "drawbridge explain with the tenant, issuer, subject and scopes of the caller"
	}
	var command strings.Builder
	command.WriteString("drawbridge explain")
	for _, said := range [][2]string{
		{"-config", when(file != defaultConfigFile, "%s", file)},
		{"-tenant", e.Tenant},
		{"-issuer", e.Issuer},
		{"-subject", e.Subject},
		{"-scopes", strings.Join(e.Scopes, ",")},
		{item, e.Item},
	} {
		if said[1] != "" {
			command.WriteString(" " + said[0] + " " + quoted(said[1]))
		}
	}
	return command.String()
}

// quoted is a word as shells take it for one.
func quoted(word string) string {
	const harmless = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@,+"
	if strings.Trim(word, harmless) == "" && !strings.HasPrefix(word, "-") {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// limitsOfTool returns the limits of its tool that a call may have reached.
func limitsOfTool(e *entry, code string, cfg *config.Config) []gateway.LimitSays {
	if cfg == nil || code != codeToolLimit {
		return nil
	}
	return deskOf(cfg, registry.New()).ToolLimits(e.Tenant, e.Item)
}

// inTime writes seconds as people read them.
func inTime(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(time.Microsecond).String()
}

// upstream says how much of the time the server took, "" if it was not asked.
func (e *entry) upstream() string {
	return when(e.Upstream != 0, ", of which the server took %s", inTime(e.Upstream))
}

// lineAbout is one line, with what it is about in front. Nothing in it that a caller or a
// server chose can begin another line.
func lineAbout(about, format string, args ...any) string {
	return strings.Map(visible, fmt.Sprintf("%-9s "+format, append([]any{about}, args...)...)) + "\n"
}

// meaningsOf returns what the reference says of how a request ended: of its outcome, of
// the reason and of the code. Of calls, forbidden and unavailable speak of rules and of
// servers, which nobody asks about a sign-in.
func meaningsOf(e *entry, code string) []string {
	known := meanings()
	if e.isSignIn() && (e.Outcome == outcomeForbidden || e.Outcome == outcomeUnavailable) {
		known = signInMeanings()
	}
	var all []string
	for _, words := range []string{e.Outcome, e.Outcome + ", " + e.Reason, code} {
		if m := known[words]; m.says != "" {
			all = append(all, m.says)
		}
	}
	return all
}
