package main

import (
	"context"
	"net/http"
)

// initialize returns the request that opens a session.
func (r *raider) initialize() request {
	return request{
		addr: r.mission.Addr, token: r.token(), revision: legacy, rpc: "initialize",
		body: message("initialize", `"protocolVersion":"`+legacy+`","capabilities":{},"clientInfo":{"name":"fair","version":"1"}`, legacy, false),
	}
}

// openSession opens a session on the raider's connection and returns its id, "" if it was refused.
func (r *raider) openSession(ctx context.Context) (string, error) {
	answer, err := r.exchange(ctx, r.initialize().bytes())
	if err != nil || answer.status != http.StatusOK {
		return "", err
	}
	return answer.session, nil
}

// sessions opens sessions and never ends them.
func sessions() attack {
	return attack{
		name: "sessions", does: "32 connections open sessions as fast as they can and never end them",
		raiders: 32,
		begin:   func(r *raider) func(context.Context) error { return r.repeat(r.initialize()) },
		bites:   anyAnswer,
	}
}

const streamsEach = 32 // that one raider holds

// streams opens event streams of sessions, holds many and replaces the oldest by new ones.
func streams() attack {
	return attack{
		name: "streams", does: "16 raiders open event streams of new sessions, each holds up to 32 and replaces the oldest",
		raiders: 16,
		begin: func(r *raider) func(context.Context) error {
			var (
				open    []*wire
				session string // that has no stream yet
			)
			return func(ctx context.Context) (err error) {
				if session == "" {
					session, err = r.openSession(ctx)
					return err
				}
				w, err := r.openStream(ctx, session)
				if err != nil || w == nil {
					return err
				}
				session = ""
				r.hold()
				if open = append(open, w); len(open) > streamsEach {
					open[0].close()
					open = open[1:]
					r.release()
				}
				return nil
			}
		},
		bites: func(seen tally) bool { return seen.Held >= 16 },
	}
}

// openStream opens the event stream of a session on a connection of its own. Without an error it returns nil if that
// was refused.
func (r *raider) openStream(ctx context.Context, session string) (*wire, error) {
	w, err := r.dial(ctx)
	if err != nil {
		return nil, err
	}
	r.attempts.Add(1)
	answer, err := w.header(request{
		addr: r.mission.Addr, method: http.MethodGet, token: r.token(), revision: legacy, session: session, accept: "text/event-stream",
	}.bytes())
	if err != nil {
		w.close()
		return nil, err
	}
	r.count(answer)
	if answer.status != http.StatusOK {
		w.close()
		return nil, nil //nolint:nilnil // as the comment says
	}
	return w, nil
}
