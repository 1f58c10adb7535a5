// Package store keeps what must outlive a restart: registrations of clients, consents,
// families of refresh tokens, access keys. It answers one question: what is kept under
// this name? It deliberately knows nothing of what the records mean.
//
// A record is written whole and compared with what was read: two writers of one record
// never both succeed. What is acknowledged survives a kill at any moment.
package store

import (
	"context"
	"errors"
	"time"
)

// Errors of a Store. Any other error means that the store cannot be reached or read now.
var (
	ErrNotFound = errors.New("no such record")
	// ErrConflict tells that the record is there already, or is no longer the one that
	// was read.
	ErrConflict = errors.New("the record was changed meanwhile")
	// ErrFull tells that the tenant has as many records of the kind as it may have.
	ErrFull = errors.New("the tenant has too many records")
)

// Record is one thing that is kept.
type Record struct {
	Kind string // such as "family"; from code, never from a client
	ID   string // unique within its kind; at most 256 bytes
	// Tenant and Owner are what records are counted and listed by. Both may be empty.
	Tenant, Owner string
	Expires       time.Time // from then on it is not found any more; required
	Value         []byte    // sealed by the store with the kind and id bound in; at most MaxValue bytes
	Version       int64     // of the record as it was read; 0: it is new
}

// MaxValue is how long a value may be, in bytes.
const MaxValue = 64 << 10

// Query says which records are listed: those of a kind, of a tenant and an owner where
// these are not empty, whose ids come after After, in the order of ids.
type Query struct {
	Kind, Tenant, Owner string
	After               string
	Limit               int // at most 1,000, which zero means
}

// Most returns how many records are listed.
func (q Query) Most() int {
	if q.Limit <= 0 || q.Limit > maxListed {
		return maxListed
	}
	return q.Limit
}

const maxListed = 1000

// All returns all records of a query, however many there are. Its limit is that of a
// page.
func All(ctx context.Context, s Store, q Query) (all []Record, err error) {
	for {
		page, err := s.List(ctx, q)
		all = append(all, page...)
		if err != nil || len(page) < q.Most() {
			return all, err
		}
		q.After = page[len(page)-1].ID
	}
}

// Store keeps records. It is safe for concurrent use, and several processes may use one.
type Store interface {
	// Get returns the record of that kind and id, which may be any text. The error is
	// ErrNotFound if there is none, or if it has expired.
	Get(ctx context.Context, kind, id string) (Record, error)
	// Put writes a record, and returns the version that it has now. One whose Version is
	// 0 must not be there yet; any other must still have that Version. Else the error is
	// ErrConflict. The error is ErrFull if the tenant has too many of the kind.
	Put(ctx context.Context, r Record) (version int64, err error)
	// Delete removes a record. To remove one that is not there is no error.
	Delete(ctx context.Context, kind, id string) error
	// List returns records that have not expired.
	List(ctx context.Context, q Query) ([]Record, error)
	// Count returns how many records of a kind there are, by tenant.
	Count(ctx context.Context, kind string) (map[string]int, error)
}
