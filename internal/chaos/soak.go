package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/chaos/crowd"
	"github.com/drawbridge-mcp/drawbridge/internal/chaos/ledger"
	"github.com/drawbridge-mcp/drawbridge/internal/chaos/world"
)

// soakFlags say how long the fleet is used.
type soakFlags struct {
	time     time.Duration
	lives    int
	balancer string
}

// newSoak is the part soak: it uses a fleet for long, while configs change and replicas are replaced, and looks whether
// what they hold is then what they held at the beginning.
func newSoak(flags *flag.FlagSet) proof {
	var f soakFlags
	flags.DurationVar(&f.time, "time", 30*time.Minute, "how long all of it takes, of which some minutes are for measuring")
	flags.IntVar(&f.lives, "lives", 30_000, "how many sessions must have been opened, used and ended at least")
	flags.StringVar(&f.balancer, "balancer", "nginx", "nginx or haproxy")
	return f.prove
}

const (
	soakAge     = 30 * time.Second       // sessions.events.age, so that streams have gone from Redis when it is measured
	warmTime    = time.Minute            // of the same work before the first measurement, so that pools are filled
	closing     = 65 * time.Second       // after which the load balancer has closed connections that nobody uses
	reloadEvery = 10 * time.Second       // a config changes
	renewEvery  = time.Minute            // a replica is replaced
	soakPause   = 100 * time.Millisecond // between two operations of one client
	briefPause  = 300 * time.Millisecond // between two brief sessions of one client
	briefs      = 8                      // so many clients of each tenant open brief sessions
)

// prove uses the fleet and returns the section about it.
func (f *soakFlags) prove(ctx context.Context, log io.Writer) (section string, err error) {
	if least := 2*warmTime + 4*closing; f.time < least {
		return "", fmt.Errorf("-time: %v shows nothing, %v at least", f.time, least)
	}
	dir, err := os.MkdirTemp("", "drawbridge-soak-")
	if err != nil {
		return "", err
	}
	defer func() { leave(dir, log, err) }()
	program, err := build(ctx, dir)
	if err != nil {
		return "", err
	}
	g := steady()
	g.eventAge = soakAge
	scene, err := newScene(ctx, filepath.Join(dir, f.balancer), program, f.balancer, g)
	if err != nil {
		return "", err
	}
	defer scene.close()
	s := &soak{stage: stage{scene: scene, inFlight: map[ledger.Nonce]bool{}, soon: map[ledger.Nonce]bool{}}, lives: f.lives, log: log, began: time.Now(), ends: map[string]int{}}
	s.begin(1) // nothing is drawn
	if err := s.live(ctx, f.time); err != nil {
		return "", err
	}
	return s.describe(), s.verdict()
}

// soak is one long run. The last of the replicas lives from the beginning to the end, the others are replaced.
type soak struct {
	stage

	lives   int // that must have been
	log     io.Writer
	began   time.Time
	reloads int
	moments []*moment
	total   ledger.Verdict
	ends    map[string]int
	samples []string
}

// live uses the fleet in two halves, and measures before, between and after.
func (s *soak) live(ctx context.Context, all time.Duration) error {
	end := s.began.Add(all - closing - patience/2) // the last measurement takes so long
	half := func(name string, until time.Time) error {
		if err := s.half(ctx, until); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		m, err := s.measure(ctx, name)
		if err != nil {
			return fmt.Errorf("measure: %s: %w", name, err)
		}
		s.moments = append(s.moments, m)
		_, _ = fmt.Fprintln(s.log, m) // the log is no part of the proof
		return nil
	}
	if err := half("begin", time.Now().Add(warmTime)); err != nil {
		return err
	}
	if err := half("middle", time.Now().Add(time.Until(end)/2)); err != nil {
		return err
	}
	if err := half("end", end); err != nil {
		return err
	}
	return s.empty(ctx)
}

// half has clients work until a time, while configs change and replicas are replaced, and judges that.
func (s *soak) half(ctx context.Context, until time.Time) error {
	s.book = ledger.New()
	c := crowd.Config{URL: s.URL, Token: s.Token, Ledger: s.book, Pause: soakPause}
	brief := c
	brief.Kinds, brief.Size, brief.Pause = []string{crowd.Brief}, briefs, briefPause
	s.crowds = []*crowd.Crowd{crowd.Start(ctx, c), crowd.Start(ctx, brief)}
	reload, renewal := time.Now().Add(reloadEvery), time.Now().Add(renewEvery)
	for time.Now().Before(until) && ctx.Err() == nil {
		wait(ctx, time.Second)
		var err error
		switch now := time.Now(); {
		case s.moments == nil: // the pools are being filled
		case now.After(renewal):
			renewal = now.Add(renewEvery)
			err = s.renew(ctx)
		case now.After(reload):
			reload = now.Add(reloadEvery)
			err = s.reload(ctx)
		}
		if err != nil {
			return err
		}
	}
	if err := s.dismiss(ctx); err != nil {
		return err
	}
	records, err := s.Audit()
	if err != nil {
		return err
	}
	v := s.book.Judge(s.executions(), records)
	v.Ends, s.samples = nil, append(s.samples, v.Samples...)
	for _, f := range s.book.Failures() {
		s.ends[f.How]++
	}
	s.total.Ends = map[string]int{}
	addVerdict(&s.total, &v)
	return nil
}

// renew replaces one of the replicas that do not live long, by SIGTERM and by SIGKILL in turn.
func (s *soak) renew(ctx context.Context) error {
	r := s.Replicas[s.restarts/2%(replicas-1)]
	_, _ = fmt.Fprintf(s.log, "%v: replacement %d, %s, %d lives\n", time.Since(s.began).Round(time.Second), s.restarts+1, r.Name, s.deeds().Lives) // as above
	if s.restarts%2 == 0 {
		return s.restart(ctx, r)
	}
	s.strike(ctx, r)
	return s.join(ctx, r)
}

// reload changes the config of a replica, each in turn, and changes it back the next time.
func (s *soak) reload(ctx context.Context) error {
	const added = "\nservers:\n  added: {builtin: [calculate]}\n"
	limited, stop := context.WithTimeout(ctx, stopTime)
	defer stop()
	s.reloads++
	return s.Replicas[s.reloads%replicas].Rewrite(limited, func(config string) string {
		if strings.Contains(config, added) {
			return strings.Replace(config, added, "\nservers:\n", 1)
		}
		return strings.Replace(config, "\nservers:\n", added, 1)
	})
}

// empty takes out of Redis what must stay there for longer than a run, as time would, and looks at it once more.
func (s *soak) empty(ctx context.Context) error {
	last := s.moments[len(s.moments)-1]
	if _, err := s.Redis.Nodes[0].Exec(ctx, "EVAL", removeScript, "0"); err != nil {
		return err
	}
	wait(ctx, 5*time.Second) // Redis makes its tables smaller by and by
	left, err := s.store(ctx)
	if err != nil {
		return err
	}
	after := &moment{name: "end, without what stays", at: time.Since(s.began), usage: maps.Clone(last.usage), redis: left}
	s.moments = append(s.moments, after)
	_, _ = fmt.Fprintln(s.log, after) // as above
	return nil
}

// longLived returns the replica that was never replaced.
func (s *soak) longLived() *world.Replica { return s.Replicas[replicas-1] }

// verdict returns the promises that were broken, nil if none was.
func (s *soak) verdict() error {
	var broken []error
	claim := func(so bool, format string, args ...any) {
		if !so {
			broken = append(broken, fmt.Errorf("%w: "+format, append([]any{errBroken}, args...)...))
		}
	}
	claim(s.total.Lost() == 0, "the oracle found %d: %q", s.total.Lost(), s.samples)
	claim(s.deeds().Lives >= int64(s.lives), "%d sessions were opened, used and ended, want %d", s.deeds().Lives, s.lives)
	begin, end, empty := s.moments[0], s.moments[2], s.moments[3]
	for _, r := range s.Replicas {
		before, after := begin.usage[r.Name], end.usage[r.Name]
		claim(after.Goroutines <= before.Goroutines+moreGoroutines, "%s has %d goroutines at the end, and had %d", r.Name, after.Goroutines, before.Goroutines)
		claim(after.Descriptors <= before.Descriptors+moreDescriptors, "%s has %d descriptors at the end, and had %d", r.Name, after.Descriptors, before.Descriptors)
		claim(after.Heap <= before.Heap+before.Heap/4+moreBytes, "%s has %d bytes in use at the end, and had %d", r.Name, after.Heap, before.Heap)
		claim(after.Resident <= 2*before.Resident, "%s is %d bytes large at the end, and was %d", r.Name, after.Resident, before.Resident)
	}
	for _, m := range []*moment{begin, s.moments[1], end} {
		for kind, k := range m.redis.kinds {
			claim(stays(kind) || k.keys <= fewKeys, "%s: there are %d keys of the kind %s", m.name, k.keys, kind)
		}
	}
	claim(end.redis.kinds["session"].keys <= int(s.deeds().Sessions), "Redis keeps %d sessions, and %d were opened", end.redis.kinds["session"].keys, s.deeds().Sessions)
	claim(empty.redis.used <= begin.redis.used+begin.redis.used/10+moreBytes, "Redis uses %d bytes at the end, and used %d", empty.redis.used, begin.redis.used)
	return errors.Join(broken...)
}

// What may be more at the end than at the beginning: what is busy with something for a moment, such as a beat of replicas.
const (
	moreGoroutines  = 10
	moreDescriptors = 10
	moreBytes       = 1 << 20
	fewKeys         = 40 // of one kind, that live for seconds: pulses, mailboxes, places
)
