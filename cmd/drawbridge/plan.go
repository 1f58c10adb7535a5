package main

import (
	"context"
	"flag"
	"fmt"
	"math"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
)

// plan says what changes for callers between two configs.
type plan struct {
	before, after *planned
	losses        int // lines that say that somebody may do less
	s             streams
}

// planHelp is the help of the command plan.
var planHelp = help{
	"OLD NEW [-audit F]… [-online]",
	"Says what changes for callers when the config NEW takes the place of OLD: who gains and loses which " +
		"tools, prompts and resources, which limits, servers and issuers change.\n" +
		"With audit files it says which of the calls in them NEW would refuse, and of whom.\n" +
		"It starts nothing but the configs' own tools, and asks no server unless -online is given. Where " +
		"it is not known what a server offers, it names the patterns that changed.\n" +
		"Exit 0 when nobody may do less, 1 when somebody does, 2 when a config, a file or the command line " +
		"is refused.",
}

// planCommand is the command plan.
func planCommand(flags *flag.FlagSet) action {
	var audits []string
	flags.Func("audit", "an audit `file` whose calls are judged"+auditAgain, each(&audits))
	online := flags.Bool("online", false, "connect to the servers, to know what they offer")
	return func(ctx context.Context, files []string, s streams) error {
		if len(files) != 2 {
			return refused("two configs are needed, the old and the new one, and %d are named: "+
				"drawbridge plan OLD NEW", len(files))
		}
		var configs [2]*config.Config
		for i, file := range files {
			var err error
			if configs[i], err = config.Load(file, config.ProcessEnvironment()); err != nil {
				return refusedConfig(err)
			}
		}
		var sides [2]*planned
		pace.AtOnce(len(sides), len(sides), func(i int) { sides[i] = newPlanned(ctx, configs[i], *online) })
		for i, file := range files {
			defer sides[i].fleet.close()
			for _, c := range failed(sides[i].checks) {
				s.complain("drawbridge plan: %s: %s\n", file, c)
			}
		}
		p := &plan{before: sides[0], after: sides[1], s: s}
		if err := p.run(ctx, audits); err != nil {
			return refused("%w", err)
		}
		return unsaidIf(p.losses > 0)
	}
}

// run writes the plan.
func (p *plan) run(ctx context.Context, audits []string) error {
	all := changeList(p.before.cfg, p.before.cfg, p.after.cfg)
	for _, change := range all {
		p.s.say("config: %s\n", change)
	}
	p.speakers(p.before, p.after, true, "lose everything (the issuer serves the tenant no more)")
	p.speakers(p.after, p.before, false, "have access now (the issuer serves the tenant)")
	found, err := p.after.desk().Compare(ctx, p.before.desk().Access(), p.after.desk().Access())
	if err != nil {
		return err
	}
	for i := range found {
		p.line(found[i].Loss, found[i].Text(math.MaxInt))
	}
	if len(all) == 0 && len(found) == 0 {
		p.s.say("nothing changes for callers\n")
	} else {
		p.noteListsOfUsers()
	}
	if len(audits) == 0 {
		return nil
	}
	calls := newCallsJudged(p.before, p.after)
	if _, err := readAudits("plan", audits, p.s, func(e *entry) { calls.add(ctx, e) }); err != nil {
		return err
	}
	p.losses += calls.print(p.s)
	return nil
}

// noteListsOfUsers names the servers that list for each user: of these the plan knows the
// patterns alone.
func (p *plan) noteListsOfUsers() {
	for _, s := range p.after.cfg.Servers {
		switch {
		case !s.Auth.OwnLists:
		case p.before.cfg.ListsForUsers(s.Name):
			p.s.say("server %s: the server decides what a person is listed (lists: user), so the patterns "+
				"alone are compared\n", s.Name)
		default:
			p.s.say("server %s: the server decides from now on what a person is listed (lists: user), and "+
				"may list less than before\n",
				s.Name)
		}
	}
}

func (p *plan) line(loss bool, text string) {
	if loss {
		p.losses++
	}
	p.s.say("%s\n", text)
}

// speakers says for which tenants issuers speak in one config and not in the other, and
// what that means for their callers.
func (p *plan) speakers(in, notIn *planned, loss bool, means string) {
	for _, s := range in.cfg.Speakers() {
		if !notIn.speaks[s] {
			p.line(loss, fmt.Sprintf("tenant %s: callers of %s %s", s[1], s[0], means))
		}
	}
}
