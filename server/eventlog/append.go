package eventlog

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
)

// maxTries is how often an event is tried to be appended before others who append at the
// same time.
const maxTries = 100

// Append implements Log.
func (l *Redis) Append(ctx context.Context, session Key, stream string, data []byte,
	last bool,
) (string, error) {
	return l.append(ctx, &writing{log: l, streamKey: streamKey{session, stream}, data: data, last: last})
}

// Notify implements Log.
func (l *Redis) Notify(ctx context.Context, session Key, stream string, epoch uint64,
	data []byte,
) (string, error) {
	return l.append(ctx, &writing{log: l, streamKey: streamKey{session, stream}, data: data, epoch: epoch})
}

func (l *Redis) append(ctx context.Context, w *writing) (string, error) {
	if w.session.Here {
		return l.local.Append(ctx, w.session, w.stream, w.data, w.last)
	}
	for range maxTries {
		sequence, again, err := w.try(ctx)
		switch {
		case err != nil:
			return "", err
		case !again:
			return eventID(w.stream, sequence), nil
		}
	}
	return "", fmt.Errorf("%w: too many append to one stream", redis.ErrDown)
}

// writing is one event that is being appended:
//
//	room is taken in memory ──▶ the event is in the server ──▶ it is in memory, and readers are woken
type writing struct {
	log *Redis
	streamKey
	data  []byte
	last  bool
	epoch uint64 // of who leads the session, if it is a notice; zero: anybody may append it
}

// try appends the event. again tells that another replica has appended before it, which
// is to be taken into account.
func (w *writing) try(ctx context.Context) (sequence uint64, again bool, err error) {
	l := w.log
	turn, err := w.turn(ctx)
	if err != nil {
		return 0, false, err
	}
	defer func() { <-turn }()
	l.local.mu.Lock()
	s, err := l.findLocked(w.streamKey)
	if err == nil && s == nil {
		l.local.mu.Unlock()
		return 0, true, nil // it was swept just now
	}
	if err == nil {
		s, err = l.local.readyLocked(w.session, w.stream, len(w.data))
	}
	if err != nil {
		l.local.mu.Unlock()
		return 0, false, err
	}
	if s.shared == nil { // it was swept just now, and was made anew
		l.giveBackLocked(s, w)
		l.local.forgetLocked(s)
		l.local.mu.Unlock()
		return 0, true, nil
	}
	if err := l.takeServerQuotaLocked(s, w); err != nil {
		l.giveBackLocked(s, w)
		l.local.mu.Unlock()
		return 0, false, err
	}
	sequence, lost := s.shared.top+1, s.shared.lost
	if lost {
		sequence = max(s.floor, s.shared.top) + 1
		if s.events.newest != nil {
			sequence = s.events.newest.sequence + 1
		}
		l.local.addLocked(s, sequence, w.data, w.last)
		l.local.mu.Unlock()
		return sequence, false, nil
	}
	l.local.mu.Unlock()
	said, readers, err := w.write(ctx, sequence)
	again, err = w.written(s, sequence, said, err)
	if err == nil && !again {
		l.notifyReaders(w.streamKey, readers)
	}
	return sequence, again, err
}

// turn waits until nobody else in this replica appends to the stream. A stream that is
// not here is looked up first.
func (w *writing) turn(ctx context.Context) (chan struct{}, error) {
	l := w.log
	l.local.mu.Lock()
	s, err := l.findLocked(w.streamKey)
	stale := s == nil || s.shared.stale
	l.local.mu.Unlock()
	if err == nil && stale {
		s, err = w.find(ctx, s == nil)
	}
	if err != nil {
		return nil, err
	}
	return s.shared.turn, s.shared.take(ctx)
}

// take waits until nobody else in this replica appends to the stream. Then the token in
// turn is to be taken out.
func (s *sharedStream) take(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// find learns from the server what the newest event of a stream is. A stream that is
// not there begins, if that is asked.
func (w *writing) find(ctx context.Context, begin bool) (*memoryStream, error) {
	l, base := w.log, w.log.now()
	var head []byte
	if begin {
		head = l.config.Seal.SealBytes(w.headPurpose(base), nil)
	}
	said, rest, err := l.run(ctx, topScript, w.streamKey, headID(base), string(head), l.life(), "")
	if err != nil {
		return nil, err
	}
	return l.found(ctx, w.streamKey, base, said, rest)
}

// found takes what topScript has said of a stream, to which others may append. base is
// where it has begun if it was not there before.
func (l *Redis) found(ctx context.Context, p streamKey, base uint64, said string,
	rest []redis.Reply,
) (*memoryStream, error) {
	top, last, ok := topOf(said, rest)
	switch {
	case said == saidGone: // others may have read it, so it does not begin again
		return nil, ErrUnknown
	case !ok:
		return nil, l.refuse(ctx, p)
	case last:
		return nil, ErrUnknown
	}
	if said != saidBegun { // where it begins is not known
		base = 0
	}
	l.local.mu.Lock()
	defer l.local.mu.Unlock()
	s, err := l.openLocked(p, base)
	if err != nil {
		return nil, err
	}
	s.shared.own, s.shared.stale, s.shared.top = false, false, max(s.shared.top, top)
	if said == saidBegun {
		_ = l.takeQuotaLocked(s, streamQuota) // where there is none, no event follows
	}
	return s, nil
}

// topOf returns the sequence of the newest event of a stream that the server has told.
func topOf(said string, rest []redis.Reply) (top uint64, last, ok bool) {
	if said != saidOK && said != saidBegun || len(rest) != 1 {
		return 0, false, false
	}
	id, err := rest[0].Text()
	if err != nil {
		return 0, false, false
	}
	return parseEntryID(id)
}

// write writes the event to the server. Whoever appends may leave meanwhile: what was
// begun is finished, so that it is known whether the event is there.
func (w *writing) write(ctx context.Context, sequence uint64) (said string, readers []redis.Reply,
	err error,
) {
	entry := entryID(sequence, w.last)
	sealed := w.log.config.Seal.SealBytes(w.eventPurpose(entry), w.data)
	args := []string{
		entry, string(sealed), w.log.life(), entryID(sequence, false), strconv.FormatUint(w.epoch, 10),
	}
	ctx = context.WithoutCancel(ctx)
	one := &appending{streamKey: w.streamKey, args: args}
	if w.epoch == 0 {
		w.log.appendAll(ctx, []*appending{one})
	} else {
		w.log.notify(one)
	}
	return one.said, one.readers, one.err
}

// written adds the event to what is in memory if the server has it.
func (w *writing) written(s *memoryStream, sequence uint64, said string, err error) (again bool, _ error) {
	l := w.log
	l.local.mu.Lock()
	defer l.local.mu.Unlock()
	if owner := l.local.sessions[w.session.Name]; owner == nil || owner.ended ||
		owner.streams.find(w.stream) != s {
		l.giveBackLocked(s, w)
		l.giveQuotaLocked(s, quotaOf(w.data))
		if err == nil && said != saidOK { // others may have read it otherwise
			err = ErrUnknown
		}
		return false, err
	}
	shared := s.shared
	switch {
	case err == nil && said == saidOK:
		shared.top = sequence
		l.local.addLocked(s, sequence, w.data, w.last)
		return false, nil
	case shared.own && (errors.Is(err, redis.ErrDown) || err == nil && said == saidGone):
		l.loseLocked(w.streamKey, s)
		l.local.addLocked(s, sequence, w.data, w.last)
		return false, nil
	}
	l.giveBackLocked(s, w)
	l.giveQuotaLocked(s, quotaOf(w.data))
	switch {
	case err != nil:
		return false, err
	case said == saidGone: // others may have read it, so it does not begin again
		return false, ErrUnknown
	case said == saidTaken:
		shared.own, shared.stale = false, true
		return true, nil
	}
	return false, ErrUnknown
}

// takeServerQuotaLocked takes room in the server for the event, if it is to be written
// there. A stream that only this replica appends to goes on in memory where there is
// none. What ends a stream is written in any case: it is small, unless it is an answer on
// such a stream.
func (l *Redis) takeServerQuotaLocked(s *memoryStream, w *writing) error {
	if s.shared.lost {
		return nil
	}
	err := l.takeQuotaLocked(s, quotaOf(w.data))
	switch {
	case err == nil || w.last && !s.shared.own:
		return nil
	case s.shared.own:
		l.loseLocked(w.streamKey, s)
		return nil
	}
	return errQuota(err)
}

// giveBackLocked gives back the room that was taken for the event.
func (l *Redis) giveBackLocked(s *memoryStream, w *writing) {
	l.local.giveLocked(s.session.owner, int64(eventCost+len(w.data)))
}

// notifyReaders tells the other replicas that read a stream that there is something new.
func (l *Redis) notifyReaders(p streamKey, readers []redis.Reply) {
	for _, r := range readers {
		id, err := r.Text()
		if err == nil && replica.ID(id) != l.config.Others.Self() && len(id) == len(l.config.Others.Self()) {
			l.waking.Add(replica.ID(id), p)
		}
	}
}
