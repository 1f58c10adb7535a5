package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/netfault"
)

// linkFaults returns what may happen between replicas, and to what they share, while each
// of them and Redis is well.
func linkFaults() []*fault {
	return slices.Concat([]*fault{
		hindered("late answers", "what replicas answer to each other comes 2 s late; a request of nearly 4 MiB is sent",
			func(p *netfault.Proxy) { p.Delay(2 * time.Second) }),
		hindered("a thin line", "1 KiB a second; a request of nearly 4 MiB is sent",
			func(p *netfault.Proxy) { p.Rate(1 << 10) }),
		{
			name: "another process has the address of a replica", unrecorded: true, ground: linked,
			done:  "SIGKILL, and a web server listens where the others reached the replica; then it is started again",
			holds: "the others serve meanwhile, and say nothing to the web server",
			make: func(ctx context.Context, s *scene) (effect, error) {
				s.victim.Kill()
				usurper, err := usurp(ctx, s.victim.LinkAddress)
				if err != nil {
					return effect{}, err
				}
				return effect{seen: s.othersServe(), heal: func(ctx context.Context) error {
					if n := usurper.end(); n > 0 {
						return fmt.Errorf("the web server got %d requests", n)
					}
					return s.victim.Start(ctx)
				}}, nil
			},
		},
		{
			name: "clients of forwarded requests leave",
			done: "60 calls in sessions of one replica, sent to the others, whose clients leave after 100 ms", ground: plain,
			holds: "all replicas serve everybody else, and the sessions go on",
			make: func(ctx context.Context, s *scene) (effect, error) {
				session, err := s.open(ctx, at(s.victim))
				if err != nil {
					return effect{}, err
				}
				var leaving sync.WaitGroup
				for i := range 60 {
					leaving.Go(func() {
						brief, leave := context.WithTimeout(ctx, 100*time.Millisecond)
						defer leave()
						_, _ = s.runs(brief, at(s.others[i%2]), session, s.server+"__slow", `,"ms":2000`) // it has left
					})
				}
				leaving.Wait()
				return effect{seen: s.goOn(), after: s.knows(session)}, nil
			},
		},
	}, handOvers(), disagreements())
}

// hindered makes a trouble of the links of all replicas, and sends a large request over
// one of them.
func hindered(name, done string, trouble func(p *netfault.Proxy)) *fault {
	return &fault{
		name: "replica to replica: " + name, done: done, ground: linked,
		holds: "all are ready, and serve 2026-07-28 meanwhile; the large request is answered or refused in the end",
		make: func(ctx context.Context, s *scene) (effect, error) {
			session, err := s.open(ctx, at(s.victim))
			if err != nil {
				return effect{}, err
			}
			for _, r := range s.Replicas[:replicas] {
				trouble(r.Link)
			}
			answered := make(chan error, 1)
			go func() {
				large := fmt.Sprintf(`,"more":%q`, strings.Repeat("x", 4<<20-1<<10))
				_, err := s.runs(ctx, at(s.others[0]), session, s.server+"__touch", large)
				answered <- err // nil, also for a refusal
			}()
			world.Pause(ctx, 20*time.Second)
			return effect{seen: s.goOn(), heal: func(context.Context) error {
				for _, r := range s.Replicas[:replicas] {
					r.Link.Heal()
				}
				return nil
			}, after: func(ctx context.Context) error {
				select {
				case err := <-answered:
					answered <- err
					return is("the large request is answered or refused", err == nil, nil, err)
				case <-ctx.Done():
					return ctx.Err()
				}
			}}, nil
		},
	}
}

// usurper is a web server at an address that others believe to be a replica's. It speaks
// TLS, as a replica does, so whoever takes its certificate is heard.
type usurper struct {
	server   *httptest.Server
	requests atomic.Int64
}

func usurp(ctx context.Context, address string) (*usurper, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	u := &usurper{}
	u.server = httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		u.requests.Add(1)
	}))
	_ = u.server.Listener.Close() // the other one takes its place
	u.server.Listener = listener
	u.server.StartTLS()
	return u, nil
}

// end ends it, and returns how many requests it got.
func (u *usurper) end() int64 {
	u.server.CloseClientConnections()
	u.server.Close()
	return u.requests.Load()
}

// handOvers are sessions that go from one replica to another.
func handOvers() []*fault {
	return []*fault{
		{
			name: "two replicas take sessions over at once", unrecorded: true, ground: direct,
			done:  "SIGKILL of the primary of 5,000 sessions, as for want of memory, and a call in each at both others at the same time; then it is started again",
			holds: "each call is answered, at the second try if the first may have reached who was killed, and each session goes on at the replica that was killed",
			make: func(ctx context.Context, s *scene) (effect, error) {
				open := make([]string, 5000)
				if err := amongMany(len(open), func(i int) (err error) {
					open[i], err = s.open(ctx, at(s.victim))
					return err
				}); err != nil {
					return effect{}, err
				}
				s.victim.Kill()
				answered := func(session string, r *world.Replica) error {
					said, err := s.within(ctx, at(r), session, s.server)
					if said.code == "DB-REPLICA-LOST" { // it was on its way to who was just killed
						said, err = s.within(ctx, at(r), session, s.server)
					}
					return is("a call in a session is answered at "+r.Name, said.ok(), said, err)
				}
				err := amongMany(2*len(open), func(i int) error { return answered(open[i/2], s.others[i%2]) })
				return effect{seen: s.othersServe(), heal: s.victim.Start, after: func(context.Context) error {
					return amongMany(len(open), func(i int) error { return answered(open[i], s.victim) })
				}}, err
			},
		},
		{
			name: "a session is handed over twice during a call", ground: direct,
			done:  "a call of 9 s; SIGTERM to the primary, a call at another replica, SIGTERM to that, a call at the third; then they are started again",
			holds: "exit code 0 of both, and all calls are answered",
			make: func(ctx context.Context, s *scene) (effect, error) {
				session, err := s.open(ctx, at(s.victim))
				if err != nil {
					return effect{}, err
				}
				wrong := make([]error, 3)
				var under sync.WaitGroup
				under.Go(func() {
					said, err := s.runs(ctx, at(s.victim), session, s.server+"__slow", `,"ms":9000`)
					wrong[0] = is("the long call is answered", said.ok(), said, err)
				})
				for i, r := range []*world.Replica{s.victim, s.others[0]} {
					world.Pause(ctx, time.Second) // until the call runs, or the last one took the session over
					under.Go(func() { wrong[1+i] = s.stopClean(ctx, r) })
					next := s.others[i]
					world.Pause(ctx, 2*time.Second)
					if err := until(ctx, func(ctx context.Context) error {
						said, err := s.within(ctx, at(next), session, s.server)
						return is("the session goes on at "+next.Name, said.ok(), said, err)
					}); err != nil {
						return effect{}, err
					}
				}
				under.Wait()
				return effect{seen: s.servesAll(s.others[1]), heal: func(ctx context.Context) error {
					return each([]*world.Replica{s.victim, s.others[0]}, func(r *world.Replica) error { return r.Start(ctx) })
				}}, errors.Join(wrong...)
			},
		},
	}
}

// amongMany does something so many times, as many at once as clients may.
func amongMany(times int, do func(i int) error) error {
	var all errgroup.Group
	all.SetLimit(64)
	for i := range times {
		all.Go(func() error { return do(i) })
	}
	return all.Wait()
}

// disagreements are replicas that do not have the same files.
func disagreements() []*fault {
	return []*fault{
		{
			name: "a replica has other keys than its peers",
			done: "its `sessions.keys_file` has another key, and then the old one again", ground: plain,
			holds: "all serve 2026-07-28 meanwhile, and sessions that the others opened go on there",
			make: func(ctx context.Context, s *scene) (effect, error) {
				session, err := s.open(ctx, at(s.others[0]))
				if err != nil {
					return effect{}, err
				}
				old, err := os.ReadFile(keysOf(s.victim))
				if err == nil {
					err = s.rekey(ctx, s.victim, newKey())
				}
				return effect{seen: s.goOn(), heal: func(ctx context.Context) error {
					return s.rekey(ctx, s.victim, string(old))
				}, after: s.knows(session)}, err
			},
		},
		{
			name: "a replica has another config than its peers",
			done: "its rules allow the tools of one server alone, and then all again", ground: plain,
			holds: "it serves the other server, and the others serve both",
			make: func(ctx context.Context, s *scene) (effect, error) {
				session, err := s.open(ctx, at(s.others[0]))
				if err != nil {
					return effect{}, err
				}
				before := ""
				err = s.victim.Rewrite(ctx, func(text string) string {
					before = text
					return strings.ReplaceAll(text, `allow: ["*"`, `allow: ["`+s.spared+`__*"`)
				})
				return effect{
					seen: all(s.refuses(s.victim, s.server, "DB-TOOL"), s.serves(s.victim, s.spared), s.othersServe()),
					heal: func(ctx context.Context) error {
						return s.victim.Rewrite(ctx, func(string) string { return before })
					},
					after: s.knows(session),
				}, err
			},
		},
	}
}
