package server

import (
	"context"
	"encoding/binary"
	"time"

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
	if s.config.Others.Tell(ctx, replica.Word{Kind: kindAsk, Tenant: l.user.TenantID, Data: l.key[:]}) != nil {
		s.tellLater(l)
	}
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

// forgetTellers notes which replicas that told clients are gone, so that nothing is kept for them, and what was brought to
// them is told by others.
func (s *Server) forgetTellers() {
	if !s.config.Shared {
		return
	}
	s.sessions.roster.each(func(l *live) {
		if !l.shared {
			return
		}
		gone, doubtful := l.forgetTeller(s.config.Others)
		if gone {
			l.rested()
		}
		if doubtful {
			l.stir()
			s.bringUpdates(l)
		}
	})
}

// forgetTeller notes that the replica that told the client is gone. gone is false if it is there, or there was none.
// doubtful tells whether changes were put back that may not have been told.
func (l *live) forgetTeller(others replica.Others) (gone, doubtful bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	gone = l.isHeardElsewhereLocked() && !others.IsThere(l.news.claim.teller)
	doubtful = l.doubtLocked(others, gone)
	l.news.silent = l.news.silent || gone
	return gone, doubtful
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
					s.safely(ctx, func() { s.tellAgainOf(ctx, l) })
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

// againTime is how long word waits that could not be given, before it is given again. What hinders it may be no outage, after
// which all is told again, but a moment's fault, such as a slot of a cluster that moves.
const againTime = 5 * time.Second

// tellLater is tellAgain for one session, in a while. However much could not be told by then, it is done once.
func (s *Server) tellLater(l *live) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over || l.news.later {
		return
	}
	l.news.later = true
	time.AfterFunc(againTime, func() {
		s.errands.begin(context.Background(), func(ctx context.Context) { // one for each session
			l.mu.Lock()
			l.news.later = false
			l.mu.Unlock()
			s.tellAgainOf(ctx, l)
		})
	})
}

// tellAgainOf is tellAgain for one session.
func (s *Server) tellAgainOf(ctx context.Context, l *live) {
	self := s.config.Others.Self()
	l.mu.Lock()
	mine := !l.over && !l.news.silent && l.news.claim.teller == self
	l.mu.Unlock()
	if mine {
		s.tellOfStream(ctx, l, "", l.claimTelling(s.config.Others))
	}
	s.keepWatchesAgain(ctx, l)
	s.bringUpdates(l)
	s.askForTeller(ctx, l)
}
