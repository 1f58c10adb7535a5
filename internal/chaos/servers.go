package main

import (
	"context"

	"github.com/drawbridge-mcp/drawbridge/internal/chaos/upstream"
)

// serverFaults returns what a server behind the gateway can do wrong. Which of the two servers does it is drawn.
func serverFaults() (faults []*fault) {
	for _, b := range []struct {
		name, done string
		behaviour  upstream.Behaviour
	}{
		{"hangs", "calls are accepted and never answered", upstream.Hang},
		{"drips", "answers come one byte a second", upstream.Drip},
		{"answers garbage", "random bytes instead of answers", upstream.Garbage},
		{"answers too much", "answers of 256 MiB, and lists with lines without end", upstream.Oversized},
		{"answers under wrong ids", "answers have an id that nobody used", upstream.WrongID},
		{"answers twice", "each answer comes twice", upstream.TwoAnswers},
		{"answers under ids of others", "answers have the id of another call in flight", upstream.OthersID},
		{"floods", "thousands of notifications before each answer", upstream.Flood},
		{"half-closes", "it stops in the middle of an answer and keeps the connection", upstream.HalfClose},
		{"resets", "connections are reset in the middle of answers", upstream.Reset},
		{"answers pages", "status 200 and HTML instead of an answer", upstream.HTML},
		{"has lists without end", "each page of a list names a next one", upstream.Endless},
	} {
		faults = append(faults, &fault{
			name: "a server " + b.name, done: b.done, ground: plain,
			holds: "all replicas are ready and serve the other server meanwhile",
			make: func(_ context.Context, s *scene) (effect, error) {
				s.servers[s.server].Behave(b.behaviour)
				return effect{seen: s.spares(), heal: func(context.Context) error {
					s.servers[s.server].Behave(upstream.Well)
					return nil
				}}, nil
			},
		})
	}
	return append(faults, crashing(), crashLoop())
}

// spares returns what is wrong when a replica is not ready or does not serve the server that is well.
func (s *scene) spares() func(context.Context) error {
	var questions []func(context.Context) error
	for _, r := range s.Replicas[:replicas] {
		questions = append(questions, s.isReady(r), s.serves(r, s.spared))
	}
	return all(questions...)
}

func crashing() *fault {
	return &fault{
		name: "a server crashes", done: "all its connections end, and new ones are refused; it comes back without its sessions", ground: plain,
		holds: "calls of it are refused as not made, the other server is served meanwhile",
		make: func(_ context.Context, s *scene) (effect, error) {
			server := s.servers[s.server]
			server.Crash()
			return effect{
				seen: all(s.spares(), s.refuses(s.victim, s.server, "DB-UPSTREAM-DOWN")),
				heal: func(context.Context) error { return server.Revive() },
			}, nil
		},
	}
}

func crashLoop() *fault {
	return &fault{
		name: "a server crashes again and again", done: "it crashes five times, and comes back each time when a replica has noticed", ground: plain,
		holds: "the other server is served meanwhile",
		make: func(ctx context.Context, s *scene) (effect, error) {
			server := s.servers[s.server]
			for range 5 {
				server.Crash()
				if err := until(ctx, s.refuses(s.victim, s.server, "DB-UPSTREAM-DOWN", "DB-UPSTREAM-LOST")); err != nil {
					return effect{}, err
				}
				if err := server.Revive(); err != nil {
					return effect{}, err
				}
			}
			return effect{seen: s.spares()}, nil
		},
	}
}
