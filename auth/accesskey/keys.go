package accesskey

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/evict"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/store"
)

// Times of what a replica holds in memory. A key that was used in the last minute is
// taken while the store is away, for awayTime at most: a replica that is cut off must not
// serve for ever what was revoked elsewhere.
const (
	pollTime = 400 * time.Millisecond // between two looks at what was revoked
	freshTTL = time.Second            // after a look, memory is as good as the store
	readTime = time.Minute            // after which a key in use is read again
	seenTime = time.Minute            // see above
	awayTime = 15 * time.Minute
	tellTime = time.Hour       // how long it is told that a key was revoked
	askTime  = 2 * time.Second // of one question to the store
	useTime  = time.Minute     // between two notes of when keys were used

	// maxCached is how many keys are in memory. What a key that was forgotten has open is
	// taken for that of a revoked one at the next look at rights, so that it is more than
	// are ever in use at one replica. Each takes about half a KiB.
	maxCached  = 100_000
	sampleSize = 16 // of them that are looked at to find one to forget
	maxUnknown = 4  // questions about keys that are not in memory, at once
)

// Config is what Keys need. Every field is required.
type Config struct {
	Store   store.Store
	Taken   func() bool   // whether keys are taken at all; a reload may change it
	Issuer  func() string // of the principals: the public URL
	Log     *slog.Logger
	Revoked func() // called when a key that was used here has ended; returns soon
	Now     func() time.Time
}

// Keys takes keys in the place of tokens. It is safe for concurrent use.
type Keys struct {
	cfg     Config
	unknown *semaphore.Weighted // of maxUnknown

	mu     sync.Mutex // guards the fields below; never held while the store is asked
	byName map[string]*cached
	looked time.Time // when the last good look at what was revoked began
}

// cached is a key in memory.
type cached struct {
	key      Key
	read     time.Time // when the store said so
	seen     time.Time // when it was used last
	recorded time.Time // the use that the store has
}

// New returns Keys, for which Run looks after what was revoked.
func New(cfg Config) *Keys {
	return &Keys{cfg: cfg, unknown: semaphore.NewWeighted(maxUnknown), byName: map[string]*cached{}}
}

// ErrOff is why each key is refused while none are taken.
var ErrOff = errors.New("it is an access key, and the config does not turn access_keys on")

// Other refusals. Unknown, revoked and expired are one.
var (
	errForm    = errors.New("it has the prefix of an access key, and not its form or checksum")
	errUnknown = errors.New("no such access key, or it was revoked, or its time is over")
)

// Verify returns whom a key speaks for. Errors are *auth.Error. A text that is no key is
// refused before anything is asked.
func (k *Keys) Verify(ctx context.Context, text string) (auth.Principal, error) {
	switch {
	case !k.cfg.Taken():
		return auth.Principal{}, &auth.Error{Reason: "malformed", Err: ErrOff}
	case !IsKey(text):
		return auth.Principal{}, &auth.Error{Reason: "malformed", Err: errForm}
	}
	id := digest(text)
	now := k.cfg.Now()
	if h, ok := k.lookup(id, now, true); ok {
		return k.principal(h), nil
	}
	key, err := k.ask(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		k.drop(id)
		return auth.Principal{}, &auth.Error{Reason: "key", Err: errUnknown}
	case err != nil:
		if h, ok := k.lookup(id, now, false); ok {
			return k.principal(h), nil
		}
		return auth.Principal{}, &auth.Error{
			Reason: "unavailable", Err: fmt.Errorf("ask for an access key: %w", err),
		}
	}
	return k.principal(k.hold(id, key, now)), nil
}

// lookup returns a key in memory that may be taken without asking the store, or, if it
// was asked in vain, one that may be taken all the same.
func (k *Keys) lookup(id string, now time.Time, fresh bool) (cached, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.byName[id]
	if h == nil || !now.Before(h.key.Expires) {
		return cached{}, false
	}
	good := now.Sub(k.looked) < freshTTL && now.Sub(h.read) < readTime
	if !fresh {
		good = now.Sub(h.seen) < seenTime && now.Sub(h.read) < awayTime
	}
	if good {
		h.seen = now
	}
	return *h, good
}

// ask reads a key from the store. Guesses wait for each other, so that they keep nobody
// else from it.
func (k *Keys) ask(ctx context.Context, id string) (Key, error) {
	ctx, stop := context.WithTimeout(ctx, askTime)
	defer stop()
	k.mu.Lock()
	known := k.byName[id] != nil
	k.mu.Unlock()
	if !known {
		if err := k.unknown.Acquire(ctx, 1); err != nil {
			return Key{}, err
		}
		defer k.unknown.Release(1)
	}
	r, err := k.cfg.Store.Get(ctx, kindKey, id)
	if err != nil {
		return Key{}, err
	}
	// Revoke may not have come to the end. What it does after this is heard at the next
	// look.
	if _, err := k.cfg.Store.Get(ctx, kindRevoked, id); !errors.Is(err, store.ErrNotFound) {
		return Key{}, cmp.Or(err, store.ErrNotFound)
	}
	return keyOf(r)
}

// hold takes a key into memory. When that is full, another one goes that was not used for
// long: of some at random the one that was used longest ago, which costs the same however
// many there are. It is read again.
func (k *Keys) hold(id string, key Key, now time.Time) cached {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.byName[id]
	if h == nil {
		if len(k.byName) >= maxCached {
			evict.One(k.byName, sampleSize, func(_ string, h *cached) (worth float64, may bool) {
				return float64(h.seen.UnixNano()), true // less, the longer it was not used
			})
		}
		h = &cached{}
		k.byName[id] = h
	}
	h.key, h.read, h.seen = key, now, now
	return *h
}

// drop forgets a key, and tells whether it was in memory.
func (k *Keys) drop(id string) bool {
	k.mu.Lock()
	_, was := k.byName[id]
	delete(k.byName, id)
	k.mu.Unlock()
	if was {
		k.cfg.Revoked()
	}
	return was
}

// principal returns whom a key speaks for. Each key is a client of its own, so that what
// one has begun is not another's.
func (k *Keys) principal(h cached) auth.Principal {
	p := auth.Principal{
		Issuer: k.cfg.Issuer(), Subject: h.key.Subject, ClientID: "access-key-" +
			h.key.ID, TenantID: h.key.Tenant,
		Scopes: h.key.Scopes, Expiry: h.key.Expires,
	}
	return p.WithAccessKey(h.key.digest)
}

// Recheck returns nil if the key from which p was made would be taken now, as far as this
// replica has heard. It does not wait.
func (k *Keys) Recheck(p auth.Principal) error {
	now := k.cfg.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.byName[p.AccessKey()]
	switch {
	case !k.cfg.Taken():
		return &auth.Error{Reason: "key", Err: ErrOff}
	case h == nil || h.key.Tenant != p.TenantID || p.Issuer != k.cfg.Issuer():
		return &auth.Error{Reason: "key", Err: errUnknown}
	case !now.Before(h.key.Expires):
		return &auth.Error{Reason: "expired", Err: errUnknown}
	}
	return nil
}

// Run looks for keys that were revoked and notes when keys were used, until ctx ends. To
// note the uses of many keys takes long, and what was revoked is heard of meanwhile.
func (k *Keys) Run(ctx context.Context) error {
	k.run(ctx, pollTime, useTime)
	return nil
}

func (k *Keys) run(ctx context.Context, poll, use time.Duration) {
	var both sync.WaitGroup
	defer both.Wait()
	both.Go(func() {
		for pace.Wait(ctx, use) {
			k.noteUses(ctx)
		}
	})
	pace.Every(ctx, poll, k.dropRevoked) // a revocation holds within a second, over a slow store too
}

// dropRevoked drops the keys that were revoked lately, or all while none are taken. While
// the store is away it says nothing: whoever keeps the store does. It has no end of its
// own, since it reads many pages where many were revoked: a server must answer each in
// time. While it takes long, what is in memory is no longer fresh, and the store is asked
// for each key.
func (k *Keys) dropRevoked(ctx context.Context) {
	if !k.cfg.Taken() {
		k.mu.Lock()
		clear(k.byName)
		k.mu.Unlock()
		return
	}
	began := k.cfg.Now()
	revoked, err := store.All(ctx, k.cfg.Store, store.Query{Kind: kindRevoked})
	for _, r := range revoked {
		if k.drop(r.ID) {
			k.cfg.Log.InfoContext(ctx, "access key revoked",
				slog.String("key_id", r.ID[:min(idSize, len(r.ID))]))
		}
	}
	if err == nil {
		k.heard(began)
	}
}

// heard notes when the last good look at what was revoked began. Whoever has not looked
// for as long as that is told does not know what it has missed, and reads each key again.
// A machine that slept sees it by the time of day alone, so that this is compared.
func (k *Keys) heard(began time.Time) {
	k.mu.Lock()
	missed := !k.looked.IsZero() && began.Round(0).Sub(k.looked.Round(0)) >= tellTime
	k.looked = began
	if missed {
		clear(k.byName)
	}
	k.mu.Unlock()
	if missed {
		k.cfg.Revoked()
	}
}

// noteUses writes when keys were used that were used since the last note.
func (k *Keys) noteUses(ctx context.Context) {
	k.mu.Lock()
	var used []cached
	for _, h := range k.byName {
		if h.seen.Sub(h.recorded) >= useTime {
			h.recorded = h.seen
			used = append(used, *h)
		}
	}
	k.mu.Unlock()
	for _, h := range used {
		if ctx.Err() != nil {
			return
		}
		k.noteUse(ctx, h)
	}
}

// noteUse writes when a key was used. Of several replicas one wins, within a minute of
// the others.
func (k *Keys) noteUse(ctx context.Context, h cached) {
	ctx, stop := context.WithTimeout(ctx, askTime)
	defer stop()
	r, err := k.cfg.Store.Get(ctx, kindUse, h.key.digest)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return // it is noted at the next use
	}
	_, _ = k.cfg.Store.Put(ctx, store.Record{ // it is noted at the next use
		Kind: kindUse, ID: h.key.digest, Tenant: h.key.Tenant, Expires: h.key.Expires,
		Value: strconv.AppendInt(nil, h.seen.Unix(), 10), Version: r.Version,
	})
}
