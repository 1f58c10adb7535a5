package sessions

import (
	"context"
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/server/streams"
)

const (
	// NoticeTime is how long it may take until a replica has taken notices.
	NoticeTime = 2 * time.Second
	// provenTime is how long a replica must live with a notice until it counts as told
	// for good.
	provenTime = 10 * time.Second
)

// Listeners returns the newest stream for notices at each other replica that holds some,
// if this one leads the session.
func (l *Session) Listeners() map[replica.ID]*Listener {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.streams.elsewhere) == 0 || !l.leader.Here || l.life.isOver() {
		return nil
	}
	newest := make(map[replica.ID]*Listener)
	for _, one := range l.streams.elsewhere {
		if one.Stream[0] == 'g' {
			newest[one.At] = one
		}
	}
	return newest
}

// Notice is a notice for a stream at another replica.
type Notice struct {
	Session  *Session
	Listener *Listener
	Method   string
	URI      string // of the resource that has changed; "": a list has
	Text     []byte
}

// SentBy notes that a notice is where its stream is held.
func (l *Session) SentBy(one Notice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, listener := time.Now(), one.Listener
	proven := func(r receipt) bool { return r.isProven(now) }
	listener.receipts = append(slices.DeleteFunc(listener.receipts, proven), receipt{
		at: now, method: one.Method, uri: one.URI, watch: l.notices.updates.Subscription(one.URI),
	})
}

// Settle notes that what a stream at a replica carried has got there.
func (l *Session) Settle(at replica.ID) {
	if to := l.Listeners()[at]; to != nil {
		l.Sent(to.Stream)
	}
}

// ExpectStream notes that a stream of the session is about to be opened here: its primary
// may have notices for it before that.
func (l *Session) ExpectStream(stream string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	put(&l.streams.opening, stream, make(chan struct{}))
}

// StreamOpened notes that a stream is open, or will not be.
func (l *Session) StreamOpened(stream string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if opening := l.streams.opening[stream]; opening != nil {
		close(opening)
		delete(l.streams.opening, stream)
	}
}

// Expects tells whether a stream is about to be opened here.
func (l *Session) Expects(stream string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.streams.opening[stream] != nil
}

// AwaitStream waits until a stream is open that is about to be opened. It is false if
// that takes longer.
func (l *Session) AwaitStream(ctx context.Context, stream string) bool {
	l.mu.Lock()
	opening := l.streams.opening[stream]
	l.mu.Unlock()
	return opening == nil || await(ctx, opening)
}

// Holds tells whether a connection here sends that stream.
func (l *Session) Holds(stream string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.holderLocked(stream) != nil
}

// LedBy notes which other replica leads the session.
func (l *Session) LedBy(at replica.ID, epoch uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.leader.Here && epoch >= l.leader.Epoch {
		l.leader.At, l.leader.Epoch, l.leader.confirmed = at, epoch, time.Now()
	}
}

// LoseStream ends the connection that sends a stream, if there is one, and waits until it
// sends nothing more.
func (l *Session) LoseStream(ctx context.Context, stream string) {
	l.mu.Lock()
	h := l.holderLocked(stream)
	l.mu.Unlock()
	if h != nil {
		h.lose()
		await(ctx, h.gone)
	}
}

// AwaitEnd waits until the connections here that send streams have sent what there is of
// a session that is over, and have ended.
func (l *Session) AwaitEnd(ctx context.Context) {
	l.mu.Lock()
	left := slices.Clone(l.streams.here)
	l.mu.Unlock()
	ctx, stop := context.WithTimeout(ctx, NoticeTime/2)
	defer stop()
	for _, h := range left {
		await(ctx, h.gone)
	}
}

// await waits for half as long as whoever sent notices does, at most. It is false if it
// is not done by then.
func await(ctx context.Context, done <-chan struct{}) bool {
	ctx, stop := context.WithTimeout(ctx, NoticeTime/2)
	defer stop()
	return pace.Await(ctx, done) == nil
}

// AddListener notes that a stream is held at another replica.
func (l *Session) AddListener(to *Listener) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.streams.elsewhere = append(l.streams.elsewhere, to)
}

// DropListener notes that a stream is not held at a replica any more.
func (l *Session) DropListener(stream string, at replica.ID) {
	l.changeUse(func() {
		l.dropListenersLocked(func(one *Listener) bool { return one.Stream == stream && one.At == at })
	})
	l.WakeStreams()
}

func (l *Session) dropListenersLocked(which func(*Listener) bool) {
	l.streams.elsewhere = slices.DeleteFunc(l.streams.elsewhere, which)
}

// StreamsAt returns the replicas that hold streams of the session, by stream.
func (l *Session) StreamsAt() map[string]replica.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := make(map[string]replica.ID)
	for _, one := range l.streams.elsewhere {
		at[one.Stream] = one.At
	}
	return at
}

// HasLasting tells whether streams of the session are here that last for as long as its
// client wants.
func (l *Session) HasLasting() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	lasts := func(h *Holder) bool { return h.flow.Lasts() }
	return slices.ContainsFunc(l.streams.here, lasts) && !l.life.isOver()
}

// EndStreams ends the streams for notices that are here. That of a call follows the log,
// whoever leads.
func (l *Session) EndStreams() {
	l.mu.Lock()
	lost := l.forNoticesLocked()
	l.mu.Unlock()
	for _, h := range lost {
		h.Untaken.Store(true)
		h.lose()
	}
}

// forNoticesLocked returns the connections here that send streams for notices.
func (l *Session) forNoticesLocked() []*Holder {
	return slices.DeleteFunc(slices.Clone(l.streams.here), func(h *Holder) bool { return h.Stream[0] != 'g' })
}

// lose has the connection here that sends the stream end: another one takes it.
func (h *Holder) lose() {
	h.Lost.Store(true)
	h.flow.Wake()
}

// holderLocked returns who holds a stream of the log here, nil if nobody does.
func (l *Session) holderLocked(stream string) *Holder {
	for _, h := range l.streams.here {
		if h.Stream == stream {
			return h
		}
	}
	return nil
}

// Hold gives a stream of the log to one connection. It takes the stream away from the
// connection that had it and waits until that one has sent its last event: otherwise both
// might send the same event. Release is called once, even after an error, which is that
// of ctx.
func (l *Session) Hold(ctx context.Context, stream string, f *streams.Flow) (mine *Holder, err error) {
	mine = &Holder{Stream: stream, flow: f, gone: make(chan struct{})}
	l.mu.Lock()
	before := l.holderLocked(stream)
	if before == nil {
		l.streams.here = append(l.streams.here, mine)
		l.mu.Unlock()
		return mine, nil
	}
	l.streams.here[slices.Index(l.streams.here, before)] = mine
	l.mu.Unlock()
	before.lose()
	return mine, pace.Await(ctx, before.gone)
}

// Release gives the stream back, unless another connection has taken it.
func (l *Session) Release(mine *Holder) {
	l.changeUse(func() {
		l.streams.here = slices.DeleteFunc(l.streams.here, func(h *Holder) bool { return h == mine })
	})
	close(mine.gone)
}

// HasStreams tells whether a stream of the session, which is shared, is open anywhere, as
// far as is known here.
func (l *Session) HasStreams() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Shared && l.streams.hasAny()
}

// DropGone forgets the streams at replicas that are gone. What was told there a moment
// ago may not have come to the client, so it is told again.
func (l *Session) DropGone(isThere func(replica.ID) bool) {
	dead := make(map[replica.ID]bool)
	for _, at := range l.StreamsAt() {
		if !isThere(at) {
			dead[at] = true
		}
	}
	if len(dead) == 0 {
		return
	}
	var all []receipt
	l.changeUse(func() {
		l.dropListenersLocked(func(one *Listener) bool {
			if dead[one.At] {
				all = append(all, one.receipts...)
			}
			return dead[one.At]
		})
	})
	now := time.Now()
	for _, r := range all {
		switch {
		case r.isProven(now):
		case r.uri == "":
			l.Unassign("", r.method, "")
		default:
			l.NoteUpdate(r.watch, r.uri)
		}
	}
	l.WakeStreams()
}
