package clients

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/store"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

const (
	prefix  = "dbc_" // of ids of clients that have registered themselves
	purpose = "client that registered itself"
	kind    = "client" // of records

	// for how long a registration holds that nobody has consented to, as that of a person
	// who has to ask for access first: programs keep their id, and do not register again.
	// It is in the id alone, so that a flood of them takes up nothing
	unusedLife = 7 * 24 * time.Hour
	usedLife   = 180 * 24 * time.Hour // of a registration since its last use
	touchAfter = 24 * time.Hour       // how old the last use on record must be to be written again
	maxOwned   = 100                  // registrations that were kept first for one person
)

// Registration says which clients may come that the operator has not configured.
type Registration string

// What may be said of registration.
const (
	RegistrationOn  Registration = "on"
	RegistrationOff Registration = "off"
	// RegistrationDynamic lets clients register themselves. Their documents are not read,
	// because this gateway does not reach the web: clients that hear of it register
	// themselves instead.
	RegistrationDynamic Registration = "dynamic"
)

// Config is what a Registry needs. Every field is required.
type Config struct {
	Ring      *seal.Ring
	Store     store.Store
	Documents *http.Client // of internal/dial, for public addresses only
	Fixed     func() []Fixed
	Open      func() Registration
	Now       func() time.Time
}

// Registry knows clients. It is safe for concurrent use.
type Registry struct {
	config    Config
	documents *documents
}

// NewRegistry returns a registry.
func NewRegistry(cfg Config) *Registry {
	return &Registry{cfg, newDocuments(cfg.Documents, cfg.Now)}
}

// Register makes a client of what a program says of itself. Nothing is kept: the client
// is sealed into its id. Code tells the word for the error.
func (r *Registry) Register(body []byte) (Client, error) {
	s, err := read(body)
	if err != nil {
		return Client{}, err
	}
	c := Client{Kind: Registered, Name: s.name, Redirects: s.redirects, Issued: r.config.Now().Unix()}
	text, err := strictjson.Marshal(c)
	if err != nil {
		return Client{}, fmt.Errorf("write the registration: %w", err)
	}
	sealed, err := r.config.Ring.SealLong(purpose, text)
	if err != nil {
		return Client{}, fmt.Errorf("seal the registration: %w", err)
	}
	c.ID = prefix + sealed
	c.Digest = DigestOf(c.ID)
	return c, nil
}

// FixedBy returns the configured client with that id, nil if there is none.
func (r *Registry) FixedBy(id string) *Fixed {
	all := r.config.Fixed()
	i := slices.IndexFunc(all, func(f Fixed) bool { return f.ID == id })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// Find returns the client with that id. The error is ErrUnknown if there is none; any
// other is passing.
func (r *Registry) Find(ctx context.Context, id string) (Client, error) {
	if fixed := r.FixedBy(id); fixed != nil {
		return fixed.client(), nil
	}
	sealed, registered := strings.CutPrefix(id, prefix)
	switch open := r.config.Open(); {
	case registered && (open == RegistrationOn || open == RegistrationDynamic):
		return r.registered(ctx, id, sealed)
	case open == RegistrationOn:
		return r.documents.find(ctx, id)
	}
	return Client{}, ErrUnknown
}

// registered returns a client that has registered itself: lately, or before and then
// somebody has consented.
func (r *Registry) registered(ctx context.Context, id, sealed string) (Client, error) {
	var c Client
	text, err := r.config.Ring.OpenLong(purpose, sealed)
	if err == nil {
		err = strictjson.Unmarshal(text, &c)
	}
	if err == nil && r.config.Now().Sub(time.Unix(c.Issued, 0)) < unusedLife {
		c.ID, c.Digest = id, DigestOf(id)
		return c, nil
	}
	record, err := r.config.Store.Get(ctx, kind, DigestOf(id))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return Client{}, ErrUnknown
	case err != nil:
		return Client{}, fmt.Errorf("read the client: %w", err)
	}
	if err := strictjson.Unmarshal(record.Value, &c); err != nil {
		return Client{}, fmt.Errorf("read the client: %w", err)
	}
	c.ID = id
	return c, nil
}

// Known tells whether somebody may have that id, without looking at what is on the web.
func (r *Registry) Known(ctx context.Context, id string) (bool, error) {
	if r.config.Open() == RegistrationOn && isDocument(id) {
		return true, nil
	}
	_, err := r.Find(ctx, id)
	if errors.Is(err, ErrUnknown) {
		return false, nil
	}
	return err == nil, err
}

// Keep notes that somebody of the tenant has consented to the client: from then on its
// registration outlives the first week. Of clients that did not register themselves it
// keeps nothing. owner names the person, of whose clients the one goes that was not used
// for longest if there are maxOwned. One that a second person consents to is nobody's, so
// that the first cannot make it go. The error may be store.ErrFull.
func (r *Registry) Keep(ctx context.Context, c Client, tenant, owner string) error {
	if c.Kind != Registered {
		return nil
	}
	record, err := r.config.Store.Get(ctx, kind, c.Digest)
	switch {
	case err == nil && record.Owner != "" && record.Owner != owner:
		record.Owner = ""
		return r.put(ctx, record)
	case err == nil:
		return r.touch(ctx, record)
	case !errors.Is(err, store.ErrNotFound):
		return fmt.Errorf("read the client: %w", err)
	}
	text, err := strictjson.Marshal(c.Stored())
	if err != nil {
		return fmt.Errorf("write the client: %w", err)
	}
	if err := r.evictSurplus(ctx, owner); err != nil {
		return err
	}
	return r.put(ctx, store.Record{Kind: kind, ID: c.Digest, Tenant: tenant, Owner: owner, Value: text})
}

// evictSurplus forgets a client if somebody has as many as one may have. Some programs
// register anew at each connect, and would fill the tenant's share of the store. Tokens
// that the client has stay good.
func (r *Registry) evictSurplus(ctx context.Context, owner string) error {
	owned, err := r.config.Store.List(ctx, store.Query{Kind: kind, Owner: owner})
	if err != nil {
		return fmt.Errorf("list the clients of a person: %w", err)
	}
	if len(owned) < maxOwned {
		return nil
	}
	idlest := slices.MinFunc(owned, func(a, b store.Record) int { return a.Expires.Compare(b.Expires) })
	return r.config.Store.Delete(ctx, kind, idlest.ID)
}

// Used notes that the client with that digest is still in use, if it is kept at all.
func (r *Registry) Used(ctx context.Context, digest string) error {
	record, err := r.config.Store.Get(ctx, kind, digest)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("read the client: %w", err)
	}
	return r.touch(ctx, record)
}

// touch puts off the end of a record, unless that was done lately.
func (r *Registry) touch(ctx context.Context, record store.Record) error {
	if record.Expires.Sub(r.config.Now()) > usedLife-touchAfter {
		return nil
	}
	return r.put(ctx, record)
}

// put writes the record of a client. After a conflict another has written it just now.
func (r *Registry) put(ctx context.Context, record store.Record) error {
	record.Expires = r.config.Now().Add(usedLife)
	_, err := r.config.Store.Put(ctx, record)
	if errors.Is(err, store.ErrConflict) {
		return nil
	}
	return err
}
