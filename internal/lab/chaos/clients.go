package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/freeport"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/chaos/crowd"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/ledger"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/netfault"
)

// clientFaults returns what clients and those between them and the replicas may do. The
// bad clients come beside the crowd.
func clientFaults() []*fault {
	const serve = "all replicas serve everybody else"
	lists := func(s *scene) string { return s.wire(mcp.MethodToolsList, "", "") }
	return []*fault{
		{
			name: "clients read slowly",
			done: "40 connections ask for 500 lists each without waiting, and read one byte a second", ground: plain,
			holds: serve, seen: goOn,
			make: besieged(40, 1, func(s *scene) string { return strings.Repeat(lists(s), 500) }),
		},
		{
			name: "clients stop in the middle of a request",
			done: "40 connections send half a header, 40 half a body, and no more", ground: plain,
			holds: serve, seen: goOn,
			make: all(besieged(40, 0, func(s *scene) string { return lists(s)[:len(lists(s))/3] }),
				besieged(40, 0, func(s *scene) string { return lists(s)[:len(lists(s))-20] })),
		},
		{
			name: "clients vanish without a word",
			done: "40 clients with open streams of events, from and to whom nothing comes any more", ground: plain,
			holds: serve, make: vanishing, seen: goOn,
		},
		{
			name: "a request comes twice at once",
			done: "100 calls under an Idempotency-Key, each sent to two replicas at the same time", ground: plain,
			holds: "both answers are of the same execution", make: times(100, sentTwice),
		},
		{
			// it sends a POST again when its replica goes away, which ours do not
			name: "the load balancer sends calls again",
			done: "nginx with `non_idempotent`, HAProxy with `retry-on empty-response`; a replica is " +
				"killed",
			ground: direct, unrecorded: true,
			holds: "calls under an Idempotency-Key are executed once; others may be executed twice, and " +
				"answered twice over HTTP+SSE, or be refused as a copy (`DB-REQUEST`) while the first " +
				"sending runs, which is why no load balancer may do that",
			before: careless, make: times(3, of(victim, kill, start)), seen: goOn,
			// A copy is refused with DB-REQUEST while its id is in flight, and runs when
			// the first was answered. Over HTTP+SSE it tells the client on the same
			// stream as the first. Any other refusal of what was executed counts.
			spares: func(v *ledger.Verdict) int {
				return v.Twice - v.TwiceKeyed + v.EventsOfCopies + min(v.Denied, v.Ends["DB-REQUEST"])
			},
		},
	}
}

// besieged opens connections to the victim that all send a text and then read so many
// bytes a second, 0: none, until the fault heals.
func besieged(connections, rate int, text func(s *scene) string) step {
	return func(ctx context.Context, s *scene) {
		s.besiege(ctx, s.victim.Address, connections, rate, text(s))
	}
}

func (s *scene) besiege(ctx context.Context, address string, connections, rate int, text string) {
	ctx, stop := context.WithCancel(ctx)
	var reading sync.WaitGroup
	s.heals(func(context.Context, *scene) {
		stop()
		reading.Wait()
	})
	for range connections {
		c := must.Have((&net.Dialer{Timeout: patience}).DialContext(ctx, "tcp", address))
		if narrow, ok := c.(*net.TCPConn); ok {
			_ = narrow.SetReadBuffer(4096) // a larger one hides for longer that nobody reads
		}
		context.AfterFunc(ctx, func() { _ = c.Close() })
		reading.Go(func() {
			_, _ = io.WriteString(c, text) // it may be cut off, which is the replica's right
		})
		reading.Go(func() {
			for buffer := make([]byte, max(rate, 1)); rate > 0 &&
				ctx.Err() == nil; world.Pause(ctx, time.Second) {
				if _, err := c.Read(buffer); err != nil {
					return
				}
			}
		})
	}
}

// wire is a request as it goes over the wire.
func (s *scene) wire(method, tool, params string) string {
	return string(modern(strings.TrimPrefix(s.URL, "http://"), s.token(crowd.TenantB, "slow"), method, tool,
		params).Bytes())
}

// callRequest is a call of the plain tool of the server that is spared.
func (s *scene) callRequest() string {
	return string(s.toolCall(s.victim, s.token(crowd.TenantB, "slow"), s.spared+"__touch", probing,
		crowd.TenantB).Bytes())
}

// vanishing has clients with open streams vanish.
func vanishing(ctx context.Context, s *scene) {
	proxy := must.Have(netfault.Start(s.victim.Address))
	s.later(does(proxy.Close))
	const many = 40
	s.besiege(ctx, proxy.Address, many, 1<<10,
		s.wire(mcp.MethodListen, "", `"notifications":{"toolsListChanged":true}`))
	soon(of(victim, measures(many, math.Inf(1), "drawbridge_streams_open")))(ctx, s)
	proxy.BlackHole()
}

// sentTwice sends a call under one key to two replicas at once.
func sentTwice(ctx context.Context, s *scene) {
	key := fmt.Sprintf("twice-%d", s.draw.Uint64())
	var said [2]reply
	amongMany(2, func(n int) {
		said[n] = s.touch(ctx, s.others[n], s.server, [2]string{"Idempotency-Key", key})
		is("a call under a key is answered", said[n].ok(), said[n])
	})
	is("both are of one execution", serialOf(said[0]) == serialOf(said[1]), said)
}

// serialOf returns what an answer says of its execution.
func serialOf(r reply) string {
	_, rest, _ := strings.Cut(r.body, "serial ")
	serial, _, _ := strings.Cut(rest, " ")
	return serial
}

// careless puts a load balancer before the replicas that sends requests again.
func careless(ctx context.Context, s *scene) {
	address := must.Have(freeport.Address())
	s.later(does(s.Careless(ctx, address).Kill))
	s.url = "http://" + address
}
