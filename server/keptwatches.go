package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/server/session"
)

// The log keeps to which resources a session has subscribed, and at which replica each subscription is:
//
//	a replica with a subscription ── it is open: home and URI ──▶ log ── read with the stream ──▶ the next teller
//
// A replica that dies takes its subscriptions with it, and may be the only one that knows of them: the others may have seen
// the session later. Its client then opens its stream at one of those, which opens them itself (see orphans.go).

// factWatch begins the name of the fact that is kept for a subscription; a digest of its URI follows.
const factWatch = "watch-"

func watchFact(uri string) string {
	sum := sha256.Sum256([]byte(uri))
	return factWatch + hex.EncodeToString(sum[:16])
}

// keepWatch keeps that this replica has a subscription of a session. If it cannot be kept, the subscription is open all the
// same.
func (s *Server) keepWatch(ctx context.Context, l *live, uri string) {
	s.keepFact(ctx, l, uri, string(packed([]byte(s.config.Others.Self()), []byte(uri))))
}

// forgetWatch forgets a subscription that its session has ended. If it cannot be forgotten, it may be opened again when the
// replica that had it dies; the client can end it again.
func (s *Server) forgetWatch(ctx context.Context, l *live, uri string) { s.keepFact(ctx, l, uri, "") }

func (s *Server) keepFact(ctx context.Context, l *live, uri, text string) {
	if !l.shared {
		return
	}
	err := s.config.Log.Keep(context.WithoutCancel(ctx), l.inLog(), watchFact(uri), text)
	if err != nil && !errors.Is(err, session.ErrUnknown) {
		s.log.DebugContext(ctx, "a subscription was not kept for other replicas", slog.Any("error", err))
	}
}

// learnWatches learns which subscriptions the session has at other replicas.
func (l *live) learnWatches(facts map[string]string, self replica.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, text := range facts {
		parts, ok := unpacked([]byte(text), 2)
		if !ok || !strings.HasPrefix(name, factWatch) {
			continue
		}
		home, uri := replica.ID(parts[0]), string(parts[1])
		if home != self && l.news.watched[uri] == nil {
			l.addAwayLocked(uri, home)
		}
	}
}
