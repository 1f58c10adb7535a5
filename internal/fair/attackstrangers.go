package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
)

// refusedLogins tries tokens with wrong signatures, each another one.
func refusedLogins() attack {
	return attack{
		name: "refused logins", does: "64 connections try tokens with a wrong signature, each another one",
		raiders: 64,
		begin: func(r *raider) func(context.Context) error {
			q := r.call("echo", `{"message":"hello"}`)
			signed := q.token[:strings.LastIndex(q.token, ".")+1]
			tried := 0
			return func(ctx context.Context) error {
				tried++
				q.token = signed + fmt.Sprintf("%08d%08d", r.number, tried) + strings.Repeat("A", 27)
				_, err := r.exchange(ctx, q.bytes())
				return err
			}
		},
		bites: func(seen tally) bool { return seen.Refused > 0 && seen.Answered == 0 },
	}
}

const connectionsEach = 64 // that one raider holds

// strangers opens connections without a token, and keeps them after the refusal.
func strangers() attack {
	return attack{
		name:    "connections without a token",
		does:    "128 raiders open connections, get one 401 on each, hold up to 64 (8,192 in all) and replace the oldest",
		raiders: 128,
		begin: func(r *raider) func(context.Context) error {
			var open []*wire
			ask := request{addr: r.mission.Addr, method: http.MethodGet, revision: modern}.bytes()
			return func(ctx context.Context) error {
				w, err := r.dial(ctx)
				if err != nil {
					return err
				}
				r.attempts.Add(1)
				answer, err := w.exchange(ask)
				if err != nil {
					w.close()
					return err
				}
				r.count(answer)
				r.hold()
				if open = append(open, w); len(open) > connectionsEach {
					open[0].close()
					open = open[1:]
					r.release()
				}
				return nil
			}
		},
		bites: func(seen tally) bool { return seen.Held >= 128 && seen.Answered == 0 },
	}
}
