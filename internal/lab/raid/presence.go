package raid

import (
	"context"
	"net/http"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/client"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// initialize returns the request that opens a session of a client with these
// capabilities, in JSON.
func (r *Raider) initialize(revision, capabilities string) client.Request {
	return client.Request{
		Addr: r.mission.Addr, Token: r.token(), Revision: revision,
		Body: client.Initialize(revision, capabilities),
	}
}

// openSession opens a session on the raider's connection and returns its id, "" if it was
// refused.
func (r *Raider) openSession(ctx context.Context) (string, error) {
	return r.openSessionOf(ctx, mcp.LatestLegacy, "{}")
}

// openSessionOf does so for a client of a revision with these capabilities.
func (r *Raider) openSessionOf(ctx context.Context, revision, capabilities string) (string, error) {
	answer, err := r.exchange(ctx, r.initialize(revision, capabilities).Bytes())
	if err != nil || refused(answer) {
		return "", err
	}
	return answer.Session, nil
}

// sessions opens sessions and never ends them.
func sessions() Attack {
	return Attack{
		Name: "sessions", Does: "32 connections open sessions as fast as they can and never end them",
		Raiders: 32,
		Begin: func(r *Raider) func(
			context.Context) error {
			return r.repeat(r.initialize(mcp.LatestLegacy, "{}"))
		},
		Bites: anyAnswer,
	}
}

const streamsEach = 32 // that one raider holds

// streams opens event streams of sessions, holds many and replaces the oldest by new
// ones.
func streams() Attack {
	return Attack{
		Name: "streams", Does: "16 raiders open event streams of new sessions, each holds up to 32 and replaces the oldest",
		Raiders: 16,
		Begin: func(r *Raider) func(context.Context) error {
			var (
				open    []*client.Conn
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
					open[0].Close()
					open = open[1:]
					r.release()
				}
				return nil
			}
		},
		Bites: func(seen Tally) bool { return seen.Held >= 16 },
	}
}

// openStream opens the event stream of a session on a connection of its own. Without an
// error it returns nil if that was refused.
func (r *Raider) openStream(ctx context.Context, session string) (*client.Conn, error) {
	w, err := r.dial(ctx)
	if err != nil {
		return nil, err
	}
	r.attempts.Add(1)
	answer, err := w.Begin(client.Request{
		Addr: r.mission.Addr, Method: http.MethodGet, Token: r.token(), Revision: mcp.LatestLegacy,
		Session: session, Accept: "text/event-stream",
	}.Bytes())
	if err != nil {
		w.Close()
		return nil, err
	}
	r.count(answer)
	if answer.Status != http.StatusOK {
		w.Close()
		return nil, nil //nolint:nilnil // as the comment says
	}
	return w, nil
}
