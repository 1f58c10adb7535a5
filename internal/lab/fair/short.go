package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/raid"
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
	var wrong []error
	for _, a := range chosen {
		begun := time.Now()
		m := l.mission(a, l.gateway)
		m.Few = true
		s, err := must.Got(func() *side { return l.meet(ctx, m, shortSamples, 0) })
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", a.Name, err))
			continue
		}
		if seen := s.rounds[0]; seen.Refused() > 0 || len(seen.Answered) != shortSamples {
			wrong = append(
				wrong, fmt.Errorf("%s: of %d calls of the quiet tenant %d were answered; the others: %v",
					a.Name, shortSamples, len(seen.Answered), seen.Instead))
		}
		r.Say("%s: %v, %+v\n", a.Name, time.Since(begun).Round(time.Millisecond), s.tally)
	}
	if !gateway.Runs() {
		wrong = append(wrong, fmt.Errorf("the gateway ended:\n%s", gateway.Words()))
	}
	must.OK(errors.Join(wrong...))
}
