package server

import (
	"context"
	"encoding/binary"

	"golang.org/x/sync/errgroup"

	"github.com/drawbridge-mcp/drawbridge/internal/replica"
)

// A replica with subscriptions of a session must know who its teller is. Word of that may be lost, and a teller may die: so a
// replica asks, forgets who is gone, and says again what it does itself.

// askForTeller asks other replicas which of them tells the client of a session, unless it is known here. That one answers
// with its claim.
func (s *Server) askForTeller(ctx context.Context, l *live) {
	if !l.shared || !l.lacksTeller() {
		return
	}
	ctx, stop := context.WithTimeout(ctx, takeTime)
	defer stop()
	// Who has not heard it tells of its stream by itself when it can be reached again, see tellAgain.
	_ = s.config.Others.Tell(ctx, replica.Word{Kind: kindAsk, Tenant: l.user.TenantID, Data: l.key[:]})
}

// lacksTeller tells whether the session has subscriptions here and nobody is known to tell its client.
func (l *live) lacksTeller() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.over && len(l.news.watched) > 0 && (l.news.silent || l.news.claim.teller == "")
}

// heardQuestion answers whether this replica tells the client of a session.
func (s *Server) heardQuestion(ctx context.Context, from replica.ID, w replica.Word) {
	l := s.named(w.Data, w.Tenant)
	if l == nil {
		return
	}
	l.mu.Lock()
	told := l.news.claim
	mine := !l.over && !l.news.silent && told.teller == s.config.Others.Self()
	l.mu.Unlock()
	if !mine {
		return
	}
	word := packed(l.key[:], nil, binary.BigEndian.AppendUint64(nil, told.stamp))
	s.errands.begin(ctx, func(ctx context.Context) { // the limits of calls bound how many subscribe at once
		ctx, stop := context.WithTimeout(ctx, takeTime)
		defer stop()
		if err := s.config.Others.Send(ctx, from, replica.Word{Kind: kindStream, Tenant: l.user.TenantID, Data: word}); err != nil {
			s.log.DebugContext(ctx, "another replica was not told who tells a client", "error", err)
		}
	})
}

// isHeardElsewhereLocked tells whether the session has subscriptions here, of which another replica tells the client.
func (l *live) isHeardElsewhereLocked() bool {
	return l.shared && len(l.news.watched) > 0 && !l.news.silent && l.news.claim.teller != "" && l.news.claim.teller != l.roster.self
}

// forgetTellers notes which replicas that told clients are gone, so that nothing is kept for them.
func (s *Server) forgetTellers() {
	if !s.config.Shared {
		return
	}
	s.sessions.roster.each(func(l *live) {
		if !l.shared {
			return
		}
		l.mu.Lock()
		gone := l.isHeardElsewhereLocked() && !s.config.Others.IsThere(l.news.claim.teller)
		l.news.silent = l.news.silent || gone
		l.mu.Unlock()
		if gone {
			l.rested()
		}
	})
}

// maxTelling is of how many sessions tellAgain tells others at once. One that does not hear holds each up for takeTime.
const maxTelling = 16

// tellAgain tells other replicas of all streams here that tell clients, brings what is left to those that tell other
// clients, and has the log keep subscriptions, because word and what was kept may have been lost. It begins anew if word may have been lost meanwhile.
func (s *Server) tellAgain(ctx context.Context) {
	for {
		returns := s.returns.Load()
		var telling errgroup.Group
		telling.SetLimit(maxTelling)
		s.sessions.roster.each(func(l *live) {
			if l.shared && ctx.Err() == nil {
				telling.Go(func() error {
					s.tellAgainOf(ctx, l)
					return nil
				})
			}
		})
		_ = telling.Wait() // there is no error
		if ctx.Err() != nil || s.returns.CompareAndSwap(returns, 0) {
			return
		}
	}
}

// tellAgainOf is tellAgain for one session.
func (s *Server) tellAgainOf(ctx context.Context, l *live) {
	self := s.config.Others.Self()
	l.mu.Lock()
	mine := !l.over && !l.news.silent && l.news.claim.teller == self
	l.mu.Unlock()
	if mine {
		s.tellOfStream(ctx, l, "", l.claimTelling(self))
	}
	s.keepWatchesAgain(ctx, l)
	s.bringUpdates(l)
	s.askForTeller(ctx, l)
}
