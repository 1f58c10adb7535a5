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
	homes     map[string]awayWatch // by URI; nil: none
	missing   time.Time            // since when one of the replicas is known to be gone; zero: all are there
	reopening map[string]bool      // by URI, those of replicas that are gone that are being opened here; nil: none
}

// awayWatch is a subscription at another replica.
type awayWatch struct {
	home  replica.ID
	kept  bool // the log had it
	tried bool // its replica is gone, and it could not be opened here
}

// orphan is a subscription at a replica that is gone.
type orphan struct {
	uri string
	awayWatch
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

// giveUpAwayLocked forgets a subscription that the client has ended, also if it is about to be opened here.
func (l *live) giveUpAwayLocked(uri string) {
	l.dropAwayLocked(uri)
	if l.shared {
		delete(l.news.away.reopening, uri)
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
			orphans = append(orphans, orphan{uri, w})
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
	if a.reopening == nil {
		a.reopening = make(map[string]bool)
	}
	for _, o := range orphans {
		l.dropAwayLocked(o.uri)
		a.reopening[o.uri] = true
	}
	a.missing = time.Time{}
	return orphans
}

// reopened notes that it was tried to open those orphans. Those that failed are tried again when patience is over, unless
// the client has unsubscribed meanwhile, or has subscribed anew.
func (l *live) reopened(orphans, failed []orphan) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := &l.news.away
	for _, o := range failed {
		_, elsewhere := a.homes[o.uri]
		if !a.reopening[o.uri] || elsewhere || l.news.watched[o.uri] != nil {
			continue
		}
		o.tried = true
		l.addAwayLocked(o.uri, o.awayWatch)
		if a.missing.IsZero() {
			a.missing = time.Now()
		}
	}
	for _, o := range orphans {
		delete(a.reopening, o.uri)
	}
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
// that cannot be opened now, because its server is down for example, is tried again at a later heartbeat while the client
// has a stream here. One that is refused for good stays in the log, for when the client opens its next stream.
func (s *Server) resubscribe(ctx context.Context, l *live, c gateway.Caller, orphans []orphan) {
	ctx, stop := context.WithTimeout(ctx, resubscribeTime)
	defer stop()
	var failed []orphan
	for _, o := range s.confirm(ctx, l, orphans) {
		params := mcp.NewObject(mcp.Member{Name: "uri", Value: mcp.String(o.uri)})
		told := s.subscribe(ctx, c, s.ids.next(), l, params)
		if told == nil {
			s.updated(l, o.uri, o.uri)
			continue
		}
		if !o.tried { // or a server that stays down would fill the log
			s.log.WarnContext(ctx, "a subscription of a replica that is gone was not opened again", "error", told)
		}
		if !isForGood(told) {
			failed = append(failed, o)
		}
	}
	l.reopened(orphans, failed)
}

// isForGood tells whether a subscription is refused whenever it is tried, as far as anybody can tell: the resource is not
// there or does not tell of changes, or the caller may not have it.
func isForGood(told *mcp.Error) bool {
	return told.Code == mcp.CodeInvalidParams || told.Code == mcp.CodeForbidden
}
