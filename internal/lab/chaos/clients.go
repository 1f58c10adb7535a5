package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/freeport"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/chaos/crowd"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/client"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/ledger"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/netfault"
)

// clientFaults returns what clients and those between them and the replicas may do. The
// bad clients come beside the crowd.
func clientFaults() []*fault {
	return []*fault{
		{
			name:   "clients read slowly",
			done:   "40 connections ask for 500 lists each without waiting, and read one byte a second",
			ground: plain,
			holds:  "all replicas serve everybody else",
			make: func(ctx context.Context, s *scene) (effect, error) {
				crawl, err := s.besiege(ctx, s.victim.Address, 40, strings.Repeat(s.listRequest(), 500), 1)
				return effect{seen: s.goOn(), heal: crawl}, err
			},
		},
		{
			name: "clients stop in the middle of a request",
			done: "40 connections send half a header, 40 half a body, and no more", ground: plain,
			holds: "all replicas serve everybody else",
			make: func(ctx context.Context, s *scene) (effect, error) {
				request := s.listRequest()
				header, err := s.besiege(ctx, s.victim.Address, 40, request[:len(request)/3], 0)
				if err != nil {
					return effect{}, err
				}
				body, err := s.besiege(ctx, s.victim.Address, 40, request[:len(request)-20], 0)
				return effect{seen: s.goOn(), heal: all(header, body)}, err
			},
		},
		{
			name:   "clients vanish without a word",
			done:   "40 clients with open streams of events, from and to whom nothing comes any more",
			ground: plain,
			holds:  "all replicas serve everybody else",
			make: func(ctx context.Context, s *scene) (effect, error) {
				proxy, err := netfault.Start(s.victim.Address)
				if err != nil {
					return effect{}, err
				}
				s.later(does(proxy.Close))
				gone, err := s.besiege(ctx, proxy.Address, 40, s.listenRequest(), 1<<10)
				world.Pause(ctx, 10*pace)
				proxy.BlackHole()
				return effect{seen: s.goOn(), heal: gone}, err
			},
		},
		sentTwice(),
		resent(),
	}
}

// besiege opens connections that all send a text and then read so many bytes a second, 0:
// none. It returns what ends them.
func (s *scene) besiege(ctx context.Context, address string, connections int, text string,
	rate int,
) (end func(context.Context) error, err error) {
	ctx, stop := context.WithCancel(ctx)
	var reading sync.WaitGroup
	end = func(context.Context) error {
		stop()
		reading.Wait()
		return nil
	}
	for range connections {
		c, err := (&net.Dialer{Timeout: patience}).DialContext(ctx, "tcp", address)
		if err != nil {
			_ = end(ctx) // it returns nil
			return end, err
		}
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
	return end, nil
}

// listRequest is a request for a list, as it goes over the wire.
func (s *scene) listRequest() string { return s.wire(mcp.MethodToolsList, "", "") }

// listenRequest is a request for a stream of events.
func (s *scene) listenRequest() string {
	return s.wire(mcp.MethodListen, "", `"notifications":{"toolsListChanged":true}`)
}

// callRequest is a call of the plain tool of the server that is spared.
func (s *scene) callRequest() string {
	tool := s.spared + "__touch"
	return s.wire(mcp.MethodToolsCall, tool,
		fmt.Sprintf(`"name":%q,"arguments":{"nonce":"probe","tenant":%q}`, tool, crowd.TenantB))
}

// wire is a request as it goes over the wire.
func (s *scene) wire(method, tool, params string) string {
	return string(client.Request{
		Addr: strings.TrimPrefix(s.URL, "http://"), Token: s.token(crowd.TenantB, "slow"),
		Revision: mcp.LatestModern, RPC: method, Tool: tool,
		Body: client.Message("1", method, params, mcp.LatestModern),
	}.Bytes())
}

// sentTwice sends calls under one key to two replicas at once.
func sentTwice() *fault {
	return &fault{
		name: "a request comes twice at once",
		done: "100 calls under an Idempotency-Key, each sent to two replicas at the same time", ground: plain,
		holds: "both answers are of the same execution",
		make: func(ctx context.Context, s *scene) (effect, error) {
			for i := range 100 {
				key := fmt.Sprintf("twice-%d-%d", s.draw.Uint64(), i)
				var said [2]reply
				var wrong [2]error
				var asking sync.WaitGroup
				for n, r := range s.others {
					asking.Go(
						func() { said[n], wrong[n] = s.touch(ctx, at(r), s.server, "Idempotency-Key", key) })
				}
				asking.Wait()
				for n := range said {
					if err := is("a call under a key is answered", said[n].ok(), said[n],
						wrong[n]); err != nil {
						return effect{}, err
					}
				}
				if serialOf(said[0]) != serialOf(said[1]) {
					return effect{}, fmt.Errorf("a call under one key was executed twice: %v and %v", said[0],
						said[1])
				}
			}
			return effect{}, nil
		},
	}
}

// serialOf returns what an answer says of its execution.
func serialOf(r reply) string {
	_, rest, _ := strings.Cut(r.body, "serial ")
	serial, _, _ := strings.Cut(rest, " ")
	return serial
}

// resent puts a load balancer before the replicas that sends a POST again when its
// replica goes away, which ours do not.
func resent() *fault {
	return &fault{
		name:   "the load balancer sends calls again",
		done:   "nginx with `non_idempotent`, HAProxy with `retry-on empty-response`; a replica is killed",
		ground: direct,
		holds:  "calls under an Idempotency-Key are executed once; others may be executed twice, or be refused as a copy (`DB-REQUEST`) while the first sending runs, which is why no load balancer may do that", unrecorded: true,
		before: func(ctx context.Context, s *scene) error {
			address, err := freeport.Address()
			if err != nil {
				return err
			}
			careless, err := s.Careless(ctx, address)
			if err != nil {
				return err
			}
			s.later(does(careless.Kill))
			s.url = "http://" + address
			return nil
		},
		make: func(ctx context.Context, s *scene) (effect, error) {
			for range 3 {
				s.victim.Kill()
				if err := s.victim.Start(ctx); err != nil {
					return effect{}, err
				}
			}
			return effect{seen: s.goOn()}, nil
		},
		// A copy is refused with DB-REQUEST, since its id is in flight. Any other refusal
		// of what was executed counts.
		spares: func(
			v *ledger.Verdict,
		) int {
			return v.Twice - v.TwiceKeyed + min(v.Denied, v.Ends["DB-REQUEST"])
		},
	}
}
