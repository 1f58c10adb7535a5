package eventlog

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/drawbridge-mcp/drawbridge/internal/pace"
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
	return l.append(ctx, &writing{streamKey: streamKey{session, stream}, data: data, last: last})
}

// Notify implements Log.
func (l *Redis) Notify(ctx context.Context, session Key, stream string, epoch uint64,
	data []byte,
) (string, error) {
	return l.append(ctx, &writing{streamKey: streamKey{session, stream}, data: data, epoch: epoch})
}

func (l *Redis) append(ctx context.Context, w *writing) (string, error) {
	if w.session.Here {
		return l.Memory.Append(ctx, w.session, w.stream, w.data, w.last)
	}
	for range maxTries {
		sequence, again, err := l.try(ctx, w)
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
	streamKey
	data  []byte
	last  bool
	epoch uint64 // of who leads the session, if it is a notice; zero: anybody may append it

	// Of the trip to the server.
	args    []string
	done    chan struct{} // of a notice: closed when the server has answered
	said    string        // what it has answered, as run returns it
	readers []redis.Reply
	err     error
}

// try appends the event. again tells that another replica has appended before it, which
// is to be taken into account.
func (l *Redis) try(ctx context.Context, w *writing) (sequence uint64, again bool, err error) {
	l.mu.Lock()
	s := l.findLocked(w.session, w.stream)
	if s == nil {
		s, _, err = l.joinLocked(ctx, w.streamKey)
	}
	l.mu.Unlock()
	if err != nil {
		return 0, false, err
	}
	if err := pace.Await(ctx, s.shared.turn); err != nil {
		return 0, false, err
	}
	defer func() { s.shared.turn <- struct{}{} }()
	l.mu.Lock()
	if l.findLocked(w.session, w.stream) != s { // it was forgotten meanwhile
		l.mu.Unlock()
		return 0, true, nil
	}
	l.touchLocked(s, l.config.Now()) // or it could be swept
	if _, err = l.readyLocked(w.session, w.stream, len(w.data)); err == nil {
		if err = l.takeServerQuotaLocked(s, w); err != nil {
			l.giveBackLocked(s, w)
		}
	}
	if err != nil {
		l.mu.Unlock()
		return 0, false, err
	}
	sequence, lost := s.shared.top+1, s.shared.lost
	if lost {
		sequence = max(s.floor, s.shared.top) + 1
		if n := len(s.events); n > 0 {
			sequence = s.events[n-1].sequence + 1
		}
		l.addLocked(s, sequence, w.data, w.last)
		l.mu.Unlock()
		return sequence, false, nil
	}
	l.mu.Unlock()
	l.write(ctx, w, sequence)
	again, err = l.written(w, s, sequence)
	if err == nil && !again {
		l.notifyReaders(w.streamKey, w.readers)
	}
	return sequence, again, err
}

// topOf returns the sequence of the newest event of a stream that the server has told.
func topOf(said string, rest []redis.Reply) (top uint64, last, ok bool) {
	if said != saidOK && said != saidBegun || len(rest) != 1 {
		return 0, false, false
	}
	id, _ := rest[0].Text() // "" for anything else, which is no id
	return parseEntryID(id)
}

// write writes the event to the server. Whoever appends may leave meanwhile: what was
// begun is finished, so that it is known whether the event is there.
func (l *Redis) write(ctx context.Context, w *writing, sequence uint64) {
	entry := entryID(sequence, w.last)
	sealed := l.config.Seal.SealBytes(w.eventPurpose(entry), w.data)
	w.args = []string{
		entry, string(sealed), l.life(), entryID(sequence, false), strconv.FormatUint(w.epoch, 10),
		// Where replicas append in turn, none holds so many events that it drops any.
		strconv.Itoa(l.config.Count + 1), // and the head
	}
	if w.epoch == 0 {
		l.appendAll(context.WithoutCancel(ctx), []*writing{w})
	} else {
		w.done = make(chan struct{})
		l.noticing.Add(w.session.Owner.TenantID, w)
		<-w.done
	}
}

// written adds the event to what is in memory if the server has it.
func (l *Redis) written(w *writing, s *memoryStream, sequence uint64) (again bool, _ error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// it may have been forgotten meanwhile
	here, shared := l.findLocked(w.session, w.stream) == s, s.shared
	switch {
	case here && w.err == nil && w.said == saidOK:
		shared.top = sequence
		l.addLocked(s, sequence, w.data, w.last)
		return false, nil
	case here && shared.own && (errors.Is(w.err, redis.ErrDown) || w.err == nil && w.said == saidGone):
		l.loseLocked(w.streamKey, s)
		l.addLocked(s, sequence, w.data, w.last)
		return false, nil
	}
	l.giveBackLocked(s, w)
	l.giveQuotaLocked(s, quotaOf(w.data))
	switch {
	case w.err != nil:
		return false, w.err
	case w.said == saidOK:
		s.session.rouse()
		return false, nil
	case w.said == saidTaken:
		if here {
			l.releaseLocked(s)
		}
		return true, nil
	}
	return false, ErrUnknown // others may have read it, so it does not begin again
}

// takeServerQuotaLocked takes room in the server for the event, if it is to be written
// there. A stream that only this replica appends to goes on in memory where there is
// none. What ends a stream is written in any case: it is small, unless it is an answer on
// such a stream.
func (l *Redis) takeServerQuotaLocked(s *memoryStream, w *writing) error {
	if s.shared.lost {
		return nil
	}
	size := quotaOf(w.data)
	err := l.config.Quota.Take(s.session.owner, size)
	switch {
	case err == nil:
		s.shared.quota += size
	case s.shared.own:
		l.loseLocked(w.streamKey, s)
	case !w.last:
		return errQuota(err)
	}
	return nil
}

// giveBackLocked gives back the room that was taken for the event.
func (l *Redis) giveBackLocked(s *memoryStream, w *writing) {
	l.giveLocked(s.session.owner, int64(eventCost+len(w.data)))
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
