package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/notices"
)

// A subscription is at the replica that leads the session, and a fact of its record. So
// the next primary makes it again, and says that the resource may have changed meanwhile.

// factWatch is the name of the fact of a subscription, without the digest of its URI:
// names of facts are not sealed.
const factWatch = "watch-"

// maxKeptURIs is how many bytes of URIs are kept of one session. What is beyond is lost
// with its replica.
const maxKeptURIs = 64 << 10

// resubscribeTime bounds how long it takes to make the subscriptions of a session again.
const resubscribeTime = time.Minute

func watchFact(uri string) string {
	digest := sha256.Sum256([]byte(uri))
	return factWatch + hex.EncodeToString(digest[:16])
}

// keepsLocked tells whether the record has room for one more subscription.
func (l *live) keepsLocked(uri string) bool {
	size := len(uri)
	for other, w := range l.news.watched {
		if w.kept {
			size += len(other)
		}
	}
	return l.shared && size <= maxKeptURIs
}

// keepWatch has the record say whether the session is subscribed to a resource.
func (ss *sessions) keepWatch(ctx context.Context, l *live, uri string) {
	l.mu.Lock()
	w := l.news.watched[uri]
	kept := w != nil && w.kept
	l.mu.Unlock()
	switch {
	case w == nil:
		ss.keep(ctx, l, watchFact(uri), "")
	case kept:
		ss.keep(ctx, l, watchFact(uri), uri)
	}
}

// learnWatches notes which subscriptions the session had at the replica that led it
// before.
func (l *live) learnWatches(facts map[string]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, uri := range facts {
		if strings.HasPrefix(name, factWatch) && len(uri) <= exchange.MaxURI && len(l.news.lost) < exchange.MaxSubscriptions &&
			l.news.watched[uri] == nil {
			if l.news.lost == nil {
				l.news.lost = make(map[string]bool)
			}
			l.news.lost[uri] = false
		}
	}
}

// resubscribe makes the subscriptions again that the replica had which led the session
// before. One that cannot be made now, because its server is down for example, is tried
// again at a later heartbeat. One that is refused for good stays in the record, for the
// next primary.
func (s *Server) resubscribe(ctx context.Context, l *live, c gateway.Caller) {
	ctx, stop := context.WithTimeout(ctx, resubscribeTime)
	defer stop()
	defer l.endResubscribing()
	for uri, tried := range l.beginResubscribing() {
		params := mcp.NewObject(mcp.Member{Name: "uri", Value: mcp.String(uri)})
		told := s.subscribe(ctx, c, s.exchanges.IDs.Next(), l, params)
		switch {
		case told == nil:
			s.updated(l, uri, uri)
		case !tried: // or a server that stays down would fill the log
			s.exchanges.Log.WarnContext(ctx, "a subscription of a replica that is gone was not opened again", "error",
				told)
		}
		if told != nil && !isForGood(told) {
			l.lose(uri)
		}
	}
}

// beginResubscribing returns the subscriptions that are to be made again, and whether
// that was tried before. There are none if somebody else is about to.
func (l *live) beginResubscribing() map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.news.resubscribing || l.over || !l.lead.leads {
		return nil
	}
	lost := l.news.lost
	l.news.resubscribing = len(lost) > 0
	l.news.reopening, l.news.lost = lost, nil
	return lost
}

func (l *live) endResubscribing() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.news.resubscribing, l.news.reopening = false, nil
}

// lose notes that a subscription could not be made again, unless the client has ended it
// meanwhile, or made it.
func (l *live) lose(uri string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, wanted := l.news.reopening[uri]; !wanted || l.news.watched[uri] != nil || l.over {
		return
	}
	if l.news.lost == nil {
		l.news.lost = make(map[string]bool)
	}
	l.news.lost[uri] = true
}

// isLost tells whether subscriptions are to be made again.
func (l *live) isLost() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lead.leads && len(l.news.lost) > 0 && !l.news.resubscribing
}

// resubscribeAll tries again to make what could not be made.
func (s *Server) resubscribeAll() {
	s.sessions.roster.each(func(l *live) {
		if !l.isLost() || s.streams.IsDraining() {
			return
		}
		if caller, ok := s.exchanges.Resolve(l.lastPrincipal()); ok {
			// one for each session
			s.errands.begin(context.Background(), func(ctx context.Context) { s.resubscribe(ctx, l, caller) })
		}
	})
}

// isForGood tells whether a subscription is refused whenever it is tried, as far as
// anybody can tell: the resource is not there or does not tell of changes, or the caller
// may not have it.
func isForGood(told *mcp.Error) bool {
	return told.Code == mcp.CodeInvalidParams || told.Code == mcp.CodeForbidden
}

// dropWatch ends the subscription to a resource, and forgets its changes.
func (l *live) dropWatch(uri string) {
	l.mu.Lock()
	w := l.news.watched[uri]
	delete(l.news.watched, uri)
	delete(l.news.lost, uri)
	delete(l.news.reopening, uri)
	l.news.updates.Drop(func(changed, _ string) bool { return changed == uri })
	l.mu.Unlock()
	if w != nil {
		w.end()
		l.rested()
	}
}

// unsubscribe ends a subscription of the session, if there is one.
func (s *Server) unsubscribe(ctx context.Context, l *live, params mcp.Object) *mcp.Error {
	uri, refused := notices.URIOf(params.Value("uri"))
	if refused != nil {
		return refused.Told
	}
	l.dropWatch(uri)
	s.sessions.keepWatch(ctx, l, uri)
	return nil
}

// givenUp is a subscription that the caller of its session may not have any more.
type givenUp struct {
	session *live
	uri     string
}

// forgetWatches has records forget subscriptions, in a goroutine: others whose rights
// ended do not wait for that.
func (s *Server) forgetWatches(ctx context.Context, given []givenUp) {
	if len(given) == 0 || !s.sessions.shared {
		return
	}
	// one for each time that rights are judged, or that somebody subscribes
	s.errands.begin(ctx, func(ctx context.Context) {
		for _, g := range given {
			s.sessions.keepWatch(ctx, g.session, g.uri)
		}
	})
}
