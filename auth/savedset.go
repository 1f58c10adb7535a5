package auth

import (
	"context"
	"encoding/binary"
	"log/slog"
	"time"
)

// timeSize is how many bytes of a saved text say when the set was fetched: the seconds
// since 1970, before the text of the set.
const timeSize = 8

// unsaved is a set that was fetched and is to be saved.
type unsaved struct {
	text  []byte // as it is saved
	tries int    // that have failed
}

// newUnsaved returns the text of a set that was asked for at that time, to be saved.
func newUnsaved(text []byte, fetched time.Time) *unsaved {
	saved := binary.BigEndian.AppendUint64(nil, uint64(fetched.Unix())) //nolint:gosec // after 1970
	return &unsaved{text: append(saved, text...)}
}

// save saves the set that waits for that. If it cannot be saved, as before Redis was
// reached at the start, run tries again soon; it serves this process meanwhile.
func (r *remote) save(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	err := r.store.Save(ctx, r.place, r.unsaved.text, r.stale)
	if err == nil {
		r.unsaved = nil
		return
	}
	if r.unsaved.tries++; r.unsaved.tries == 2 && ctx.Err() == nil {
		r.logger.WarnContext(ctx, "key set not saved for later starts", "issuer", r.issuer, "error", err)
	}
}

// restore returns the set that was saved last, by whatever process, and when it was
// fetched. It is nil if there is none that still serves.
func (r *remote) restore(ctx context.Context) (*keySet, time.Time) {
	if r.store == nil {
		return nil, time.Time{}
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	saved, err := r.store.Load(ctx, r.place)
	if err != nil || len(saved) < timeSize {
		if err != nil {
			r.logger.DebugContext(ctx, "saved key set not read", "issuer", r.issuer, "error", err)
		}
		return nil, time.Time{}
	}
	fetched, now := time.Unix(int64(binary.BigEndian.Uint64(saved)), 0), r.now() //nolint:gosec // save wrote it
	if fetched.After(now) {
		fetched = now // the clock of another replica is ahead
	}
	if !now.Before(fetched.Add(r.stale)) {
		return nil, time.Time{}
	}
	set, err := parseSet(saved[timeSize:], false)
	if err != nil {
		r.logger.WarnContext(ctx, "saved key set cannot be used", "issuer", r.issuer, "error", err)
		return nil, time.Time{}
	}
	r.logger.InfoContext(ctx, "saved key set is used", slog.String("issuer", r.issuer),
		slog.Time("fetched", fetched))
	return set, fetched
}
