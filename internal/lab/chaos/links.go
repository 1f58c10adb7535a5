package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/ledger"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/netfault"
)

// linkFaults returns what may happen between replicas, and to what they share, while each
// of them and Redis is well.
func linkFaults() []*fault {
	session := of(victim, opens)
	return []*fault{
		hindered("late answers", "what replicas answer to each other comes 2 s late; a request of nearly "+
			"4 MiB is sent",
			func(p *netfault.Proxy, _ *scene) { p.Delay(2 * time.Second) }),
		hindered("a thin line", "1 KiB a second; a request of nearly 4 MiB is sent",
			func(p *netfault.Proxy, _ *scene) { p.Rate(1 << 10) }),
		hindered("half-closed connections",
			"the direction of answers ends, the other stays open; a request of nearly 4 MiB is sent",
			func(p *netfault.Proxy, _ *scene) { p.HalfClose(netfault.Answers) }),
		deaf(hindered("requests half-closed",
			"the direction of requests ends, the other stays open; a request of nearly 4 MiB is sent",
			func(p *netfault.Proxy, _ *scene) { p.HalfClose(netfault.Requests) })),
		{
			name: "another process has the address of a replica", unrecorded: true, ground: linked,
			done: "SIGKILL, and a web server listens where the others reached the replica; then it is " +
				"started again",
			holds: "the others serve meanwhile, and say nothing to the web server",
			make:  all(of(victim, kill), usurped), seen: othersServe, heal: of(victim, start),
		},
		{
			name: "clients of forwarded requests leave",
			done: "60 calls in sessions of one replica, sent to the others, whose clients leave after 100 ms", ground: plain,
			holds: "all replicas serve everybody else, and the sessions go on",
			make:  all(session, leftAlone), seen: goOn, after: known,
		},
		{
			name: "two replicas take sessions over at once", unrecorded: true, ground: direct,
			done: "SIGKILL of the primary of 5,000 sessions, as for want of memory, and a call in each " +
				"at both others at the same time; then it is started again",
			holds: "each call is answered, at the second try if the first may have reached who was killed," +
				" and each session goes on at the replica that was killed",
			make: all(opensMany(5000), of(victim, kill), takenOver(others)), seen: othersServe,
			heal: of(victim, start), after: takenOver(victim),
		},
		{
			name: "a session is handed over twice during a call", ground: direct,
			done: "a call of 9 s; SIGTERM to the primary, a call at another replica, SIGTERM to that, a " +
				"call at the third; then they are started again",
			holds: "exit code 0 of both, and all calls are answered",
			make:  all(session, handedOver), seen: of(last, servesAll), heal: atOnce(two, start),
		},
		{
			name: "a replica has other keys than its peers",
			done: "its `sessions.keys_file` has another key, and then the old one again", ground: plain,
			holds: "all serve 2026-07-28 meanwhile, and sessions that the others opened go on there",
			make:  all(of(otherOne, opens), otherKeys), seen: goOn, after: known,
		},
		{
			name: "a replica has another config than its peers",
			done: "its rules allow the tools of one server alone, and then all again", ground: plain,
			holds: "it serves the other server, and the others serve both",
			make:  all(of(otherOne, opens), otherRules),
			seen:  all(of(victim, refuses("DB-TOOL"), serves(spared)), othersServe), after: known,
		},
	}
}

// otherOne is the first of those that the fault does not meet.
func otherOne(s *scene) []*world.Replica { return s.others[:1] }

// hindered makes a trouble of the links of all replicas, and sends a large request over
// one of them.
func hindered(name, done string, trouble func(p *netfault.Proxy, s *scene)) *fault {
	return &fault{
		name: "replica to replica: " + name, done: done, ground: linked,
		holds: "all are ready, and serve 2026-07-28 meanwhile; the large request is answered or refused " +
			"in the end",
		make: all(of(victim, opens), of(fleet, link(toPeers).suffers(trouble)), sendsMuch, pause(20*time.Second)),
		seen: goOn, heal: of(fleet, link(toPeers).heals),
		after: func(ctx context.Context, s *scene) {
			select {
			case err := <-s.sent:
				is("the large request is answered or refused", err == nil, err)
			case <-ctx.Done():
				must.OK(ctx.Err())
			}
		},
	}
}

// deaf expects that calls lose their progress: whose direction ends counts as having
// left, so a call of its session goes on without a stream, and its answer still comes.
func deaf(f *fault) *fault {
	f.holds += "; calls that are forwarded meanwhile may be answered without their progress"
	f.spares = func(v *ledger.Verdict) int { return v.Unstreamed }
	return f
}

// sendsMuch sends a large request.
func sendsMuch(ctx context.Context, s *scene) {
	s.sent = make(chan error, 1)
	large := fmt.Sprintf(`,"more":%q`, strings.Repeat("x", 4<<20-1<<10))
	go func() { // fault.after waits for it
		s.sent <- must.Try(func() { s.runs(ctx, s.others[0], s.session, s.server+"__touch", large) })
	}()
}

// usurp starts a web server at an address that others believe to be a replica's, and
// counts what it is asked. It speaks TLS, as a replica does, so whoever takes its
// certificate is heard.
func usurp(ctx context.Context, address string) (server *httptest.Server, requests *atomic.Int64) {
	requests = &atomic.Int64{}
	server = httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		requests.Add(1)
	}))
	_ = server.Listener.Close() // the other one takes its place
	server.Listener = must.Have((&net.ListenConfig{}).Listen(ctx, "tcp", address))
	server.StartTLS()
	return server, requests
}

// usurped has a web server listen in the place of the victim until the fault heals.
func usurped(ctx context.Context, s *scene) {
	server, requests := usurp(ctx, s.victim.LinkAddress)
	s.heals(func(context.Context, *scene) {
		server.CloseClientConnections()
		server.Close()
		is("the web server gets no request", requests.Load() == 0, requests.Load())
	})
}

// leftAlone makes calls in the session at the others, and leaves before they are
// answered.
func leftAlone(ctx context.Context, s *scene) {
	amongMany(60, func(i int) {
		brief, leave := context.WithTimeout(ctx, 100*time.Millisecond)
		defer leave()
		_ = must.Try(func() { // it has left
			s.runs(brief, s.others[i%2], s.session, s.server+"__slow", `,"ms":2000`)
		})
	})
}

// takenOver makes a call in each of the sessions at replicas, at all of them at once. One
// that was on its way to who was just killed is made once more.
func takenOver(by some) step {
	return func(ctx context.Context, s *scene) {
		replicas := by(s)
		amongMany(len(replicas)*len(s.sessions), func(i int) {
			r, session := replicas[i%len(replicas)], s.sessions[i/len(replicas)]
			said := s.within(ctx, r, session, s.server)
			if said.code == "DB-REPLICA-LOST" {
				s.goesOn(ctx, r, session, s.server)
				return
			}
			is("a call in a session is answered at "+r.Name, said.ok(), said)
		})
	}
}

// handedOver makes a long call in the session, and meanwhile has its primary end twice.
func handedOver(ctx context.Context, s *scene) {
	var under errgroup.Group
	under.Go(must.Trying(func() {
		said := s.runs(ctx, s.victim, s.session, s.server+"__slow", `,"ms":9000`)
		is("the long call is answered", said.ok(), said)
	}))
	defer func() { _ = under.Wait() }() // what failed before is said
	for i, r := range two(s) {
		world.Pause(ctx, time.Second) // until the call runs, or the last one took the session over
		under.Go(must.Trying(func() { s.stopClean(ctx, r) }))
		world.Pause(ctx, 2*time.Second)
		until(ctx, func(ctx context.Context) {
			s.goesOn(ctx, s.others[i], s.session, s.server)
		})
	}
	must.OK(under.Wait())
}

// otherKeys gives the victim another key until the fault heals.
func otherKeys(ctx context.Context, s *scene) {
	old := keysOf(s.victim)
	s.heals(func(ctx context.Context, s *scene) { rekey(ctx, victim(s), old) })
	rekey(ctx, victim(s), newKey())
}

// otherRules allows the tools of the spared server alone at the victim until the fault
// heals.
func otherRules(ctx context.Context, s *scene) {
	s.rewrite(ctx, s.victim, func(text string) string {
		return strings.ReplaceAll(text, `allow: ["*"`, `allow: ["`+s.spared+`__*"`)
	}, s.heals)
}
