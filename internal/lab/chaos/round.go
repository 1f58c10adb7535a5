package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/chaos/crowd"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/ledger"
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
	deeds   crowd.Deeds
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
func (s *scene) play(ctx context.Context, j job, size int) *outcome {
	began := time.Now()
	s.begin(j.seed)
	o := &outcome{job: j}
	book := ledger.New()
	o.missed = s.playWith(ctx, j.fault, book, size, o)
	if err := s.clean(ctx); err != nil && o.missed == nil {
		o.missed = fmt.Errorf("clean up: %w", err)
	}
	records, err := s.Audit()
	if err != nil && o.missed == nil {
		o.missed = fmt.Errorf("read the records: %w", err)
	}
	o.verdict = book.Judge(s.executions(), records)
	if o.deeds.Doubled > 0 {
		o.verdict.EventsTwice += int(o.deeds.Doubled)
		o.verdict.Samples = append(o.verdict.Samples,
			fmt.Sprintf("%d events came again on streams that were resumed after them", o.deeds.Doubled))
	}
	o.lost = j.fault.lost(&o.verdict)
	if o.missed == nil && o.verdict.Answered < warm {
		o.missed = fmt.Errorf("only %d calls were answered, which shows nothing", o.verdict.Answered)
	}
	o.took = time.Since(began)
	return o
}

// playWith plays what a crowd sees. The crowd has ended when it returns.
func (s *scene) playWith(ctx context.Context, f *fault, book *ledger.Ledger, size int, o *outcome) error {
	if f.before != nil {
		if err := f.before(ctx, s); err != nil {
			return fmt.Errorf("before the fault: %w", err)
		}
	}
	if err := s.ready(ctx); err != nil {
		return fmt.Errorf("before the fault: %w", err)
	}
	patience := cmp.Or(f.patience, silence)
	s.crowd = crowd.Start(ctx, crowd.Config{
		URL: s.url, Token: s.token, Ledger: book, Size: size, Patience: patience, Forgetful: f.weak,
		ChangePatience: 2*time.Minute + patience - silence,
		Kinds:          append(crowd.Kinds(), crowd.Libraries()...),
	})
	missed := s.suffer(ctx, f)
	stopping, stop := context.WithTimeout(ctx, ends)
	defer stop()
	if err := s.crowd.Stop(stopping); err != nil && missed == nil {
		missed = fmt.Errorf("the crowd does not come to its end: %w", err)
	}
	o.deeds = s.crowd.Deeds()
	return missed
}

// suffer makes the fault under the crowd, and heals it.
func (s *scene) suffer(ctx context.Context, f *fault) error {
	if err := s.busy(ctx, warm); err != nil {
		return fmt.Errorf("before the fault: %w", err)
	}
	made := time.Now()
	effect, err := f.make(ctx, s)
	if err != nil {
		return fmt.Errorf("make the fault: %w", err)
	}
	var missed error
	if effect.seen != nil {
		if err := until(ctx, effect.seen); err != nil {
			missed = fmt.Errorf("during the fault: %w", err)
		}
	}
	world.Pause(ctx, time.Until(made.Add(lasts)))
	if effect.heal != nil {
		if err := effect.heal(ctx); err != nil {
			return fmt.Errorf("heal the fault: %w", err)
		}
	}
	if missed != nil {
		return missed
	}
	if err := s.ready(ctx); err != nil {
		return fmt.Errorf("after the fault: %w", err)
	}
	if effect.after != nil {
		if err := until(ctx, effect.after); err != nil {
			return fmt.Errorf("after the fault: %w", err)
		}
	}
	before := s.crowd.Answers()
	if err := s.busy(ctx, warm); err != nil {
		return fmt.Errorf("after the fault: %w", err)
	}
	if err := until(ctx, func(context.Context) error { return back(before, s.crowd.Answers()) }); err != nil {
		return fmt.Errorf("after the fault: %w", err)
	}
	return nil
}

// back returns which kinds of clients had no answer to a call since before, nil if each
// had one. A handshake or a session that stays broken for one kind shows nowhere else:
// the others ask enough.
func back(before, now map[string]int64) error {
	var away []string
	for _, kind := range slices.Sorted(maps.Keys(before)) {
		if now[kind] == before[kind] {
			away = append(away, kind)
		}
	}
	if away != nil {
		return fmt.Errorf("no call was answered of the clients %s", strings.Join(away, ", "))
	}
	return nil
}

// busy waits until the crowd has asked some more calls.
func (s *scene) busy(ctx context.Context, calls int) error {
	before := s.crowd.Deeds().Calls
	return until(ctx, func(context.Context) error {
		if asked := s.crowd.Deeds().Calls - before; asked < int64(calls) {
			return fmt.Errorf("the crowd asked %d calls only", asked)
		}
		return nil
	})
}

// ready waits until everything is ready, without helping, and both servers answer through
// each replica.
func (s *scene) ready(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	if err := s.Ready(ctx); err != nil {
		return err
	}
	for _, r := range s.Replicas[:replicas] {
		if !r.Runs() {
			continue // a fault may begin with one that has stopped
		}
		if err := until(ctx, all(s.serves(r, crowd.Modern), s.serves(r, crowd.Legacy))); err != nil {
			return err
		}
	}
	return nil
}
