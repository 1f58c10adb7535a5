package server

import (
	"context"
	"errors"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// What changed at a replica with a subscription is brought to the teller of the session, as soon as there is one. That one
// may die with the change, for the mailbox of a dead replica takes word for some seconds; one that stops may take it after
// its streams have ended. So who brought a change remembers that, and brings it to the next teller, too:
//
//	waits ──▶ brought ─┬─ the teller is there a minute later, and tells ──▶ forgotten
//	  ▲                └─ it is gone, or another tells before it said that it is silent
//	  └─────────────────────┘
//
// Then a client may be told twice, which is harmless.

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

// errUnsent is for word that a panic has kept from being sent.
var errUnsent = errors.New("word was not sent")

// bring is bringUpdates in that goroutine. After a panic the changes are put back, or nobody would ever bring any again.
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
		err := errUnsent
		s.safely(brief, func() {
			err = s.config.Others.Send(brief, teller, replica.Word{Kind: kindUpdated, Tenant: l.user.TenantID, Data: packed(parts...)})
		})
		stop()
		if err != nil && !l.returnUpdates(s.config.Others, teller, taken, errors.Is(err, replica.ErrGone)) {
			s.tellLater(l)
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
	for _, one := range taken { // now, because the teller may be replaced while it is sent
		if w := l.news.watched[one.uri]; w != nil {
			w.brought = brought{teller, time.Now()}
		}
	}
	l.news.bringing = len(taken) > 0
	return teller, taken
}

// returnUpdates puts back changes that did not reach the replica that tells the client. They wait for the next one, for the
// next change, or for a while. If it is true, the next one is there already: its claim began nothing while these were under way.
func (l *live) returnUpdates(others replica.Others, teller replica.ID, taken []changed, gone bool) (again bool) {
	l.mu.Lock()
	for _, one := range taken {
		l.addUpdateLocked(one.uri, one.part)
	}
	if gone && l.news.claim.teller == teller {
		l.doubtLocked(others, !l.news.silent)
		l.news.silent = true
	}
	next := l.tellerLocked(others.Self())
	again = next != "" && next != teller
	l.news.bringing = again
	l.mu.Unlock()
	l.stir()
	return again
}

// doubtTime is how long a replica must have been there after a change was brought to it, so that the change counts as told.
// It is longer than a replica lives that stops, or seems to live after its death.
const doubtTime = time.Minute

// brought says where the last change of a subscription was brought to. The zero brought: nowhere, or it counts as told.
type brought struct {
	teller replica.ID
	since  time.Time
}

// doubtLocked puts back what was brought to a replica that may not have told it. lost says that the one that told the client
// last has ended without a word, with all that has come to it, also by way of others. Otherwise only what was brought to a
// replica that is gone is put back, also if that one had said that it is silent: it kept what came after its last stream
// for the next teller. The change is told as one of the resource that the subscription names.
func (l *live) doubtLocked(others replica.Others, lost bool) (doubtful bool) {
	for uri, w := range l.news.watched {
		switch {
		case w.brought.teller == "":
		case lost || !others.IsThere(w.brought.teller):
			w.brought, doubtful = brought{}, true
			l.addUpdateLocked(uri, uri)
		case !l.news.silent && time.Since(w.brought.since) > doubtTime:
			w.brought = brought{}
		}
	}
	return doubtful
}

// isReplacedLocked tells whether another replica told the client and is replaced by next before it said that it is silent.
func (l *live) isReplacedLocked(next replica.ID) bool {
	last := l.news.claim.teller
	return !l.news.silent && last != "" && last != next && last != l.roster.self
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
