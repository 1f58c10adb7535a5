package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/chaos/crowd"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/ledger"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

const (
	warm  = 40              // so many calls are asked before the fault, and again after it
	lasts = 2 * time.Second // the least time that a fault lasts
	// how long a client waits until it takes a call for lost; calls have 10 s, and
	// subscriptions of a replica that died twice 5 s
	silence = 30 * time.Second
	// how long the crowd may take to come to its end; it waits two minutes for word of a
	// change
	ends = 3 * time.Minute
)

// outcome is what became of one round.
type outcome struct {
	job     job
	verdict ledger.Verdict
	lost    int   // of what the verdict found, without what is expected with this fault
	missed  error // what else was not as it must be; nil: nothing
	took    time.Duration
}

// bad tells whether a promise was broken.
func (o *outcome) bad() bool { return o.lost > 0 || o.missed != nil }

// String is the outcome in a line.
func (o *outcome) String() string {
	v := &o.verdict
	text := fmt.Sprintf("%s, %s, round %d: %d asked, %d answered, %d refused, %d broken, %d lost (%.1f s)",
		o.job.fault.name, o.job.balancer, o.job.round+1, v.Requests, v.Answered, v.Refused, v.Broken, o.lost,
		o.took.Seconds())
	if o.missed != nil {
		text += ": " + o.missed.Error()
	}
	return text
}

// play makes one round.
func (s *scene) play(ctx context.Context, j job) *outcome {
	began := time.Now()
	s.begin(j.seed)
	o := &outcome{job: j}
	book := ledger.New()
	o.missed = must.Try(func() { s.playWith(ctx, j.fault, book) })
	if err := must.Try(func() { clean(ctx, s) }); err != nil && o.missed == nil {
		o.missed = fmt.Errorf("clean up: %w", err)
	}
	records, err := must.Got(s.Audit)
	if err != nil && o.missed == nil {
		o.missed = fmt.Errorf("read the records: %w", err)
	}
	o.verdict = book.Judge(s.executions(), records)
	o.lost = j.fault.lost(&o.verdict)
	if o.missed == nil && o.verdict.Answered < warm {
		o.missed = fmt.Errorf("only %d calls were answered, which shows nothing", o.verdict.Answered)
	}
	o.took = time.Since(began)
	return o
}

// phase does steps, of which an error says in which phase of a round it came.
func (s *scene) phase(ctx context.Context, name string, steps ...step) {
	err := must.Try(func() { all(steps...)(ctx, s) })
	must.Be(err == nil, "%s: %w", name, err)
}

// playWith plays what a crowd sees. The crowd has ended when it is over.
func (s *scene) playWith(ctx context.Context, f *fault, book *ledger.Ledger) {
	s.store = s.Redis.Nodes[0]
	s.phase(ctx, "before the fault", f.before, ready)
	patience := cmp.Or(f.patience, silence)
	s.crowd = crowd.Start(ctx, crowd.Config{
		URL: s.url, Token: s.token, Ledger: book, Patience: patience, Forgetful: f.weak,
		ChangePatience: 2*time.Minute + patience - silence,
		Loads:          []crowd.Load{{Kinds: slices.Concat(crowd.Kinds, crowd.Libraries)}},
	})
	missed := must.Try(func() { s.suffer(ctx, f) })
	stopping, stop := context.WithTimeout(ctx, ends)
	defer stop()
	if err := s.crowd.Stop(stopping); err != nil && missed == nil {
		missed = fmt.Errorf("the crowd does not come to its end: %w", err)
	}
	must.OK(missed)
}

// suffer makes the fault under the crowd, and heals it.
func (s *scene) suffer(ctx context.Context, f *fault) {
	s.phase(ctx, "before the fault", busy(warm))
	made := time.Now()
	if err := must.Try(func() { s.phase(ctx, "make the fault", f.make) }); err != nil {
		panic(errors.Join(err, s.undone(ctx, &s.healing)))
	}
	missed := must.Try(func() { s.phase(ctx, "during the fault", soon(all(append(s.during, f.seen)...))) })
	world.Pause(ctx, time.Until(made.Add(lasts)))
	s.phase(ctx, "heal the fault", func(ctx context.Context, s *scene) {
		must.OK(errors.Join(s.undone(ctx, &s.healing), must.Try(func() { all(f.heal)(ctx, s) })))
	})
	must.OK(missed)
	s.phase(ctx, "after the fault", ready, soon(all(f.after)), answered)
}

// answered waits until the crowd has asked some more calls, and each kind of clients had
// an answer of each server.
func answered(ctx context.Context, s *scene) {
	before := s.crowd.Answers()
	all(busy(warm), soon(func(_ context.Context, s *scene) {
		back(before, s.crowd.Answers())
	}))(ctx, s)
}

// back returns which kinds of clients had no answer to a call of a server, or were told
// of no change, since before, nil if each was. A handshake, a session or a subscription
// that stays broken for one kind shows nowhere else: the others ask enough.
func back(before, now map[string]int64) {
	away := slices.DeleteFunc(slices.Sorted(maps.Keys(before)),
		func(kind string) bool { return now[kind] != before[kind] })
	must.Be(len(away) == 0, "nothing came of the clients and servers: %s", strings.Join(away, "; "))
}

// ready waits until everything is ready, without helping, and both servers answer through
// each replica that runs: a fault may begin with one that has stopped.
func ready(ctx context.Context, s *scene) {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	s.Ready(ctx)
	running := slices.DeleteFunc(slices.Clone(s.fleet()), func(r *world.Replica) bool { return !r.Runs() })
	soon(of(func(*scene) []*world.Replica { return running }, servesAll))(ctx, s)
}
