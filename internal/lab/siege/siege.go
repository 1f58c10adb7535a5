package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/quiet"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/raid"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

const (
	attacksAtOnce = 3                      // of each attacker
	reloadEvery   = 7 * time.Second        // of the gateway's config
	sampleEvery   = 200 * time.Millisecond // of the memory
	lapseMost     = time.Minute            // of sessions and of what is kept for resuming
	warmth        = 2 * time.Second        // of calls of the quiet tenant before the siege
	attackMost    = 12 * time.Second       // that one attack lasts, and at least half of that
	triedWithin   = time.Minute            // that it may last longer, until it was tried once
)

// attacker is one of those who attack, with the tokens of a tenant or without any.
type attacker struct {
	mission raid.Mission
	attacks []raid.Attack
	random  *rand.Rand
}

// attackers returns two with tokens and one without. Each connects from addresses of its
// own, the stranger from as many as addresses says, so that the gateway can tell them
// apart as it can in a network.
func (l *lab) attackers(attacks []raid.Attack, addresses int64, random *rand.Rand) []*attacker {
	of := func(stranger bool, tokens []string, from ...string) *attacker {
		return &attacker{
			attacks: slices.DeleteFunc(slices.Clone(attacks), func(a raid.Attack) bool {
				return a.Stranger != stranger
			}),
			mission: raid.Mission{Addr: l.addr, From: from, Tokens: tokens},
			random:  rand.New(rand.NewPCG(random.Uint64(), random.Uint64())), //nolint:gosec // no secret
		}
	}
	from := make([]string, addresses)
	for i := range from {
		from[i] = fmt.Sprintf("127.%d.%d.%d", 1+i>>16, i>>8&255, 4+i&255%250)
	}
	return []*attacker{
		of(false, l.tokens["red"], "127.0.0.2"),
		of(false, l.tokens["blue"], "127.0.0.3"),
		of(true, l.tokens["red"], from...),
	}
}

// ledger is what the attackers saw, by attack. It is safe for concurrent use.
type ledger struct {
	mu      sync.Mutex // guards the field below
	tallies map[string]*raid.Tally
}

func (g *ledger) add(attack string, t raid.Tally) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.tallies[attack] == nil {
		g.tallies[attack] = &raid.Tally{}
	}
	g.tallies[attack].Add(t)
}

// besiege carries out attacks, some at once, until the siege is over and all have had
// their turn, or until ctx ends. It waits until all have stopped.
func (a *attacker) besiege(ctx context.Context, lasts time.Duration, g *ledger) {
	over := time.Now().Add(lasts)
	turns := time.Duration(len(a.attacks)/attacksAtOnce + 1)
	half := min(attackMost, lasts/turns*2/3) / 2 // a busy machine takes some time to begin and end each
	attacks := slices.Clone(a.attacks)
	a.random.Shuffle(len(attacks), func(i, j int) { attacks[i], attacks[j] = attacks[j], attacks[i] })
	var wg sync.WaitGroup
	for part := range min(attacksAtOnce, len(attacks)) {
		random := rand.New(rand.NewPCG(a.random.Uint64(), a.random.Uint64())) //nolint:gosec // no secret
		var own []*raid.Attack                                                // nobody else carries out those
		for next := part; next < len(attacks); next += attacksAtOnce {
			own = append(own, &attacks[next])
		}
		wg.Go(func() {
			for turn := 0; ctx.Err() == nil && (turn < len(own) || time.Now().Before(over)); turn++ {
				a.carry(ctx, own[turn%len(own)], min(half+time.Duration(random.Int64N(int64(half))),
					time.Until(over)), g)
			}
		})
	}
	wg.Wait()
}

// carry carries out one attack for a while, which may be over already, and until it was
// tried at least once.
func (a *attacker) carry(ctx context.Context, attack *raid.Attack, lasts time.Duration, g *ledger) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := &raid.Counters{}
	var wg sync.WaitGroup
	wg.Go(func() { attack.Carry(ctx, a.mission, c) })
	world.Pause(ctx, lasts)
	// the verdict says so if it was not
	_ = world.Within(ctx, triedWithin, "the attack was tried", func() bool { return c.Tally().Attempts > 0 })
	cancel()
	wg.Wait()
	g.add(attack.Name, c.Tally())
}

// outcome is how a siege of one gateway went.
type outcome struct {
	limit   int64 // of the memory, in bytes
	planned []raid.Attack
	begun   time.Time
	lasted  time.Duration
	alive   bool
	kills   int   // processes that the kernel ended for want of memory
	start   int64 // resident memory before, in bytes
	most    int64 // at its highest
	charged int64 // the most that the kernel charged to the control group, in bytes; zero: it does not tell
	sockets int64 // the most that sockets held, where that is not a part of charged
	end     int64 // some time after
	rested  time.Duration
	disk    *disk // nil: log and audit share none
	from    int64 // addresses of the stranger
	reloads int   // configs that the gateway has taken since the beginning
	quiet   *quiet.Notes
	attacks map[string]*raid.Tally
	words   string // the last that the gateway said, if it has ended
}

// percentile returns the latency that so many percent of the quiet tenant's calls did not
// exceed, of those during the siege that were answered.
func (o *outcome) percentile(percent int) time.Duration {
	var during quiet.Notes
	for _, a := range o.quiet.Answered {
		if since := a.Due.Sub(o.begun); since >= 0 && since <= o.lasted {
			during.Answered = append(during.Answered, a)
		}
	}
	latency, _ := during.Percentile(percent) // zero if there are none
	return latency.Round(time.Millisecond)
}

// plan is what a siege is to be.
type plan struct {
	limit     int64
	lasts     time.Duration
	rest      time.Duration // at most, after the siege, for the memory to come back
	seed      uint64
	attacks   []raid.Attack
	disk      int64 // bytes of the disk that log and audit share; zero: the log needs none
	addresses int64 // of the stranger
}

// run besieges one gateway. The error says that nothing was measured; whether promises
// were kept is for the outcome to say.
func (p *plan) run(ctx context.Context, r page.Report) *outcome {
	c := world.NewCage(p.limit)
	defer func() { must.OK(c.Close(context.WithoutCancel(ctx))) }()
	l := newLab(ctx, min(lapseMost, p.lasts/4), p.disk)
	defer l.close()
	gateway := l.serve(ctx, c)
	defer gateway.Kill()

	random := rand.New(rand.NewPCG(p.seed, uint64(p.limit))) //nolint:gosec // no secret
	o := &outcome{limit: p.limit, planned: p.attacks, from: p.addresses, quiet: &quiet.Notes{}}
	p.beside(ctx, l, random, o.quiet, func(ctx context.Context) {
		o.start, _ = gateway.resident()
		before := l.reloads(ctx)
		p.attack(ctx, l, gateway, random, o)
		o.reloads = l.reloads(ctx) - before
		o.rested = p.afterwards(ctx, gateway, o)
	})
	o.alive, o.kills = gateway.Runs(), c.Kills()
	o.charged, o.sockets = c.Charged()
	if o.disk = l.disk; o.disk != nil {
		o.disk.measure()
	}
	if !o.alive {
		o.words = gateway.words.String()
	}
	r.Say("%s\n", o)
	return o
}

// beside does something while the quiet tenant makes its calls, with a few of them
// before.
func (p *plan) beside(ctx context.Context, l *lab, random *rand.Rand, seen *quiet.Notes,
	do func(context.Context),
) {
	o := quiet.Calls(l.addr, "calm", l.tokens["quiet"])
	o.Least, o.Most, o.Seed = int64(quietLeast), int64(quietMost), random.Uint64()
	quiet.Say(l.quiet.In, o)
	world.Pause(ctx, warmth)
	do(ctx)
	must.OK(l.quiet.In.Close()) // it makes no more calls, and tells
	l.quiet.Reads(seen)
}

// attack lets all attackers loose at once, and has the config loaded again and again
// meanwhile. It ends early with the gateway.
func (p *plan) attack(ctx context.Context, l *lab, gateway *process, random *rand.Rand, o *outcome) {
	o.begun = time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g := &ledger{tallies: map[string]*raid.Tally{}}
	var wg sync.WaitGroup
	for _, a := range l.attackers(p.attacks, p.addresses, random) {
		wg.Go(func() { a.besiege(ctx, p.lasts, g) })
	}
	go func() { // the loop below waits for it, or cancels what it waits for
		wg.Wait()
		cancel()
	}()
	turn := 0
	for due := o.begun.Add(reloadEvery); gateway.Runs() && world.Pause(ctx, sampleEvery); {
		_, most := gateway.resident()
		o.most = max(o.most, most)
		if time.Now().After(due) {
			due = due.Add(reloadEvery)
			turn++
			l.configure(turn)
			_ = gateway.Signal(syscall.SIGHUP) // it may just have ended
		}
	}
	o.lasted = time.Since(o.begun)
	cancel()
	wg.Wait()
	o.attacks = g.tallies
}

// afterwards waits until the resident memory is back near its start, as long as that may
// take, and returns how long it took.
func (p *plan) afterwards(ctx context.Context, gateway *process, o *outcome) time.Duration {
	begun := time.Now()
	for {
		o.end, _ = gateway.resident()
		if gateway.Runs() && !o.near() && time.Since(begun) < p.rest && world.Pause(ctx, sampleEvery) {
			continue
		}
		return time.Since(begun)
	}
}
