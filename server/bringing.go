package server

import (
	"context"
	"errors"

	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// What changed at a replica with a subscription is brought to the teller of the session, as soon as there is one.

// bringUpdates brings the changed resources of which the client has yet to be told to the replica that tells it. It does
// so in a goroutine, one for each session at most.
func (s *Server) bringUpdates(l *live) {
	if !l.shared {
		return
	}
	self := s.config.Others.Self()
	l.mu.Lock()
	begins := !l.news.bringing && l.news.updates.waits() && l.tellerLocked(self) != ""
	l.news.bringing = l.news.bringing || begins
	l.mu.Unlock()
	if begins {
		s.errands.begin(context.Background(), func(ctx context.Context) { s.bring(ctx, l) })
	}
}

func (s *Server) bring(ctx context.Context, l *live) {
	for {
		teller, taken := l.takeUpdates(s.config.Others)
		if len(taken) == 0 {
			return
		}
		parts := [][]byte{l.key[:]}
		for _, one := range taken {
			parts = append(parts, []byte(one.uri), []byte(one.part))
		}
		brief, stop := context.WithTimeout(ctx, takeTime)
		err := s.config.Others.Send(brief, teller, replica.Word{Kind: kindUpdated, Tenant: l.user.TenantID, Data: packed(parts...)})
		stop()
		if err != nil {
			l.returnUpdates(teller, taken, errors.Is(err, replica.ErrGone))
			return
		}
	}
}

// tellerLocked returns the other replica that tells the client, "" if none does.
func (l *live) tellerLocked(self replica.ID) replica.ID {
	if l.over || l.news.silent || l.news.claim.teller == self {
		return ""
	}
	return l.news.claim.teller
}

// changed is a resource, or a part of one, that has changed.
type changed struct{ uri, part string }

// takeUpdates takes out some changes that are for the replica that tells the client. If there are none, or nobody else
// tells it, nobody brings updates any more.
func (l *live) takeUpdates(others replica.Others) (teller replica.ID, taken []changed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if teller = l.tellerLocked(others.Self()); teller != "" {
		taken = l.news.updates.take(maxTold, func(stream string) bool { return stream == "" || l.holderLocked(stream) == nil })
	}
	l.news.bringing = len(taken) > 0
	return teller, taken
}

// returnUpdates puts back changes that did not reach the replica that tells the client. They wait for the next one, or
// for the next change.
func (l *live) returnUpdates(teller replica.ID, taken []changed, gone bool) {
	l.mu.Lock()
	for _, one := range taken {
		l.addUpdateLocked(one.uri, one.part)
	}
	l.news.bringing = false
	l.news.silent = l.news.silent || gone && l.news.claim.teller == teller
	l.mu.Unlock()
	l.stir()
}

// heardOfUpdates takes changes of resources that the session has subscribed to at another replica. They are judged here
// before the client is told.
func (s *Server) heardOfUpdates(_ context.Context, _ replica.ID, w replica.Word) {
	if len(w.Data) == 0 {
		return
	}
	parts, ok := unpacked(w.Data, 0)
	if !ok || len(parts)%2 == 0 || len(parts) > 2*maxTold+1 {
		return
	}
	l := s.named(parts[0], w.Tenant)
	if l == nil {
		return // the session has ended
	}
	l.mu.Lock()
	for i := 1; i < len(parts); i += 2 {
		l.addUpdateLocked(string(parts[i]), string(parts[i+1]))
	}
	l.mu.Unlock()
	l.stir()
	s.bringUpdates(l) // if yet another replica tells the client meanwhile
}

// addUpdateLocked remembers that a resource, or a part of one, has changed.
func (l *live) addUpdateLocked(uri, part string) {
	if l.over {
		return
	}
	if l.news.updates == nil {
		l.news.updates = &updates{memory: l.roster.memory, user: share.User(l.user)}
	}
	l.news.updates.add(uri, part)
}
