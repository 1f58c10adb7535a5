package server

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/replica"
)

// A client of a shared session opens its stream for notices at one replica, the teller of the session, while its
// subscriptions may be at others. Who opens such a stream says so, and the others bring it what they hear:
//
//	a replica with a subscription                 the teller
//	  │ ◀──────────── stream: "the client is told here" ──┤  a GET came
//	  │                                                   │
//	  ├─ updated: the changed resources ────────────────▶ │ judged, and told
//
// What changed while nobody told the client waits where it was heard, for the next teller. Of two tellers the one whose
// claim is newer tells; the other keeps silent until that one says that it has closed its stream, or is gone.

// takeTime is how long a stream that is being opened waits until other replicas know. One that has died meanwhile is
// taken to live for a few seconds, and no client shall wait for that.
const takeTime = 500 * time.Millisecond

// claim says who tells the client of a session. The greater one counts, so that all replicas agree.
type claim struct {
	stamp  uint64 // grows with each claim that a replica knows
	teller replica.ID
}

func (c claim) beats(other claim) bool {
	return c.stamp > other.stamp || c.stamp == other.stamp && c.teller > other.teller
}

// afar is what other replicas have to do with the news of a shared session. The mutex of the session guards it.
type afar struct {
	claim    claim     // who told the client last, of all replicas; no teller: nobody is known to
	silent   bool      // that one has no stream for it any more
	bringing bool      // a goroutine brings changed resources to that one
	later    bool      // all is told again soon, see tellLater
	kept     bool      // the log has what the client was told of lists
	away     away      // subscriptions at other replicas
	since    time.Time // when this replica claimed to tell the client last
}

// takeStream tells other replicas that a connection here gets a stream of a shared session: none of them sends any more of
// it, and notices are told here from now on.
func (s *Server) takeStream(ctx context.Context, f *feed) {
	l := f.session
	if !l.shared || f.place == nil { // the answer to a POST begins with its stream
		return
	}
	var stamp uint64
	if f.tells {
		s.learnKept(ctx, l)
		stamp = l.claimTelling(s.config.Others)
	}
	s.tellOfStream(context.WithoutCancel(ctx), l, f.stream, stamp)
}

// tellOfStream tells other replicas of a stream, and waits until they know. If stamp is not zero, it is that of the claim
// to tell the client.
func (s *Server) tellOfStream(ctx context.Context, l *live, stream string, stamp uint64) {
	ctx, stop := context.WithTimeout(ctx, takeTime)
	defer stop()
	word := packed(l.key[:], []byte(stream), binary.BigEndian.AppendUint64(nil, stamp))
	// A replica that has not heard of it in time has died or lost touch; its connection is most likely gone, too.
	if s.config.Others.Tell(ctx, replica.Word{Kind: kindStream, Tenant: l.user.TenantID, Data: word}) != nil && stamp != 0 {
		s.tellLater(l)
	}
}

// claimTelling makes this replica the teller, and returns the stamp of its claim.
func (l *live) claimTelling(others replica.Others) uint64 {
	now := stampNow(others)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.doubtLocked(others, l.isReplacedLocked(others.Self()))
	l.news.claim = claim{max(now, l.news.claim.stamp+1), others.Self()}
	l.news.silent, l.news.since = false, time.Now()
	return l.news.claim.stamp
}

// tellsHere tells whether a stream of this replica tells the client of changes. claimed tells that it does from now on,
// because the replica that did is gone or has stopped, so the others are to hear of it.
func (l *live) tellsHere(others replica.Others) (here, claimed bool) {
	if !l.shared {
		return true, false
	}
	l.mu.Lock()
	teller, silent := l.news.claim.teller, l.news.silent
	l.mu.Unlock()
	switch {
	case teller == others.Self() && !silent:
		return true, false
	case teller != "" && !silent && others.IsThere(teller):
		return false, false
	}
	return true, true
}

// takeOver makes this replica the teller in the place of one that is not there any more.
func (s *Server) takeOver(ctx context.Context, l *live, stream string) {
	s.learnKept(ctx, l)
	stamp := l.claimTelling(s.config.Others)
	s.errands.begin(ctx, func(ctx context.Context) { s.tellOfStream(ctx, l, stream, stamp) }) // one for each stream that takes over
}

// stopTelling tells other replicas that this one has no stream any more on which the client is told. The last stream of
// the session that tells has just been released.
func (s *Server) stopTelling(ctx context.Context, l *live) {
	if !l.shared || s.isDraining() || !l.yieldTelling(s.config.Others.Self()) { // a replica that stops is seen to be gone
		return
	}
	s.errands.begin(ctx, func(ctx context.Context) { // one for each stream that ends
		ctx, stop := context.WithTimeout(ctx, takeTime)
		defer stop()
		_ = s.config.Others.Tell(ctx, replica.Word{Kind: kindSilent, Tenant: l.user.TenantID, Data: l.key[:]})
	})
}

// yieldTelling makes this replica teller no more, if it was and has no stream for that any more.
func (l *live) yieldTelling(self replica.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over || l.news.claim.teller != self || l.news.silent || l.hasTellingLocked() {
		return false
	}
	l.news.silent = true
	return true
}

// hasTellingLocked tells whether a connection of this replica sends a stream for notices.
func (l *live) hasTellingLocked() bool {
	for _, h := range l.holders {
		if h.stream[0] == 'g' {
			return true
		}
	}
	return false
}

// handleTelling takes the word of other replicas about streams and changed resources.
func (s *Server) handleTelling() {
	others := s.config.Others
	others.Handle(kindStream, s.heardOfStream)
	others.Handle(kindSilent, s.heardSilence)
	others.Handle(kindAsk, s.heardQuestion)
	others.Handle(kindUpdated, s.heardOfUpdates)
	others.Handle(kindWatch, s.heardOfWatch)
	others.Handle(kindKnown, s.heardOfKnown)
	others.OnReturn(func() {
		if s.returns.Add(1) == 1 {
			s.errands.begin(context.Background(), s.tellAgain) // one at a time
		}
	})
}

// named returns the session that word is about, nil if it does not live here. Word of a session says nothing to others.
func (s *Server) named(key []byte, tenant string) *live {
	if len(key) != keySize {
		return nil
	}
	l := s.sessions.roster.find(sessionKey(key))
	if l == nil || !l.shared || l.user.TenantID != tenant {
		return nil
	}
	return l
}

// heardOfStream ends the connection that sends a stream which another replica has now, and brings what the client is to
// be told to that replica.
func (s *Server) heardOfStream(_ context.Context, from replica.ID, w replica.Word) {
	parts, ok := unpacked(w.Data, 3)
	if !ok || len(parts[2]) != 8 {
		return
	}
	l := s.named(parts[0], w.Tenant)
	if l == nil {
		return
	}
	if stream := string(parts[1]); stream != "" {
		l.lose(stream)
		l.sent(stream) // what it still owes stands in the log
	}
	if stamp := binary.BigEndian.Uint64(parts[2]); stamp != 0 && l.heedClaim(s.config.Others, claim{stamp, from}) {
		s.bringKnown(l, from)
		s.bringUpdates(l)
	}
}

// lose ends the connection that sends a stream, if there is one.
func (l *live) lose(stream string) {
	l.mu.Lock()
	h := l.holderLocked(stream)
	l.mu.Unlock()
	if h != nil {
		h.lost.Store(true)
		h.flow.stir()
	}
}

// heedClaim notes who tells the client. It is false if another has a newer claim, and has not said that it tells no more:
// whoever claimed without knowing of that one may have a lower stamp.
func (l *live) heedClaim(others replica.Others, c claim) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.news.silent && !c.beats(l.news.claim) {
		return false
	}
	l.doubtLocked(others, l.isReplacedLocked(c.teller))
	l.news.claim, l.news.silent = c, false
	return true
}

// heardSilence lets a stream of this replica tell the client, if there is one.
func (s *Server) heardSilence(_ context.Context, from replica.ID, w replica.Word) {
	l := s.named(w.Data, w.Tenant)
	if l == nil {
		return
	}
	l.mu.Lock()
	stopped := l.news.claim.teller == from
	l.news.silent = l.news.silent || stopped
	l.mu.Unlock()
	if stopped {
		l.rested()
		l.stir()
	}
}
