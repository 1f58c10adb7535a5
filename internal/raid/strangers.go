package raid

import (
	"context"
	"fmt"
	"net/http"
	"strings"
)

// refusedLogins tries tokens with wrong signatures, each another one.
func refusedLogins() Attack {
	return Attack{
		Name: "refused logins", Stranger: true, Does: "64 connections try tokens with a wrong signature, each another one",
		Raiders: 64,
		Begin: func(r *Raider) func(context.Context) error {
			q := r.call("echo", `{"message":"hello"}`)
			signed := q.Token[:strings.LastIndex(q.Token, ".")+1]
			tried := 0
			return func(ctx context.Context) error {
				tried++
				q.Token = signed + fmt.Sprintf("%08d%08d", r.number, tried) + strings.Repeat("A", 27)
				_, err := r.exchange(ctx, q.Bytes())
				return err
			}
		},
		Bites: func(seen Tally) bool { return seen.Refused > 0 && seen.Answered == 0 },
	}
}

const connectionsEach = 64 // that one raider holds

// strangers opens connections without a token, and keeps them after the refusal.
func strangers() Attack {
	return Attack{
		Name: "connections without a token", Stranger: true,
		Does:    "128 raiders open connections, get one 401 on each, hold up to 64 (8,192 in all) and replace the oldest",
		Raiders: 128,
		Begin: func(r *Raider) func(context.Context) error {
			ask := Request{Addr: r.mission.Addr, Method: http.MethodGet, Revision: Modern}.Bytes()
			return r.hoard(connectionsEach, func(w *Wire) error {
				answer, err := w.Exchange(ask)
				if err == nil {
					r.count(answer)
				}
				return err
			})
		},
		Bites: func(seen Tally) bool { return seen.Held >= 128 && seen.Answered == 0 },
	}
}
