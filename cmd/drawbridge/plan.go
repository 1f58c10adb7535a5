package main

import (
	"context"
	"flag"
	"fmt"
	"math"
	"slices"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
)

// plan says what changes for callers between two configs.
type plan struct {
	before, after planned
	losses        int // lines that say that somebody may do less
	s             streams
}

// planned is one of the two configs, with a gateway that serves nobody.
type planned struct {
	cfg    *config.Config
	offers *offers
	desk   *gateway.Gateway
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
		p := &plan{s: s}
		for i, side := range []*planned{&p.before, &p.after} {
			if err := side.load(ctx, files[i], *online); err != nil {
				return refusedConfig(err)
			}
			defer side.offers.close()
			for _, c := range failed(side.offers.checks) {
				s.complain("drawbridge plan: %s: %s\n", files[i], c)
			}
		}
		if err := p.run(ctx, audits); err != nil {
			return refused("%w", err)
		}
		if p.losses > 0 {
			return errUnsaid
		}
		return nil
	}
}

// load reads a config and learns what its servers offer.
func (p *planned) load(ctx context.Context, file string, online bool) (err error) {
	if p.cfg, err = config.Load(file, config.ProcessEnvironment()); err != nil {
		return err
	}
	p.offers = newOffers(ctx, p.cfg, online)
	p.desk = deskOf(p.cfg, p.offers.catalogue)
	return nil
}

// run writes the plan.
func (p *plan) run(ctx context.Context, audits []string) error {
	all := changeList(p.before.cfg, p.before.cfg, p.after.cfg)
	for _, change := range all {
		p.s.say("config: %s\n", change)
	}
	p.speakers()
	found, err := p.after.desk.Compare(ctx, p.before.desk.Access(), p.after.desk.Access())
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
	calls := newCallsJudged(&p.before, &p.after)
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

// speakers says of which tenants issuers begin or cease to speak.
func (p *plan) speakers() {
	was, is := p.before.cfg.Speakers(), p.after.cfg.Speakers()
	for _, s := range was {
		if !slices.Contains(is, s) {
			p.line(true, fmt.Sprintf("tenant %s: callers of %s lose everything (the issuer serves the "+
				"tenant no more)", s[1], s[0]))
		}
	}
	for _, s := range is {
		if !slices.Contains(was, s) {
			p.line(false, fmt.Sprintf("tenant %s: callers of %s have access now (the issuer serves the "+
				"tenant)", s[1], s[0]))
		}
	}
}
