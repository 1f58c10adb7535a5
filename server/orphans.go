package server

import (
	"context"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// A subscription ends with the replica that has it, and its client hears nothing of that: its stream is at another one.
// So the replica that tells the client knows which subscriptions others have, from them and from the log, and opens those
// of a replica that is gone itself.

// resubscribeTime bounds how long it takes to open the subscriptions of a session anew.
const resubscribeTime = time.Minute

// away are the subscriptions that a session has at other replicas, as far as they fit into the memory of its user. The
// mutex of the session guards it.
type away struct {
	homes   map[string]awayWatch // by URI; nil: none
	missing time.Time            // since when one of the replicas is known to be gone; zero: all are there
}

// awayWatch is a subscription at another replica.
type awayWatch struct {
	home replica.ID
	kept bool // the log had it
}

// orphan is a subscription at a replica that is gone.
type orphan struct {
	uri  string
	kept bool // the log had it
}

// awayCost is what the user holds for one of them, in bytes.
func awayCost(uri string) int64 { return int64(updateCost + len(uri)) }

// addAwayLocked notes a subscription at another replica.
func (l *live) addAwayLocked(uri string, w awayWatch) {
	a := &l.news.away
	if _, known := a.homes[uri]; !known {
		if l.over || len(a.homes) >= maxSubscriptions || l.roster.memory.Take(share.User(l.user), awayCost(uri)) != nil {
			return
		}
	}
	if a.homes == nil {
		a.homes = make(map[string]awayWatch)
	}
	a.homes[uri] = w
}

// dropAwayLocked forgets a subscription at another replica, if it is known.
func (l *live) dropAwayLocked(uri string) {
	if !l.shared {
		return
	}
	if _, known := l.news.away.homes[uri]; known {
		l.roster.memory.Give(share.User(l.user), awayCost(uri))
		delete(l.news.away.homes, uri)
	}
}

// bringKnown tells a replica that tells the client of a session from now on what is known here: what the client was told
// of lists, and which subscriptions are here.
func (s *Server) bringKnown(l *live, teller replica.ID) {
	parts := [][]byte{l.key[:]}
	l.mu.Lock()
	useful := false
	for _, n := range l.news.lists {
		parts = append(parts, []byte(n.content))
		useful = useful || n.content != ""
	}
	for uri, w := range l.news.watched {
		if w.isOpen() {
			parts, useful = append(parts, []byte(uri)), true
		}
	}
	l.mu.Unlock()
	if !useful {
		return
	}
	s.errands.begin(context.Background(), func(ctx context.Context) { // the limits of streams bound how many claim at once
		ctx, stop := context.WithTimeout(ctx, takeTime)
		defer stop()
		err := s.config.Others.Send(ctx, teller, replica.Word{Kind: kindKnown, Tenant: l.user.TenantID, Data: packed(parts...)})
		if err != nil {
			s.log.DebugContext(ctx, "another replica was not told what is known of a session", "error", err)
		}
	})
}

// heardOfKnown notes what another replica knows of a session. What the client was told of lists counts only if nobody has
// told it anything since the handshake: otherwise the log has it, and that was read before.
func (s *Server) heardOfKnown(_ context.Context, from replica.ID, w replica.Word) {
	parts, ok := unpacked(w.Data, 0)
	if !ok || len(parts) == 0 {
		return
	}
	l := s.named(parts[0], w.Tenant)
	if l == nil || len(parts) < 1+len(l.news.lists) {
		return
	}
	l.mu.Lock()
	for i := range l.news.lists {
		if n := &l.news.lists[i]; n.told == "" && n.content == "" && len(parts[1+i]) > 0 {
			n.content, l.news.kept = string(parts[1+i]), false
		}
	}
	for _, uri := range parts[1+len(l.news.lists):] {
		l.addAwayLocked(string(uri), awayWatch{home: from})
	}
	l.mu.Unlock()
	l.stir()
}

// takeOrphans takes out the subscriptions at replicas that are gone, when some have been for longer than patience.
func (l *live) takeOrphans(others replica.Others, patience time.Duration) (orphans []orphan) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := &l.news.away
	for uri, w := range a.homes {
		if !others.IsThere(w.home) {
			orphans = append(orphans, orphan{uri, w.kept})
		}
	}
	switch {
	case len(orphans) == 0:
		a.missing = time.Time{}
		return nil
	case a.missing.IsZero():
		a.missing = time.Now()
		return nil
	case time.Since(a.missing) < patience:
		return nil
	}
	for _, o := range orphans {
		l.dropAwayLocked(o.uri)
	}
	a.missing = time.Time{}
	return orphans
}

// adoptOrphans opens the subscriptions of replicas that are gone. It is asked at each heartbeat at least.
func (s *Server) adoptOrphans(l *live, c gateway.Caller) {
	if !l.shared || s.isDraining() {
		return
	}
	if orphans := l.takeOrphans(s.config.Others, s.config.Heartbeat); len(orphans) > 0 {
		s.errands.begin(context.Background(), func(ctx context.Context) { s.resubscribe(ctx, l, c, orphans) }) // for one session once in a heartbeat
	}
}

// resubscribe opens subscriptions of a session, and tells its client that the resources may have changed meanwhile. One
// that cannot be opened stays in the log, for when the client opens its next stream.
func (s *Server) resubscribe(ctx context.Context, l *live, c gateway.Caller, orphans []orphan) {
	ctx, stop := context.WithTimeout(ctx, resubscribeTime)
	defer stop()
	for _, uri := range s.confirm(ctx, l, orphans) {
		params := mcp.NewObject(mcp.Member{Name: "uri", Value: mcp.String(uri)})
		if told := s.subscribe(ctx, c, s.ids.next(), l, params); told != nil {
			s.log.WarnContext(ctx, "a subscription of a replica that is gone was not opened again", "error", told)
			continue
		}
		s.updated(l, uri, uri)
	}
}
