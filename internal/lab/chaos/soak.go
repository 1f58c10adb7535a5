package main

import (
	"context"
	"flag"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/chaos/crowd"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/ledger"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// soakFlags say how long the fleet is used.
type soakFlags struct {
	time     time.Duration
	lives    int
	balancer string
}

// newSoak is the part soak: it uses a fleet for long, while configs change and replicas
// are replaced, and looks whether what they hold is then what they held at the beginning.
func newSoak(flags *flag.FlagSet) page.Measure {
	var f soakFlags
	flags.DurationVar(&f.time, "time", 30*time.Minute,
		"how long all of it takes, of which some minutes are for measuring")
	flags.IntVar(&f.lives, "lives", 30_000,
		"how many sessions must have been opened, used and ended at least")
	flags.StringVar(&f.balancer, "balancer", "nginx", "nginx or haproxy")
	return f.prove
}

const (
	// sessions.events.age, so that streams have gone from Redis when it is measured
	soakAge = 30 * time.Second
	// of the same work before the first measurement, so that pools are filled
	warmTime = time.Minute
	// after which the load balancer has closed connections that nobody uses
	closing     = 65 * time.Second
	reloadEvery = 10 * time.Second       // a config changes
	renewEvery  = time.Minute            // a replica is replaced
	soakPause   = 100 * time.Millisecond // between two operations of one client
	briefPause  = 300 * time.Millisecond // between two brief sessions of one client
	briefs      = 8                      // so many clients of each tenant open brief sessions
)

// prove uses the fleet and returns the section about it.
func (f *soakFlags) prove(ctx context.Context, r page.Report) (string, error) {
	const least = 2*warmTime + 4*closing
	must.Be(f.time >= least, "-time: %v shows nothing, %v at least", f.time, least)
	return inFolder(ctx, "soak", r.Log, false, func(dir, program string) (string, error) {
		g := steady
		g.eventAge = soakAge
		scene := newScene(ctx, filepath.Join(dir, f.balancer), program, f.balancer, g)
		defer scene.close()
		s := &soak{
			stage: stage{
				scene: scene, inFlight: map[ledger.Nonce]bool{}, soon: map[ledger.Nonce]bool{},
				loads: []crowd.Load{
					{Kinds: crowd.Kinds, Pause: soakPause},
					{Kinds: []string{crowd.Brief}, Size: briefs, Pause: briefPause},
				},
			},
			lives: f.lives, log: r.Log, began: time.Now(), ends: map[string]int{},
		}
		s.begin(1) // nothing is drawn
		s.live(ctx, f.time)
		return s.describe(), s.verdict()
	})
}

// soak is one long run. The last of the replicas lives from the beginning to the end, the
// others are replaced.
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

	// calls that failed and were in flight when a replica was killed, and that were asked
	// soon after
	known, asked int
	late         []ledger.Failure // other calls that failed
	unrecorded   int              // calls that are not on record without excuse
	overdue      []string         // kinds of keys that do not end when they must
}

// live uses the fleet in two halves, and measures before, between and after.
func (s *soak) live(ctx context.Context, all time.Duration) {
	end := s.began.Add(all - closing - patience/2) // the last measurement takes so long
	half := func(name string, until time.Time) {
		s.half(ctx, until)
		m := s.measure(ctx, name)
		s.moments = append(s.moments, m)
		say(s.log, "%s\n", m)
	}
	half("begin", time.Now().Add(warmTime))
	half("middle", time.Now().Add((time.Until(end)-closing)/2))
	half("end", end)
	s.empty(ctx)
}

// half has clients work until a time, while configs change and replicas are replaced, and
// judges that.
func (s *soak) half(ctx context.Context, until time.Time) {
	s.book = ledger.New()
	s.employ(ctx)
	reload, renewal := time.Now().Add(reloadEvery), time.Now().Add(renewEvery)
	for time.Now().Before(until) && ctx.Err() == nil {
		world.Pause(ctx, time.Second)
		switch now := time.Now(); {
		case s.moments == nil: // the pools are being filled
		case now.After(renewal):
			renewal = now.Add(renewEvery)
			s.renew(ctx)
		case now.After(reload):
			reload = now.Add(reloadEvery)
			s.reload(ctx)
		}
	}
	s.dismiss(ctx)
	v := s.judge(ctx)
	s.add(&v, s.book.Failures())
}

// add adds what became of a half.
func (s *soak) add(v *ledger.Verdict, failures []ledger.Failure) {
	for _, f := range failures {
		s.ends[f.How]++
	}
	asked, others := late(failures, s.inFlight, s.soon)
	s.known, s.asked, s.late = s.known+len(failures)-asked-len(others), s.asked+asked, append(s.late,
		others...)
	s.unrecorded += unrecorded(v, s.inFlight, s.soon)
	s.samples = slices.Concat(s.samples, v.Samples, v.Notes)
	v.Ends, s.total.Ends = nil, map[string]int{} // ends has them without what clients ended themselves
	addVerdict(&s.total, v)
}

// renew replaces one of the replicas that do not live long, by SIGTERM and by SIGKILL in
// turn.
func (s *soak) renew(ctx context.Context) {
	r := s.Replicas[s.restarts/2%(replicas-1)]
	say(s.log, "%v: replacement %d, %s, %d lives\n", time.Since(s.began).Round(time.Second),
		s.restarts+1, r.Name, s.tally.Deeds().Lives)
	if s.restarts%2 == 0 {
		s.restart(ctx, r)
		return
	}
	s.strike(ctx, r)
	s.join(ctx, r)
}

// reload changes the config of a replica, each in turn, and changes it back the next
// time.
func (s *soak) reload(ctx context.Context) {
	s.reloads++
	world.For(ctx, stopTime,
		func(ctx context.Context) { s.Replicas[s.reloads%replicas].Rewrite(ctx, otherwise) })
}

// empty takes out of Redis what must stay there for longer than a run, as time would, and
// looks at it once more.
func (s *soak) empty(ctx context.Context) {
	last := s.moments[len(s.moments)-1]
	s.overdue = slices.DeleteFunc(strings.Split(s.Redis.Nodes[0].Exec(ctx, removal()...), "\n"),
		func(line string) bool { return line == "" })
	world.Pause(ctx, 5*time.Second) // Redis makes its tables smaller by and by
	after := &moment{
		name: "end, without what stays", at: time.Since(s.began), usage: maps.Clone(last.usage),
		redis: s.store(ctx),
	}
	s.moments = append(s.moments, after)
	say(s.log, "%s\n", after)
}

// longLived returns the replica that was never replaced.
func (s *soak) longLived() *world.Replica { return s.Replicas[replicas-1] }

// verdict returns the promises that were broken, nil if none was.
func (s *soak) verdict() error {
	var c world.Claims
	claimCalls(&c, &s.total, s.unrecorded, s.samples)
	c.Claim(len(s.late) == 0, "%d calls failed that were not in flight when a replica was killed: %v",
		len(s.late), s.late)
	c.Claim(s.tally.Deeds().Lives >= int64(s.lives), "%d sessions were opened, used and ended, want %d",
		s.tally.Deeds().Lives, s.lives)
	s.claimProcesses(&c)
	s.claimStore(&c)
	return c.Broken()
}

// claimProcesses claims that replicas hold what they held.
func (s *soak) claimProcesses(c *world.Claims) {
	begin, middle, end := s.moments[0], s.moments[1], s.moments[2]
	for _, r := range s.Replicas {
		before, after := begin.usage[r.Name], end.usage[r.Name]
		c.Claim(after.Goroutines <= before.Goroutines+moreGoroutines,
			"%s has %d goroutines at the end, and had %d", r.Name, after.Goroutines, before.Goroutines)
		c.Claim(after.Descriptors <= before.Descriptors+moreDescriptors,
			"%s has %d descriptors at the end, and had %d", r.Name, after.Descriptors, before.Descriptors)
		c.Claim(after.Heap <= before.Heap+before.Heap/4+moreEnds,
			"%s has %d bytes in use at the end, and had %d", r.Name, after.Heap, before.Heap)
		c.Claim(after.Resident <= 2*before.Resident, "%s is %d bytes large at the end, and was %d", r.Name,
			after.Resident, before.Resident)
	}
	lasting := s.longLived().Name
	before, after, sessions := middle.usage[lasting].Heap, end.usage[lasting].Heap, end.lives-middle.lives
	c.Claim(middle.at < fillTime || after <= before+moreHeap(sessions),
		"%s has %d bytes in use at the end, and had %d in the middle, %d sessions before", lasting, after,
		before, sessions)
}

// claimStore claims that Redis holds what it held, and what must stay there.
func (s *soak) claimStore(c *world.Claims) {
	begin, end, empty := s.moments[0], s.moments[2], s.moments[3]
	for _, m := range s.moments[:3] {
		c.Claim(m.redis.kinds["replicas"].keys > 0, "%s: the keys of Redis were not found, only %v", m.name,
			m.redis.kinds)
		for kind, k := range m.redis.kinds {
			c.Claim(stays(kind) || k.keys <= fewKeys, "%s: there are %d keys of the kind %s", m.name, k.keys,
				kind)
		}
	}
	c.Claim(end.redis.kinds["session"].keys <= int(s.tally.Deeds().Sessions),
		"Redis keeps %d sessions, and %d were opened", end.redis.kinds["session"].keys,
		s.tally.Deeds().Sessions)
	c.Claim(len(s.overdue) == 0, "Redis keeps keys for longer than it may: %q", s.overdue)
	c.Claim(empty.redis.used <= begin.redis.used+begin.redis.used/10+moreBytes,
		"Redis uses %d bytes at the end, and used %d", empty.redis.used, begin.redis.used)
}

// What may be more at the end than at the beginning: what is busy with something for a
// moment, such as a beat of replicas.
const (
	moreGoroutines  = 10
	moreDescriptors = 10
	moreBytes       = 1 << 20
	// of a replica: besides, the ends of sessions that it remembers for minutes, 4096 of
	// each tenant and 310 bytes each
	moreEnds = 4 << 20
	fewKeys  = 40 // of one kind, that live for seconds: pulses, replicas, links, blocks
)

// fillTime is when all that a replica keeps for a while has filled up, so that its heap
// should stay as it is: pools, tables, and ends of sessions, which it remembers for ten
// minutes. A middle before that is no measure of the end.
const fillTime = 12 * time.Minute

// moreHeap is how many bytes more the replica that lives all the time may have in use at
// the end than in the middle, when so many sessions were opened, used and ended between.
// If each of these left 100 bytes, that must be found, so half of it is allowed. A heap
// at rest differs by some hundred KiB from look to look, so 1 MiB is allowed at least;
// that is less than 100 bytes for each of the 15,000 sessions that half of a full run has
// at the very least. What a session leaves at one of three replicas alone, such as the
// one that opened it, is found only if it is three times as much.
func moreHeap(sessions int64) int64 { return max(moreBytes, 50*sessions) }
