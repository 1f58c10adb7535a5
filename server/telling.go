package server

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/server/session"
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

// knownTime is how long the teller of a session waits for another replica to say what the client knows of lists, before it
// tells the client that all of them have changed. It is much longer than that takes.
const knownTime = 2 * time.Second

// keptLists is the name under which the log keeps what the client of a session was last told of lists.
const keptLists = "lists"

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
		s.learnLists(ctx, l)
		stamp = l.claimTelling(s.config.Others.Self())
	}
	s.tellOfStream(ctx, l, f.stream, stamp)
}

// tellOfStream tells other replicas of a stream, and waits until they know. If stamp is not zero, it is that of the claim
// to tell the client.
func (s *Server) tellOfStream(ctx context.Context, l *live, stream string, stamp uint64) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), takeTime)
	defer stop()
	word := packed(l.key[:], []byte(stream), binary.BigEndian.AppendUint64(nil, stamp))
	// A replica that has not heard of it in time has died or lost touch; its connection is most likely gone, too.
	_ = s.config.Others.Tell(ctx, replica.Word{Kind: kindStream, Tenant: l.user.TenantID, Data: word})
}

// claimTelling makes this replica the teller, and returns the stamp of its claim.
func (l *live) claimTelling(self replica.ID) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.news.claim = claim{max(stampNow(), l.news.claim.stamp+1), self}
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

// awaitsKnownLocked tells whether another replica may yet say what the client knows of lists.
func (l *live) awaitsKnownLocked() bool {
	return l.shared && time.Since(l.news.since) < knownTime
}

// takeOver makes this replica the teller in the place of one that is not there any more.
func (s *Server) takeOver(ctx context.Context, l *live, stream string) {
	s.learnLists(ctx, l)
	stamp := l.claimTelling(s.config.Others.Self())
	go s.tellOfStream(ctx, l, stream, stamp) // for takeTime at most
}

// stopTelling tells other replicas that this one has no stream any more on which the client is told. The last stream of
// the session that tells has just been released.
func (s *Server) stopTelling(ctx context.Context, l *live) {
	if !l.shared || s.isDraining() || !l.yieldTelling(s.config.Others.Self()) { // a replica that stops is seen to be gone
		return
	}
	ctx = context.WithoutCancel(ctx)
	go func() { // for takeTime at most
		ctx, stop := context.WithTimeout(ctx, takeTime)
		defer stop()
		_ = s.config.Others.Tell(ctx, replica.Word{Kind: kindSilent, Tenant: l.user.TenantID, Data: l.key[:]})
	}()
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
			go s.tellAgain() // one at a time; each word waits for takeTime at most
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
	if stamp := binary.BigEndian.Uint64(parts[2]); stamp != 0 && l.heedClaim(claim{stamp, from}) {
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

// heedClaim notes who tells the client. It is false if another has a newer claim.
func (l *live) heedClaim(c claim) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !c.beats(l.news.claim) {
		return false
	}
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

// askForTeller asks other replicas which of them tells the client of a session, unless it is known here. That one answers
// with its claim.
func (s *Server) askForTeller(ctx context.Context, l *live) {
	if !l.shared || !l.lacksTeller() {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), takeTime)
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
	ctx = context.WithoutCancel(ctx)
	go func() { // for takeTime at most; the limits of calls bound how many subscribe at once
		ctx, stop := context.WithTimeout(ctx, takeTime)
		defer stop()
		if err := s.config.Others.Send(ctx, from, replica.Word{Kind: kindStream, Tenant: l.user.TenantID, Data: word}); err != nil {
			s.log.DebugContext(ctx, "another replica was not told who tells a client", "error", err)
		}
	}()
}

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
		go s.bring(l)
	}
}

func (s *Server) bring(l *live) {
	for {
		teller, taken := l.takeUpdates(s.config.Others)
		if len(taken) == 0 {
			return
		}
		parts := [][]byte{l.key[:]}
		for _, one := range taken {
			parts = append(parts, []byte(one.uri), []byte(one.part))
		}
		ctx, stop := context.WithTimeout(context.Background(), takeTime)
		err := s.config.Others.Send(ctx, teller, replica.Word{Kind: kindUpdated, Tenant: l.user.TenantID, Data: packed(parts...)})
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
		l.mu.Lock()
		gone := l.isHeardElsewhereLocked() && !s.config.Others.IsThere(l.news.claim.teller)
		l.news.silent = l.news.silent || gone
		l.mu.Unlock()
		if gone {
			l.rested()
		}
	})
}

// tellAgain tells other replicas of all streams here that tell clients, and brings what is left to those that tell other
// clients, because word may have been lost. It begins anew if word may have been lost meanwhile.
func (s *Server) tellAgain() {
	self := s.config.Others.Self()
	for {
		returns := s.returns.Load()
		var shared []*live
		s.sessions.roster.each(func(l *live) {
			if l.shared {
				shared = append(shared, l)
			}
		})
		for _, l := range shared {
			l.mu.Lock()
			mine := !l.over && !l.news.silent && l.news.claim.teller == self
			l.mu.Unlock()
			if mine {
				s.tellOfStream(context.Background(), l, "", l.claimTelling(self))
			}
			s.bringUpdates(l)
			s.askForTeller(context.Background(), l)
		}
		if s.returns.CompareAndSwap(returns, 0) {
			return
		}
	}
}

// learnLists learns from the log what the client was last told of lists, if another replica told it.
func (s *Server) learnLists(ctx context.Context, l *live) {
	text, err := s.config.Log.Kept(ctx, l.inLog(), keptLists)
	contents := strings.Fields(text)
	if err != nil || len(contents) != len(l.news.lists) {
		return
	}
	self := s.config.Others.Self()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.news.lists {
		if n := &l.news.lists[i]; n.owed == "" && (n.content != contents[i] || l.news.claim.teller != self && l.news.claim.teller != "") {
			n.told, n.content = "", contents[i]
		}
	}
}

// keepLists has the log keep what the client was told of lists, for the replica that tells it next.
func (s *Server) keepLists(ctx context.Context, l *live) {
	text, due := l.untoldOthers()
	if !due {
		return
	}
	if err := s.config.Log.Keep(ctx, l.inLog(), keptLists, text); err != nil && !errors.Is(err, session.ErrUnknown) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.news.kept = false // the next notice tries again; until then the client may be told once more by another replica
	}
}

// untoldOthers returns what the log is to keep, and notes that it does. It is false if the log has it already, or if the
// client has yet to get a notice.
func (l *live) untoldOthers() (text string, due bool) {
	if !l.shared {
		return "", false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.news.kept {
		return "", false
	}
	contents := make([]string, 0, len(l.news.lists))
	for _, n := range l.news.lists {
		if n.owed != "" || n.content == "" {
			return "", false
		}
		contents = append(contents, n.content)
	}
	l.news.kept = true
	return strings.Join(contents, " "), true
}
