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

// openSession opens a session of a client of a revision with these capabilities, on the
// raider's connection, and returns its id, "" if it was refused.
func (r *Raider) openSession(revision, capabilities string) string {
	answer := r.exchange(r.initialize(revision, capabilities).Bytes())
	if refused(answer) {
		return ""
	}
	return answer.Session
}

// sessions opens sessions and never ends them.
var sessions = Attack{
	Name: "sessions", Does: "32 connections open sessions as fast as they can and never end them",
	Raiders: 32,
	Begin: func(_ context.Context, r *Raider) func() {
		return r.repeat(r.initialize(mcp.LatestLegacy, "{}"))
	},
	Signs: Signs{Answered: 1},
}

const streamsEach = 32 // that one raider holds

// streams opens event streams of sessions, holds many and replaces the oldest by new
// ones.
var streams = Attack{
	Name: "streams", Does: "16 raiders open event streams of new sessions, each holds up to 32 and " +
		"replaces the oldest",
	Raiders: 16,
	Begin: func(_ context.Context, r *Raider) func() {
		session := "" // that has no stream yet
		hold := r.hoard(streamsEach, func(w *client.Conn) bool {
			if refused(r.counted(w.Begin(client.Request{
				Addr: r.mission.Addr, Method: http.MethodGet, Token: r.token(), Revision: mcp.LatestLegacy,
				Session: session, Accept: "text/event-stream",
			}.Bytes()))) {
				return false
			}
			session = ""
			return true
		})
		return func() {
			if session == "" {
				session = r.openSession(mcp.LatestLegacy, "{}")
				return
			}
			hold()
		}
	},
	Signs: Signs{Held: 16},
}
