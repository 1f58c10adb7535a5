package signin

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth/signin/clients"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/store"
)

const (
	endedKind    = "ended"      // of records
	recordedKind = "ended-told" // of those that say of an end that it is on record
	pollEvery    = 500 * time.Millisecond
	// how much clocks may differ, a minute as elsewhere, and how long a write may take
	pollBack  = 75 * time.Second
	endedLife = tokenLife + 2*time.Minute // longer than any access token of the family
)

// end ends a family, at every replica within a second. First the others are told of its
// access tokens, then the family itself is ended, so that no token is given out any more.
// In this order nothing is done as long as something is left to do: whoever gets an error
// does all of it again with the family read anew, and none has ended that replicas were
// not told of.
func (s *core) end(ctx context.Context, f *family, reason string) error {
	now := s.now()
	until := now.Add(endedLife)
	_, err := s.config.Store.Put(ctx, store.Record{
		Kind: endedKind, ID: endedID(now, f.ID), Tenant: f.Tenant, Expires: until, Value: []byte(reason),
	})
	if err != nil && !errors.Is(err, store.ErrConflict) {
		return fmt.Errorf("tell that the family has ended: %w", err)
	}
	if f.Stage != stageEnded {
		f.Stage, f.RefreshToken, f.Key, f.Spent, f.Asking = stageEnded, "", nil, nil, 0
		f.AccessToken, f.AccessUntil = "", 0
		f.Secret = clients.DigestOf(rand.Text()) // of this end, which is on record once: see putOwn
		if err := s.retry(ctx, func() error { return s.putOwn(ctx, f, until) }); err != nil {
			return err
		}
		s.tellEnd(ctx, f, reason)
	}
	if s.ended.add(map[string]time.Time{f.ID: until}, now) {
		s.config.Changed()
	}
	if f.Indexed != 0 {
		s.unindex(ctx, f)
	}
	return nil
}

// endedID returns the id of the record that tells of an end. The ids are in the order of
// time, so that a replica reads only what it has not read.
func endedID(at time.Time, family string) string {
	return fmt.Sprintf("%013d.%s", at.UnixMilli(), family)
}

// pollEnded learns what other replicas have ended. After an error what is known goes on
// to hold, and the next poll reads on from the same place.
func (s *core) pollEnded(ctx context.Context) error {
	now := s.now()
	after, first := "", s.ended.polled.IsZero()
	if !first {
		after = endedID(s.ended.polled.Add(-pollBack), "")
	}
	records, err := store.All(ctx, s.config.Store, store.Query{Kind: endedKind, After: after})
	if err != nil {
		return err
	}
	found := map[string]time.Time{}
	var untold []store.Record
	for _, r := range records {
		family := familyEnded(r)
		found[family] = r.Expires
		if string(r.Value) == signedOut && !first && !s.ended.has(family) {
			untold = append(untold, r)
		}
	}
	s.ended.polled = now
	if (first || len(found) > 0) && s.ended.add(found, now) {
		s.config.Changed()
	}
	together(untold, func(r store.Record) { s.tellSignOut(ctx, r) }) // what holds, holds before
	return nil
}

// familyEnded returns the id of the family whose end a record tells of.
func familyEnded(ended store.Record) string {
	_, family, _ := strings.Cut(ended.ID, ".")
	return family
}

// together calls do for each record, for many at a time: a store commits in one what
// comes at one time. One after the other, a few hundred took longer than the second in
// which an end holds everywhere.
func together(records []store.Record, do func(store.Record)) {
	pace.AtOnce(len(records), endsAtOnce, func(i int) { do(records[i]) })
}

const endsAtOnce = 16

// tellSignOut puts on record that the operator has ended a family: the command that does
// it has no audit and no metrics, and a replica that begins to read has read of it
// before. Of several replicas the first does it, also of an end that they were told of
// twice. One that cannot ask whether it is puts a line too many on record rather than
// none.
func (s *core) tellSignOut(ctx context.Context, ended store.Record) {
	f, err := s.family(ctx, familyEnded(ended))
	if err != nil { // its record has expired
		return
	}
	_, err = s.config.Store.Put(ctx, store.Record{
		Kind: recordedKind, ID: f.ID, Tenant: ended.Tenant, Expires: ended.Expires,
	})
	if !errors.Is(err, store.ErrConflict) {
		s.tellEnd(ctx, f, signedOut)
	}
}

// signedOut is the reason of an end by the operator.
const signedOut = "signed_out"

// endAll ends the families that records lead to, many at a time, and returns how many of
// them had not ended before. idOf returns the family of a record, and exempt tells
// whether it is one that goes on; nil: none does.
func (s *core) endAll(ctx context.Context, q store.Query, reason string, idOf func(store.Record) string,
	exempt func(*family) bool,
) (int, error) {
	records, err := store.All(ctx, s.config.Store, q)
	var mu sync.Mutex // guards the fields below
	count := 0
	faults := []error{err}
	together(records, func(r store.Record) {
		f, err := s.endSettled(ctx, idOf(r), reason, exempt)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil:
			faults = append(faults, err)
		case f != nil:
			count++
			s.log.LogAttrs(ctx, slog.LevelInfo, "signed out",
				append(f.attrs(), slog.String("reason", reason))...)
		}
	})
	return count, errors.Join(faults...)
}

// endSettled ends the family with that id though others change it meanwhile, and returns
// it unless it has ended before, or is exempt.
func (s *core) endSettled(ctx context.Context, id, reason string, exempt func(*family) bool) (
	*family, error,
) {
	return s.settled(ctx, func() (*family, error) {
		f, err := s.family(ctx, id)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return nil, nil
		case err != nil:
			return nil, err
		case f.Stage == stageEnded, exempt != nil && exempt(f):
			return nil, nil
		}
		return f, s.end(ctx, f, reason)
	})
}

// endSurplus ends families of the person of f beyond those that one person may have:
// those that would end first. Some programs register anew at each connect. It is no fault
// if it cannot.
func (s *core) endSurplus(ctx context.Context, f *family) {
	records, err := s.config.Store.List(ctx, store.Query{Kind: familyKind, Owner: owner(f.Issuer, f.Subject)})
	if err != nil || len(records) <= maxFamilies {
		return
	}
	slices.SortFunc(records, func(a, b store.Record) int { return a.Expires.Compare(b.Expires) })
	first, open := "", 0
	for _, r := range records {
		old, err := familyOf(r)
		if err != nil || old.Stage == stageEnded {
			continue
		}
		if open++; first == "" && old.ID != f.ID {
			first = old.ID
		}
	}
	if open > maxFamilies {
		_, _ = s.endSettled(ctx, first, "too_many", nil) // the next sign-in tries again
	}
}
