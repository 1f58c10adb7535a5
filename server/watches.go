package server

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
)

// tellOfWatch tells other replicas that a session has subscribed to a resource here, so that their subscriptions to it
// end and each change is told once; or, if since is zero, that the session has unsubscribed. The error says that one of
// them may not have heard it.
func (s *Server) tellOfWatch(ctx context.Context, l *live, uri string, since uint64) error {
	if !l.shared {
		return nil
	}
	word := packed(l.key[:], []byte(uri), binary.BigEndian.AppendUint64(nil, since))
	ctx = context.WithoutCancel(ctx)
	if since != 0 { // who subscribes need not know who has heard
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, takeTime)
		defer stop()
	}
	return s.config.Others.Tell(ctx, replica.Word{Kind: kindWatch, Tenant: l.user.TenantID, Data: word})
}

// heardOfWatch ends the subscription of a session to a resource, because the session has unsubscribed at another replica,
// or has subscribed there later than here.
func (s *Server) heardOfWatch(_ context.Context, from replica.ID, w replica.Word) {
	parts, ok := unpacked(w.Data, 3)
	if !ok || len(parts[2]) != 8 {
		return
	}
	l := s.named(parts[0], w.Tenant)
	if l == nil {
		return
	}
	uri, since := string(parts[1]), binary.BigEndian.Uint64(parts[2])
	if since == 0 {
		l.dropWatch(uri)
		return
	}
	if w := l.loseWatch(uri, claim{since, from}, s.config.Others.Self()); w != nil {
		w.end()
		l.rested()
	}
}

// loseWatch takes out the subscription to a resource, if it is older than that of another replica. It returns nil if
// there is none.
func (l *live) loseWatch(uri string, other claim, self replica.ID) *watch {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.addAwayLocked(uri, awayWatch{home: other.teller})
	w := l.news.watched[uri]
	if w == nil || !other.beats(claim{w.since, self}) {
		return nil
	}
	delete(l.news.watched, uri)
	return w
}

// dropWatch ends the subscription to a resource, and forgets its changes.
func (l *live) dropWatch(uri string) {
	l.mu.Lock()
	w := l.news.watched[uri]
	delete(l.news.watched, uri)
	l.giveUpAwayLocked(uri)
	l.news.updates.drop(func(changed, _ string) bool { return changed == uri })
	l.mu.Unlock()
	if w != nil {
		w.end()
		l.rested()
	}
}

// unsubscribe ends a subscription of the session on every replica, if there is one.
func (s *Server) unsubscribe(ctx context.Context, l *live, params mcp.Object) *mcp.Error {
	uri, refused := uriOf(params.Value("uri"))
	if refused != nil {
		return refused.told
	}
	l.dropWatch(uri)
	if errors.Join(s.sessions.keepWatch(ctx, l, uri), s.tellOfWatch(ctx, l, uri, 0)) != nil {
		return errReplicas.told // the client may try again
	}
	return nil
}

// stampNow is the time as stamps of claims have it.
func stampNow(others replica.Others) uint64 { return uint64(others.Now().UnixNano()) }
