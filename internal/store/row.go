package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/drawbridge-mcp/drawbridge/internal/seal"
)

// defaultBound is how many records of a kind a tenant may have, unless Config.Bound says
// otherwise.
const defaultBound = 100_000

// maxName is how long a kind, an id, a tenant or an owner may be, in bytes.
const maxName = 256

// Config is what every implementation needs.
type Config struct {
	Ring  *seal.Ring       // seals values
	Bound int              // records of a kind that a tenant may have; zero: 100,000
	Now   func() time.Time // nil: time.Now
	Log   *slog.Logger
}

// bound returns how many records of a kind a tenant may have.
func (c *Config) bound() int { return cmp.Or(c.Bound, defaultBound) }

// Time returns the present time as rows have it.
func (c *Config) Time() int64 {
	if c.Now != nil {
		return c.Now().UnixMilli()
	}
	return time.Now().UnixMilli()
}

// Row is a record as it is written down: its value is sealed.
type Row struct {
	Kind, ID, Tenant, Owner string

	Expires int64 // in milliseconds since 1970
	Version int64 // above zero
	Value   []byte
}

// Seal returns the row of a record, with a version of its own. The error says what no
// store takes.
func (c *Config) Seal(r Record) (Row, error) {
	for _, name := range []string{r.Kind, r.ID, r.Tenant, r.Owner} {
		if !isName(name) {
			return Row{}, fmt.Errorf("a name in a record is longer than %d bytes, is no UTF-8 or has a NUL",
				maxName)
		}
	}
	switch {
	case r.Kind == "" || r.ID == "":
		return Row{}, errors.New("a record needs a kind and an id")
	case len(r.Value) > MaxValue:
		return Row{}, fmt.Errorf("%d bytes in a record, the limit is %d", len(r.Value), MaxValue)
	case r.Expires.IsZero():
		return Row{}, errors.New("a record needs a time at which it expires")
	}
	row := Row{
		Kind: r.Kind, ID: r.ID, Tenant: r.Tenant, Owner: r.Owner,
		Expires: r.Expires.UnixMilli(), Version: newVersion(),
	}
	row.Value = c.Ring.SealBytes(row.purpose(), r.Value)
	return row, nil
}

// isName tells whether a record may have a name in one of its columns. Of any other text
// PostgreSQL says that the statement is at fault.
// https://www.postgresql.org/docs/current/datatype-character.html
func isName(text string) bool {
	return len(text) <= maxName && utf8.ValidString(text) && !strings.ContainsRune(text, 0)
}

// key returns the id of the key that seals the value, as seal.Ring.IDs has it. It stands
// after the version, see package seal.
func (r *Row) key() string {
	if len(r.Value) < 4 {
		return ""
	}
	return hex.EncodeToString(r.Value[1:4])
}

// purpose binds a value to its row: whoever can write to the database can neither move it
// to another name, tenant or owner nor let it live longer.
func (r *Row) purpose() string {
	return strings.Join([]string{
		"store 1", r.Kind, r.ID, r.Tenant, r.Owner, strconv.FormatInt(r.Expires, 10),
	}, "\x00")
}

// Open returns the record of a row. The error says which one cannot be read, and nothing
// of what is in it.
func (c *Config) Open(row Row) (Record, error) {
	value, err := c.Ring.OpenBytes(row.purpose(), row.Value)
	if err != nil {
		return Record{}, fmt.Errorf("a record of kind %q cannot be read with the keys that are in force: %w",
			row.Kind, err)
	}
	return Record{
		Kind: row.Kind, ID: row.ID, Tenant: row.Tenant, Owner: row.Owner,
		Expires: time.UnixMilli(row.Expires), Value: value, Version: row.Version,
	}, nil
}

// newVersion returns a version that no record had before, so that a record which is
// removed and made again is not taken for the one that was read.
func newVersion() int64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // crypto/rand never returns an error, it ends the program instead
	return int64(binary.BigEndian.Uint64(b[:])>>1) | 1
}

// Database is a Store with what its operator needs.
type Database interface {
	Store
	// Check returns an error if records cannot be written and read now.
	Check(ctx context.Context) error
	// Kinds returns how many rows there are of each kind.
	Kinds(ctx context.Context) (map[string]int, error)
	// Keys returns the ids of the keys that seal rows.
	Keys(ctx context.Context) ([]string, error)
	// Sweep removes rows that have expired, and seals those with the newest key that
	// older ones seal. It returns how many of these cannot be read, and so not be sealed
	// again.
	Sweep(ctx context.Context) (unread int, err error)
	// Rows returns all rows as they are at one moment. An error ends them.
	Rows(ctx context.Context) iter.Seq2[Row, error]
	// Replace puts rows in the place of all that there are, at once or not at all, and
	// returns how many. Those that have expired are left out.
	Replace(ctx context.Context, rows iter.Seq2[Row, error]) (int, error)
	// Close waits for what is being written and closes the database.
	Close() error
}

// SchemaError is that a later version of the program has changed the database so that
// this one cannot use it.
type SchemaError struct{ Schema, Known int }

// Error implements error.
func (e *SchemaError) Error() string {
	return fmt.Sprintf(
		"a later version of drawbridge has changed the database (its schema is %d, and this version knows "+
			"%d)",
		e.Schema, e.Known)
}

// KeyError is that a key seals records that are kept, and is not in the ring.
type KeyError struct{ Key string } // its id

// Error implements error.
func (e *KeyError) Error() string {
	return fmt.Sprintf("the key %s seals records that are kept, and is not among the keys", e.Key)
}

// MissingKeys returns a *KeyError if a key seals rows and is not in a ring. Without it
// the rows are lost, so whoever would take the key away must not.
func MissingKeys(ctx context.Context, d Database, ring *seal.Ring) error {
	used, err := d.Keys(ctx)
	if err != nil {
		return fmt.Errorf("ask which keys are in use: %w", err)
	}
	for _, id := range used {
		if !slices.Contains(ring.IDs(), id) {
			return &KeyError{id}
		}
	}
	return nil
}
