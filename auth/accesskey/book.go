package accesskey

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/store"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// Kinds of records. That a key was revoked is told to replicas which hold it in memory
// for as long as any of them may.
const (
	kindKey     = "access-key"
	kindUse     = "access-key-use"
	kindRevoked = "access-key-revoked"
)

// MaxLife is the longest life of a key.
const MaxLife = 366 * 24 * time.Hour

// Errors of a Book.
var (
	ErrNotFound  = errors.New("there is no such key")
	ErrAmbiguous = errors.New("several keys begin so; write more of the id")
)

// Key is what is known of an access key. The key itself is known to its owner alone.
type Key struct {
	ID      string // what people call it
	Tenant  string
	Subject string
	Scopes  []string
	Created time.Time
	Expires time.Time
	Used    time.Time // to the minute; zero: never

	digest string
}

// stored is what a record of a key says beside its names and its expiry.
type stored struct {
	Scopes  []string `json:"scopes"`
	Created int64    `json:"created"` // seconds since 1970
}

// Book is where keys are kept, for whoever looks after them.
type Book struct{ Store store.Store }

// Create makes a key and returns it. Nobody can find it out again.
func (b Book) Create(ctx context.Context, k Key, life time.Duration) (string, Key, error) {
	if life <= 0 || life > MaxLife {
		return "", Key{}, fmt.Errorf("a key lives at most %d days", int(MaxLife.Hours()/24))
	}
	key := newKey()
	k.digest, k.Created = digest(key), time.Now()
	k.ID, k.Expires = k.digest[:idSize], k.Created.Add(life)
	value, err := json.Marshal(stored{k.Scopes, k.Created.Unix()})
	if err != nil {
		return "", Key{}, err
	}
	_, err = b.Store.Put(ctx, store.Record{
		Kind: kindKey, ID: k.digest, Tenant: k.Tenant, Owner: k.Subject, Expires: k.Expires, Value: value,
	})
	return key, k, err
}

// List returns the keys of a tenant; "": of all.
func (b Book) List(ctx context.Context, tenant string) ([]Key, error) {
	uses, err := store.All(ctx, b.Store, store.Query{Kind: kindUse, Tenant: tenant})
	if err != nil {
		return nil, err
	}
	records, err := store.All(ctx, b.Store, store.Query{Kind: kindKey, Tenant: tenant})
	if err != nil {
		return nil, err
	}
	var faults []error
	used := map[string]time.Time{}
	for _, r := range uses {
		var at int64
		faults = append(faults, strictjson.Unmarshal(r.Value, &at))
		used[r.ID] = time.Unix(at, 0)
	}
	keys := make([]Key, len(records))
	for i, r := range records {
		var err error
		keys[i], err = keyOf(r)
		keys[i].Used = used[r.ID]
		faults = append(faults, err)
	}
	return keys, errors.Join(faults...)
}

// Named returns a key that speaks for a subject, of whatever tenant. The error is
// ErrNotFound if there is none.
func (b Book) Named(ctx context.Context, subject string) (Key, error) {
	records, err := b.Store.List(ctx, store.Query{Kind: kindKey, Owner: subject, Limit: 1})
	switch {
	case err != nil:
		return Key{}, err
	case len(records) == 0:
		return Key{}, ErrNotFound
	}
	return keyOf(records[0])
}

// Revoke ends the key whose id begins so. Every replica refuses it within a second. That
// it was revoked is written first: were the key removed first and the rest failed, a
// replica would go on with what it holds in memory.
func (b Book) Revoke(ctx context.Context, id string) (Key, error) {
	if IsKey(id) {
		id = digest(id)
	}
	// ids are listed in their order, so the keys that begin so are the first of these
	records, err := b.Store.List(ctx, store.Query{Kind: kindKey, After: id[:min(idSize, len(id))]})
	if err != nil {
		return Key{}, err
	}
	isOther := func(r store.Record) bool { return id == "" || !strings.HasPrefix(r.ID, id) }
	found := slices.DeleteFunc(records, isOther)
	switch {
	case len(found) == 0:
		return Key{}, ErrNotFound
	case len(found) > 1:
		return Key{}, ErrAmbiguous
	}
	k, err := keyOf(found[0])
	if err != nil {
		return Key{}, err
	}
	_, err = b.Store.Put(ctx, store.Record{
		Kind: kindRevoked, ID: k.digest, Tenant: k.Tenant, Expires: time.Now().Add(tellTime),
	})
	if err != nil && !errors.Is(err, store.ErrConflict) { // it was told already
		return Key{}, err
	}
	return k, errors.Join(b.Store.Delete(ctx, kindKey, k.digest), b.Store.Delete(ctx, kindUse, k.digest))
}

// keyOf returns the key of a record.
func keyOf(r store.Record) (Key, error) {
	var s stored
	if err := strictjson.Unmarshal(r.Value, &s); err != nil {
		return Key{}, fmt.Errorf("read an access key: %w", err)
	}
	return Key{
		ID: r.ID[:min(idSize, len(r.ID))], Tenant: r.Tenant, Subject: r.Owner, Scopes: s.Scopes,
		Created: time.Unix(s.Created, 0), Expires: r.Expires, digest: r.ID,
	}, nil
}
