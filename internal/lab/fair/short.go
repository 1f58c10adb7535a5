package main

import (
	"context"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/raid"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

const shortSamples = 24 // calls of the quiet tenant beside each attack

// runShort lets every attack bite for a moment, all on one gateway, and asks only what
// does not depend on the speed of the machine: was every call of the quiet tenant
// answered, and did every attack take place?
func runShort(ctx context.Context, chosen []raid.Attack, r page.Report) {
	l := newLab(ctx)
	defer l.Close()
	gateway := l.serve(ctx)
	defer gateway.Kill()
	var c world.Claims
	for _, a := range chosen {
		begun := time.Now()
		m := l.mission(a, l.gateway)
		m.Few = true
		s, err := must.Got(func() *side { return l.meet(ctx, m, shortSamples, 0) })
		c.Claim(err == nil, "%s: %w", a.Name, err)
		if err != nil {
			continue
		}
		seen := s.rounds[0]
		c.Claim(seen.Refused() == 0 && len(seen.Answered) == shortSamples,
			"%s: of %d calls of the quiet tenant %d were answered; the others: %v", a.Name, shortSamples,
			len(seen.Answered), seen.Instead)
		r.Say("%s: %v, %+v\n", a.Name, time.Since(begun).Round(time.Millisecond), s.tally)
	}
	c.Claim(gateway.Runs(), "the gateway ended:\n%s", gateway.Words())
	must.OK(c.Broken())
}
