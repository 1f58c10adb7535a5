package server

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/server/session"
)

// A shared session lives on every replica that its client sends something to. Its id says all that does not change, so
// each can take part; what changes is in the log, and replicas tell each other of it:
//
//	              first message here: one look into the log
//	not here ────────────────────────────────────────────────▶ here ───▶ messages: no look
//	    ▲                                                        │
//	    ├── evicted, or idle here: it may come back ─────────────┤
//	    └── ended, at any replica; expired; revoked ─────────────┘
//
// Who ends a session marks that in the log first and tells the others then, so a replica either hears of it, or sees the
// mark when it looks. A replica that may have missed word looks once more at each session, at the next message. While the
// log cannot be read, sessions that are here go on, and of others nothing is said but that this is not the time.

// Names of facts in the log.
const (
	factLevel = "level" // of log messages, by name
	factUsed  = "used"  // when the session was last used, in seconds since 1970
)

// slack is the part of SessionIdle, as a divisor, that the log may be behind in what it knows of the last use.
const slack = 10

// spread is what shared sessions need besides those of one instance.
type spread struct {
	generations generations
	others      replica.Others
	marks       *marks
	doubts      atomic.Uint64        // how often word may have been lost; what was looked up before counts no more
	returned    atomic.Int64         // when that was last, in nanoseconds since 1970; zero: only at the start
	swept       [generationSize]byte // the generation for which dropLost has looked; only tend uses it
	mend        chan struct{}        // holds a value if that is to be mended
}

// abroad is what a replica knows of what others know of a session. The mutex of the session guards it, but for the
// generation, which never changes.
type abroad struct {
	generation [generationSize]byte // of what replicas share, in which the session was opened
	trusted    uint64               // how often word may have been lost before it was last looked up what others did with it
	kept       time.Time            // last use of which the log knows
}

func (sp *spread) begin(cfg *Config) {
	sp.generations.ask, sp.others, sp.marks, sp.mend = cfg.Generation, cfg.Others, newMarks(), make(chan struct{}, 1)
}

// findShared is find for a ticket that was opened, and is the caller's.
func (ss *sessions) findShared(ctx context.Context, t *ticket, c gateway.Caller) (*live, *refusal) {
	generation, known := ss.spread.generations.now()
	switch {
	case !known || t.generation == generation:
	case time.Since(t.opened) < settleTime: // perhaps another replica knows of a new generation earlier than this one
		return nil, errReplicas
	default:
		return nil, miss(ctx, lostGeneration)
	}
	l := ss.roster.find(t.key)
	switch {
	case l == nil && !known:
		return nil, errReplicas
	case l == nil:
		return ss.adopt(ctx, t, c)
	}
	now := time.Now()
	doubts := ss.spread.doubts.Load()
	certain := l.isCertain(now, ss.idle, doubts)
	if !l.use(now, ss.maxAge, c.Principal) {
		ss.drop(l, l.lapse(now))
		return ss.adopt(ctx, t, c) // unless it has ended for good, it was let go of just now
	}
	if !certain {
		if end := ss.lookAt(ctx, l, now, doubts); end != "" {
			return nil, miss(ctx, end)
		}
	}
	l.begin() // the handshake is over: this replica opened the session, or another one did and the client goes on here
	return l, nil
}

// adopt takes up a session that another replica opened, or that this one let go of. The bounds of open apply.
func (ss *sessions) adopt(ctx context.Context, t *ticket, c gateway.Caller) (*live, *refusal) {
	l := ss.liveOf(t, c.Principal, true)
	now := time.Now()
	switch {
	case !now.Before(l.expiry):
		return nil, miss(ctx, endExpired)
	case ss.spread.marks.has(l.user.TenantID, l.key):
		return nil, miss(ctx, endClosed)
	}
	l.heard, l.ready = true, true
	facts, err := ss.log.Facts(ctx, l.inLog())
	switch {
	case errors.Is(err, session.ErrUnknown):
		return nil, miss(ctx, endClosed)
	case err != nil:
		ss.logger.WarnContext(ctx, "session of another replica cannot be looked up", slog.Any("error", err))
		return nil, errReplicas
	case ss.isIdle(facts, now):
		return nil, miss(ctx, endIdle)
	}
	l.learn(facts)
	entered, refused := ss.add(ctx, l, c)
	switch {
	case refused != nil:
		return nil, refused
	case ss.spread.marks.has(l.user.TenantID, l.key): // told after the look, and before it was entered
		ss.drop(entered, endClosed)
		return nil, miss(ctx, endClosed)
	case !entered.use(now, ss.maxAge, c.Principal):
		return nil, miss(ctx, ss.departed.end(t.key))
	}
	entered.learnWatches(facts)
	ss.roster.metrics.SessionAdopted()
	return entered, nil
}

// lookAt looks up what other replicas did with a session that is here, and lets go of it if it has ended; end says how, ""
// if it has not. If the log cannot be read, the session goes on, and is looked at again.
func (ss *sessions) lookAt(ctx context.Context, l *live, now time.Time, doubts uint64) (end string) {
	facts, err := ss.log.Facts(ctx, l.inLog())
	switch {
	case errors.Is(err, session.ErrUnknown):
		end = endClosed
	case err != nil:
		return ""
	case ss.isIdle(facts, now) && !l.isBusy():
		end = endIdle
	}
	if end != "" {
		ss.drop(l, end)
		return end
	}
	l.learn(facts)
	l.learnWatches(facts)
	l.trust(doubts)
	return ""
}

// isIdle tells whether a session was used by no replica for too long. Where that is not known, it counts as used: nothing
// was kept yet, or others could not keep it, as far as they were away together with this replica.
func (ss *sessions) isIdle(facts map[string]string, now time.Time) bool {
	used, err := strconv.ParseInt(facts[factUsed], 10, 64)
	behind := max(ss.idle/slack, 2*time.Second) // tend and the fact itself count in seconds
	if err != nil || now.Sub(time.Unix(0, ss.spread.returned.Load())) < behind {
		return false
	}
	return now.Sub(time.Unix(used, 0)) > ss.idle+behind
}

// delete ends a session for its client on all replicas, and returns when those that live have ended it. If that cannot be
// marked, nothing has happened. If not all could be told, the session has ended here, no replica adopts it any more, and
// one that has it ends it as soon as it hears or looks again; the client is told to try again all the same, because it
// must not take for ended what may not be.
func (ss *sessions) delete(ctx context.Context, l *live) *refusal {
	if !l.shared {
		ss.end(ctx, l, endClosed)
		return nil
	}
	ctx = context.WithoutCancel(ctx) // a client that leaves must not leave half of it undone
	if err := ss.log.End(ctx, l.inLog()); err != nil {
		ss.logger.WarnContext(ctx, "end of a session not marked", slog.Any("error", err))
		return errReplicas
	}
	told := l.word(kindEnded)
	ss.spread.marks.add(l.user.TenantID, l.key, l.inLog(), time.Now()) // before it is dropped, see adopt
	ss.drop(l, endClosed)
	if err := ss.spread.others.Tell(ctx, told); err != nil {
		ss.logger.WarnContext(ctx, "end of a session not told to all replicas", slog.Any("error", err))
		return errReplicas
	}
	return nil
}

// markRevoked has the log forget a session that ended because its caller is not accepted any more. No replica adopts it
// then, not even for the same owner with a token that is good again. Others that have it judge by themselves.
func (ss *sessions) markRevoked(ctx context.Context, l *live) {
	if l.shared {
		ss.spread.marks.add(l.user.TenantID, l.key, l.inLog(), time.Now()) // if it cannot be marked now, it is marked again later
	}
	_ = ss.log.End(context.WithoutCancel(ctx), l.inLog()) // the log forgets old events by itself
}

// heardEnd notes that another replica ended a session, before that is dropped here, see adopt.
func (ss *sessions) heardEnd(tenantID string, key sessionKey) {
	ss.spread.marks.add(tenantID, key, session.Key{}, time.Now())
}

// doubt notes that word may have been lost. The first time is the start of the process, when nothing was there to lose.
func (ss *sessions) doubt() {
	if ss.spread.doubts.Add(1) > 1 {
		ss.spread.returned.Store(time.Now().UnixNano())
	}
	select {
	case ss.spread.mend <- struct{}{}:
	default: // it is asked for already
	}
}

// settleTime is how long it takes, at most, until the others know of a replica that has just come, or come back. Until
// then they do not tell it anything.
const settleTime = 3 * time.Second

// generationTime is how often sessions are looked for that were opened before what replicas share was lost.
const generationTime = time.Second

// tend keeps what other replicas must know of shared sessions, off the path of messages, until ctx ends. After word may
// have been lost, it mends what can be mended at once.
func (ss *sessions) tend(ctx context.Context) {
	ticker := time.NewTicker(generationTime)
	defer ticker.Stop()
	var settled <-chan time.Time
	for kept := time.Now(); ; {
		select {
		case <-ss.spread.mend:
			ss.dropLost()
			ss.markAgain(ctx)
			ss.lookAtBusy(ctx)
			ss.keepUse(ctx)
			settled = time.After(settleTime)
		case <-settled:
			ss.spread.doubts.Add(1) // what was looked up meanwhile may have been ended since, and nobody told
			ss.lookAtBusy(ctx)
		case now := <-ticker.C:
			ss.dropLost()
			if now.Sub(kept) >= ss.idle/slack {
				kept = now
				ss.keepUse(ctx)
				ss.spread.marks.tidy(now)
			}
		case <-ctx.Done():
			return
		}
	}
}

// markAgain marks the ends again that this replica marked within the last minutes: a store that failed over may have lost
// them.
func (ss *sessions) markAgain(ctx context.Context) {
	for _, ended := range ss.spread.marks.mine(time.Now()) {
		if err := ss.log.End(ctx, ended); err != nil {
			ss.logger.WarnContext(ctx, "end of a session not marked again", slog.Any("error", err))
			ss.retry(ctx)
			return
		}
	}
}

// retry has tend mend again in a moment.
func (ss *sessions) retry(ctx context.Context) {
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return
	}
	select {
	case ss.spread.mend <- struct{}{}:
	default: // it is asked for already
	}
}

// lookAtBusy looks at the sessions that have calls or streams, which might go on for long after the session has ended.
func (ss *sessions) lookAtBusy(ctx context.Context) {
	doubts := ss.spread.doubts.Load()
	ss.roster.each(func(l *live) {
		now := time.Now()
		if l.shared && l.isBusy() && !l.isCertain(now, ss.idle, doubts) && ctx.Err() == nil {
			ss.lookAt(ctx, l, now, doubts)
		}
	})
}

// dropLost ends the sessions that were opened before what replicas share was lost, once after each loss. The marks of those
// that have ended need not be made again: what was opened before is not found in any case.
func (ss *sessions) dropLost() {
	generation, known := ss.spread.generations.now()
	if !known {
		return
	}
	if generation == ss.spread.swept {
		return
	}
	ss.spread.swept = generation
	ss.roster.each(func(l *live) {
		if l.shared && l.abroad.generation != generation {
			ss.drop(l, lostGeneration)
		}
	})
}

// keepUse keeps in the log when each session was last used, if it was used since that was kept last. It gives up when one
// cannot be kept: the next time comes soon.
func (ss *sessions) keepUse(ctx context.Context) {
	failed := false
	ss.roster.each(func(l *live) {
		used, due := l.unkept(time.Now())
		if failed || !due || ctx.Err() != nil {
			return
		}
		err := ss.log.Keep(ctx, l.inLog(), factUsed, strconv.FormatInt(used.Unix(), 10))
		switch {
		case errors.Is(err, session.ErrUnknown):
			ss.drop(l, endClosed)
		case err != nil:
			failed = true
		default:
			l.keptUse(used)
		}
	})
}

// isCertain tells whether nothing that other replicas know can change what is known here: word cannot have been lost, and
// the session was used here not long ago.
func (l *live) isCertain(now time.Time, idle time.Duration, doubts uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.abroad.trusted == doubts && (l.isBusyLocked() || now.Sub(l.used) <= idle)
}

// trust notes that what others did with the session was looked up when word may have been lost that often.
func (l *live) trust(doubts uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.abroad.trusted = max(l.abroad.trusted, doubts)
}

// learn takes what the log keeps of the session.
func (l *live) learn(facts map[string]string) {
	if level, ok := mcp.LevelOf(facts[factLevel]); ok {
		l.wantLogs(level)
	}
}

// unkept returns when the session was last used, which is now if it is in use. due is false if the log knows that.
func (l *live) unkept(now time.Time) (used time.Time, due bool) {
	if !l.shared {
		return now, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	used = l.used
	if l.isBusyLocked() {
		used = now
	}
	return used, !l.over && used.After(l.abroad.kept)
}

func (l *live) keptUse(used time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.abroad.kept = used
}

func (l *live) isBusy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isBusyLocked()
}
