package eventlog

import (
	"cmp"
	"context"
	"strconv"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
)

// Read implements Log.
func (l *Redis) Read(ctx context.Context, session Key, stream, after string) (events []Event, more bool,
	err error,
) {
	if session.Here {
		return l.Memory.Read(ctx, session, stream, after)
	}
	sequence, ok := afterIn(stream, after)
	if !ok {
		return nil, false, ErrUnknown
	}
	r := &reading{log: l, streamKey: streamKey{session, stream}, follows: true}
	err = r.look(ctx, sequence)
	return r.events, err == nil && !r.last, err
}

// Find implements Log.
func (l *Redis) Find(ctx context.Context, session Key, event string) (string, error) {
	if session.Here {
		return l.Memory.Find(ctx, session, event)
	}
	name, sequence, ok := parseID(event)
	if !ok {
		return "", ErrUnknown
	}
	r := &reading{log: l, streamKey: streamKey{session, name}, few: true}
	return name, r.look(ctx, sequence)
}

// reading is one look for the events of a stream.
type reading struct {
	log *Redis
	streamKey
	follows bool // the replica is to be told when there is more
	few     bool // it is enough to know that the events are there
	events  []Event
	last    bool
}

// look looks for the events after a sequence, in memory and then in the server.
func (r *reading) look(ctx context.Context, sequence uint64) error {
	here, err := r.here(sequence)
	if err != nil || here {
		return err
	}
	return r.elsewhere(ctx, sequence)
}

// here looks in memory for the events after a sequence. It is false if they must be
// looked for in the server.
func (r *reading) here(sequence uint64) (bool, error) {
	m := r.log.Memory
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.findLocked(r.session, r.stream)
	if s == nil {
		return false, m.endedLocked(r.session)
	}
	sequence = cmp.Or(sequence, s.shared.base)
	switch {
	case sequence < s.shared.joined:
		return false, nil
	case sequence < s.floor: // the server may not know yet that it was dropped
		return false, ErrUnknown
	case r.few && s.shared.lost: // the client may have got events without an id, and would get them again
		return false, ErrUnknown
	case s.shared.own && s.has(sequence):
	case s.shared.lost:
		return false, ErrUnknown
	default:
		return false, nil
	}
	if !r.few {
		m.touchLocked(s, m.config.Now())
		r.events = s.after(sequence)
	}
	r.last = s.last // as of now: what comes later is not among the events
	return true, nil
}

// elsewhere looks in the server for the events after a sequence; zero stands for the
// beginning.
func (r *reading) elsewhere(ctx context.Context, sequence uint64) error {
	for {
		full, err := r.page(ctx, sequence)
		if err != nil {
			r.events = nil
			return err
		}
		if !full || r.few || r.last || len(r.events) == 0 {
			return nil
		}
		_, sequence, _ = parseID(r.events[len(r.events)-1].ID)
	}
}

// pageBytes bounds what one read brings: on the same connection other answers wait behind
// it.
const pageBytes = 64 << 10

// maxEvent is how large an event is believed to be, whatever the server says.
const maxEvent = 1 << 30

// page reads as many events as a stream may have, or as fit into a page. full tells that
// there may be others.
func (r *reading) page(ctx context.Context, sequence uint64) (full bool, err error) {
	l := r.log
	from, count, reader := entryID(sequence+1, false), l.config.Count+1, ""
	if sequence == 0 {
		from = "-"
	}
	if r.few {
		count = 1
	}
	if r.follows {
		reader = string(l.config.Others.Self())
	}
	reply, err := readScript.RunSized(ctx, l.config.Store, pageBytes, maxEvent, r.keys(),
		[]string{from, strconv.Itoa(count), l.life(), reader})
	said, rest, err := l.heardOf(ctx, r.streamKey, reply, err)
	switch {
	case err != nil:
		return false, err
	case said == saidGone:
		return false, ErrUnknown
	case said != saidOK || len(rest) == 0:
		return false, l.refuse(ctx, r.streamKey)
	}
	entries, err := rest[0].Entries()
	if err != nil {
		return false, l.refuse(ctx, r.streamKey)
	}
	if sequence == 0 {
		if sequence, err = r.head(ctx, entries); err != nil {
			return false, err
		}
		l.noteBase(r.streamKey, sequence)
		entries = entries[1:]
	} else if len(entries) == 0 {
		top, last, ok := topOf(said, rest[1:])
		if !ok || top != sequence {
			return false, ErrUnknown
		}
		r.last = last
		return false, nil
	}
	return len(rest) > 1 || len(entries) >= count-1, r.take(ctx, sequence, entries)
}

// noteBase notes where a stream begins that came here from another replica.
func (l *Redis) noteBase(p streamKey, base uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.findLocked(p.session, p.stream); s != nil {
		s.shared.base = base
	}
}

// opens opens what an entry holds.
func (r *reading) opens(e redis.Entry, purpose string) ([]byte, error) {
	return r.log.config.Seal.OpenBytes(purpose, []byte(e.FieldValues["d"]))
}

// head returns the base of a stream, of which the first entries are given. The error is
// ErrUnknown if its first events are not there any more.
func (r *reading) head(ctx context.Context, entries []redis.Entry) (uint64, error) {
	if len(entries) == 0 {
		return 0, ErrUnknown
	}
	base, last, ok := parseEntryID(entries[0].ID)
	if !ok || last {
		return 0, ErrUnknown
	}
	if _, err := r.opens(entries[0], r.headPurpose(base)); err != nil {
		if _, err := r.opens(entries[0], r.eventPurpose(entries[0].ID)); err != nil {
			return 0, r.log.refuse(ctx, r.streamKey)
		}
		return 0, ErrUnknown // the first events were dropped
	}
	return base, nil
}

// take opens entries that follow a sequence. The error is ErrUnknown if one between them
// is missing.
func (r *reading) take(ctx context.Context, sequence uint64, entries []redis.Entry) error {
	for _, e := range entries {
		n, last, ok := parseEntryID(e.ID)
		if ok && last && n == sequence { // it was read before
			r.last = true
			return nil
		}
		if !ok || n != sequence+1 {
			return ErrUnknown
		}
		data, err := r.opens(e, r.eventPurpose(e.ID))
		if err != nil {
			if _, err := r.opens(e, r.headPurpose(n)); err == nil {
				return ErrUnknown // somebody asks for what was before the beginning
			}
			return r.log.refuse(ctx, r.streamKey)
		}
		if sequence = n; !r.few {
			r.events = append(r.events, Event{ID: eventID(r.stream, n), Data: data, Last: last})
		}
		r.last = last
	}
	return nil
}
