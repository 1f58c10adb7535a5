package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/quiet"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/raid"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// attacks lists all attacks. The first is none: what it shows is how far two measures of
// the same thing differ.
var attacks = append([]raid.Attack{
	{Name: "no attack", Does: "nothing; how far the ratio is from 1 is the noise of the measure"},
	raid.Refusals,
}, raid.Attacks...)

// mission is what an attacking process is to do.
type mission struct {
	Attack string
	For    raid.Mission
	Real   bool // it is the gateway, not the dummy
	Few    bool // not more raiders than are enough
}

// tally is what the raiders of an attack saw.
type tally struct {
	raid.Tally
	Millis int64 // how long it was looked at
}

// ready is the line that an attacking process writes once its attack bites.
const ready = "ready\n"

// attackUntilTold is a role: it carries out a mission, which its argument says in JSON,
// until its standard input ends. It writes a line when the attack bites, and its tally at
// the end. After the line, the tally begins anew.
func attackUntilTold(ctx context.Context, args []string, in io.Reader, out io.Writer) {
	ctx, cancel := quiet.UntilEnd(ctx, in)
	defer cancel()
	var m mission
	must.OK(strictjson.Unmarshal([]byte(args[0]), &m))
	a := attacks[slices.IndexFunc(attacks, func(a raid.Attack) bool { return a.Name == m.Attack })]
	if m.Few && a.Few > 0 {
		a.Raiders = a.Few
	}
	c := &raid.Counters{}
	var raiders sync.WaitGroup
	raiders.Go(func() { a.Carry(ctx, m.For, c) })
	for a.Raiders > 0 && !bitesAt(&a, m, c.Tally()) {
		if !world.Pause(ctx, 10*time.Millisecond) {
			raiders.Wait()
			panic(fmt.Errorf("%s did not take place: %+v", a.Name, c.Tally()))
		}
	}
	before, bitten := c.Tally(), time.Now()
	must.Have(io.WriteString(out, ready))
	<-ctx.Done()
	now, took := c.Tally(), time.Since(bitten)
	raiders.Wait()
	quiet.Say(out, tally{now.Since(before), took.Milliseconds()})
}

// bitesAt tells whether the attack takes place. The dummy refuses nothing, so there it is
// enough that it is tried.
func bitesAt(a *raid.Attack, m mission, seen raid.Tally) bool {
	return m.Real && a.Bites(seen) || !m.Real && seen.Attempts > 0
}

// plus returns the sum with another tally, as of a later round.
func (t tally) plus(other tally) tally {
	t.Add(other.Tally)
	t.Millis += other.Millis
	return t
}
