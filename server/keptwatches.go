package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/server/session"
)

// The log keeps which subscriptions a session has, and which replica has each, so that they outlive a replica of which
// nobody else had heard:
//
//	a replica with a subscription        the log                         the teller
//	  │ ── watch-DIGEST: replica, URI ──▶ │                                │
//	  ╳ ends                              │ ◀──────────── what is kept? ── │ a GET came
//	                                      │ ── of a replica that is gone ▶ │ opens it, and keeps that
//
// Each is a fact of its own, because several replicas may keep and forget some at the same time. It is written before the
// others are told, so whoever reads it after word of it finds it, or what followed.

// factWatch is the name of the fact of a subscription, without the digest of its URI: names of facts are not sealed.
const factWatch = "watch-"

// maxKeptURIs is how many bytes of URIs a replica keeps in the log for one session. What is beyond is known only to the
// replicas where the session lives.
const maxKeptURIs = 64 << 10

func watchFact(uri string) string {
	digest := sha256.Sum256([]byte(uri))
	return factWatch + hex.EncodeToString(digest[:16])
}

// watchText is the text of the fact: the replica, and the URI. A later version may add parts at the end.
func watchText(home replica.ID, uri string) string {
	return string(packed([]byte(home), []byte(uri)))
}

// parseWatch is the inverse of watchText.
func parseWatch(text string) (home replica.ID, uri string, ok bool) {
	parts, ok := unpacked([]byte(text), 2)
	if !ok || len(parts[1]) > maxURI {
		return "", "", false
	}
	return replica.ID(parts[0]), string(parts[1]), true
}

// keepWatch has the log keep which replica has the subscription of a session to a resource, or forget it if none has.
// What the log cannot take now is kept after the fault (see tellAgain). The error is that of the log; a session that has
// ended is none.
func (ss *sessions) keepWatch(ctx context.Context, l *live, uri string) error {
	if !l.shared {
		return nil
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), takeTime)
	defer stop()
	for {
		home, known := l.homeOf(uri)
		if !known {
			return nil
		}
		text := ""
		if home != "" {
			text = watchText(home, uri)
		}
		err := ss.log.Keep(ctx, l.inLog(), watchFact(uri), text)
		if errors.Is(err, session.ErrUnknown) {
			return nil
		}
		if now, _ := l.homeOf(uri); err != nil || now == home {
			return err
		} // word came meanwhile: what was written is old
	}
}

// homeOf returns which replica has a subscription of the session, as the log is to keep it; "" if none has. It is not
// known of a session that is over here.
func (l *live) homeOf(uri string) (home replica.ID, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.news.watched[uri]; w != nil {
		if w.kept {
			home = l.roster.self
		}
		return home, !l.over
	}
	return l.news.away.homes[uri].home, !l.over
}

// keepsLocked tells whether the log has room for one more subscription.
func (l *live) keepsLocked(uri string) bool {
	size := len(uri)
	for other, w := range l.news.watched {
		if w.kept {
			size += len(other)
		}
	}
	return l.shared && size <= maxKeptURIs
}

// keepWatchesAgain has the log keep all subscriptions of a session that are here, because it may have lost some.
func (s *Server) keepWatchesAgain(ctx context.Context, l *live) {
	var uris []string
	l.mu.Lock()
	for uri, w := range l.news.watched {
		if w.kept && w.isOpen() {
			uris = append(uris, uri)
		}
	}
	l.mu.Unlock()
	for _, uri := range uris {
		if err := s.sessions.keepWatch(ctx, l, uri); err != nil {
			s.log.DebugContext(ctx, "a subscription was not kept again", "error", err)
			return // the next fault that is over is the next try
		}
	}
}

// learnWatches notes which subscriptions other replicas have, as the log says. The session is one of the roster.
func (l *live) learnWatches(facts map[string]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, text := range facts {
		if !strings.HasPrefix(name, factWatch) {
			continue
		}
		home, uri, ok := parseWatch(text)
		if ok && home != l.roster.self && l.news.watched[uri] == nil {
			l.addAwayLocked(uri, awayWatch{home: home, kept: true})
		}
	}
}

// confirm returns which of the subscriptions that were at replicas that are gone nobody has. The client may have
// unsubscribed while this replica learned of one, or subscribed at another.
func (s *Server) confirm(ctx context.Context, l *live, orphans []orphan) (ours []orphan) {
	facts, err := s.config.Log.Facts(ctx, l.inLog())
	for _, o := range orphans {
		home, _, kept := parseWatch(facts[watchFact(o.uri)])
		switch {
		case kept && home != l.roster.self && s.config.Others.IsThere(home):
			l.mu.Lock()
			l.addAwayLocked(o.uri, awayWatch{home: home, kept: true})
			l.mu.Unlock()
		case err == nil && !kept && o.kept: // unsubscribed
		default:
			ours = append(ours, o)
		}
	}
	return ours
}

// givenUp is a subscription that the caller of its session may not have any more.
type givenUp struct {
	session *live
	uri     string
}

// forgetWatches has the log forget subscriptions, in a goroutine: others whose rights ended do not wait for the log.
func (s *Server) forgetWatches(ctx context.Context, given []givenUp) {
	if len(given) == 0 {
		return
	}
	s.errands.begin(ctx, func(ctx context.Context) { // one for each time that rights are judged, or that somebody subscribes
		for _, g := range given {
			if err := s.sessions.keepWatch(ctx, g.session, g.uri); err != nil {
				s.log.WarnContext(ctx, "a subscription that was given up is still kept", "error", err)
			}
		}
	})
}
