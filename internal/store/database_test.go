package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ncruces/go-sqlite3"

	"github.com/drawbridge-mcp/drawbridge/internal/database/postgrestest"
	"github.com/drawbridge-mcp/drawbridge/internal/fatal"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/store"
	"github.com/drawbridge-mcp/drawbridge/internal/store/postgres"
	"github.com/drawbridge-mcp/drawbridge/internal/store/sqlite"
)

var server *postgrestest.Server // nil: PostgreSQL is not installed

func TestMain(m *testing.M) {
	os.Exit(postgrestest.Run(m, func(s *postgrestest.Server) { server = s }))
}

// opener opens an empty store, and closes it when the test ends.
type opener func(t *testing.T, cfg store.Config) store.Database

// databases are all that keep records, as this version makes them, and with the schema of
// a later version that this one may use. Each returns how to open empty ones.
var databases = map[string]func(t *testing.T) opener{
	"SQLite":                         func(*testing.T) opener { return inFile("") },
	"SQLite with a later schema":     func(*testing.T) opener { return inFile(laterInFile) },
	"PostgreSQL":                     func(t *testing.T) opener { return atServer(t, "plain", "") },
	"PostgreSQL with a later schema": func(t *testing.T) opener { return atServer(t, "later", laterAtServer) },
}

// What a later version does to the schema.
const (
	laterInFile = `ALTER TABLE records ADD COLUMN used INTEGER NOT NULL DEFAULT 0;
		CREATE TABLE grants(id TEXT); UPDATE schema SET version = version + 1`
	laterAtServer = `ALTER TABLE drawbridge.records ADD COLUMN used bigint NOT NULL DEFAULT 0;
		CREATE TABLE drawbridge.grants(id text); UPDATE drawbridge.schema SET version = version + 1`
)

// inFile opens files of SQLite, after statements have changed their schema.
func inFile(statements string) opener {
	return func(t *testing.T, cfg store.Config) store.Database {
		path := filepath.Join(t.TempDir(), "drawbridge.db")
		if statements != "" {
			fatal.OK(t, fatal.Have(sqlite.Open(path, cfg))(t).Close())
			c := fatal.Have(sqlite3.OpenFlags(path, sqlite3.OPEN_READWRITE))(t)
			fatal.OK(t, errors.Join(c.Exec(statements), c.Close()))
		}
		return closedAtEnd(t, fatal.Have(sqlite.Open(path, cfg))(t))
	}
}

// atServer opens a database of PostgreSQL of that name, which it empties each time: that
// takes less time than to make another one. Statements change its schema before.
func atServer(t *testing.T, name, statements string) opener {
	t.Helper()
	s := server.Need(t)
	s.Create(t, name, "")
	s.Exec(t, "postgres", fmt.Sprintf("ALTER DATABASE %[1]s OWNER TO %[1]s", name))
	file := s.File(t, name, name)
	return func(t *testing.T, cfg store.Config) store.Database {
		s.Exec(t, name, "SET client_min_messages = error; DROP SCHEMA IF EXISTS drawbridge CASCADE")
		if statements != "" {
			before := postgres.New(file, cfg)
			fatal.OK(t, errors.Join(before.Check(t.Context()), before.Close()))
			s.Exec(t, name, statements)
		}
		return closedAtEnd(t, postgres.New(file, cfg))
	}
}

func closedAtEnd(t *testing.T, s store.Database) store.Database {
	t.Helper()
	t.Cleanup(func() { fatal.OK(t, s.Close()) })
	return s
}

// fixture is the empty store of one test, whose time passes when it is told to.
type fixture struct {
	store.Database

	cfg  store.Config
	pass func(time.Duration)
}

// TestDatabases runs the same tests on all databases.
func TestDatabases(t *testing.T) {
	for name, prepare := range databases {
		t.Run(name, func(t *testing.T) { testDatabase(t, prepare(t)) })
	}
}

// testDatabase is what every database must do.
func testDatabase(t *testing.T, open opener) {
	t.Helper()
	for _, test := range []struct {
		name string
		most int // records of a kind that a tenant may have; 0: any number
		run  func(*testing.T, fixture)
	}{
		{"a record is written, read, changed and removed", 0, changed},
		{"what no store takes is refused", 0, refused},
		{"what no record can be called is not found", 0, unnamed},
		{"records are listed by tenant and owner, in pages", 0, listed},
		{"an expired record is not found and gives way", 0, expired},
		{"a sweep ends when all that has expired is gone", 0, sweptToTheEnd},
		{"a tenant has as many records as it may", 3, bounded},
		{"a record counts where it was moved to", 1, moved},
		{"of two writers one succeeds", 0, atOnce},
		{"the bound holds for writers at the same time", 5, boundedAtOnce},
		{"what is written down is sealed and bound to its name", 0, sealed},
		{"an older key is needed until its rows are sealed again", 0, keysEnded},
		{"rows that cannot be read hide no others", 0, unread},
		{"all rows are replaced, or none", 0, replaced},
		{"a call ends with its context", 0, ended},
	} {
		t.Run(test.name, func(t *testing.T) {
			var passed atomic.Int64
			began := time.Now().Add(-past)
			cfg := store.Config{
				Bound: test.most, Ring: ring(t, 1), Log: slog.New(slog.DiscardHandler),
				Now: func() time.Time { return began.Add(time.Duration(passed.Load())) },
			}
			test.run(t, fixture{open(t, cfg), cfg, func(d time.Duration) { passed.Add(int64(d)) }})
		})
	}
}

// past is how long ago each test begins: a server removes nothing before its time.
const past = 1000 * time.Hour

func record(kind, id, tenant string) store.Record {
	return store.Record{
		Kind: kind, ID: id, Tenant: tenant, Owner: "ann",
		Expires: time.Now().Add(time.Hour - past).Truncate(time.Millisecond),
		Value:   []byte("value of " + id),
	}
}

// put writes a record that nothing speaks against, and returns it as it is then.
func put(t *testing.T, s store.Store, r store.Record) store.Record {
	t.Helper()
	version := fatal.Have(s.Put(t.Context(), r))(t)
	if version <= 0 || version == r.Version {
		t.Fatalf("put %s %s: got version %d after %d", r.Kind, r.ID, version, r.Version)
	}
	r.Version = version
	return r
}

// get fails the test unless the record is found as it was written.
func get(t *testing.T, s store.Store, want store.Record) {
	t.Helper()
	got := fatal.Have(s.Get(t.Context(), want.Kind, want.ID))(t)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("get %s %s: (-want +got)\n%s", want.Kind, want.ID, diff)
	}
}

// wantError fails the test unless the error is the one.
func wantError(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("%s: got error %v, want %v", what, got, want)
	}
}

// wantNoPut fails the test unless the record is refused with the error.
func wantNoPut(t *testing.T, s store.Store, what string, r store.Record, want error) {
	t.Helper()
	_, err := s.Put(t.Context(), r)
	wantError(t, what, err, want)
}

// wantNoFamily fails the test if there is a record of a family.
func wantNoFamily(t *testing.T, s store.Store, id string) {
	t.Helper()
	_, err := s.Get(t.Context(), "family", id)
	wantError(t, "get family "+id, err, store.ErrNotFound)
}

// sweep sweeps, and returns how many rows cannot be read.
func sweep(t *testing.T, s store.Database) int {
	t.Helper()
	return fatal.Have(s.Sweep(t.Context()))(t)
}

// replace replaces all rows by those, and returns how many there are then.
func replace(t *testing.T, s store.Database, all []store.Row) int {
	t.Helper()
	return fatal.Have(s.Replace(t.Context(), sequence(all, nil)))(t)
}

func changed(t *testing.T, s fixture) {
	wantError(t, "check", s.Check(t.Context()), nil)
	wantNoFamily(t, s, "1")
	r := put(t, s, record("family", "1", "a"))
	get(t, s, r)
	other := put(t, s, record("client", "1", "a")) // another kind, the same id

	wantNoPut(t, s, "put what is there as new", record("family", "1", "a"), store.ErrConflict)
	second := r
	second.Value, second.Owner, second.Expires = []byte{0, 1, 255}, "bob", r.Expires.Add(time.Minute)
	second = put(t, s, second)
	get(t, s, second)
	wantNoPut(t, s, "put a version that is no longer there", r, store.ErrConflict)

	for range 2 {
		wantError(t, "delete", s.Delete(t.Context(), "family", "1"), nil)
	}
	wantNoFamily(t, s, "1")
	wantNoPut(t, s, "change what was removed", second, store.ErrConflict)
	again := put(t, s, record("family", "1", "a"))
	wantNoPut(t, s, "change what was removed and made again", second, store.ErrConflict)
	get(t, s, again)
	get(t, s, other)

	empty := record("family", "empty", "")
	empty.Owner, empty.Value = "", nil
	get(t, s, put(t, s, empty))
	large := record("family", "large", "a")
	large.Value = bytes.Repeat([]byte("x"), store.MaxValue)
	get(t, s, put(t, s, large))
}

func refused(t *testing.T, s fixture) {
	for name, spoil := range map[string]func(*store.Record){
		"no kind":        func(r *store.Record) { r.Kind = "" },
		"no id":          func(r *store.Record) { r.ID = "" },
		"long id":        func(r *store.Record) { r.ID = string(bytes.Repeat([]byte("x"), 257)) },
		"NUL in tenant":  func(r *store.Record) { r.Tenant = "a\x00b" },
		"no UTF-8":       func(r *store.Record) { r.Owner = "a\xffb" },
		"no expiry":      func(r *store.Record) { r.Expires = time.Time{} },
		"value too long": func(r *store.Record) { r.Value = make([]byte, store.MaxValue+1) },
	} {
		r := record("family", "1", "a")
		spoil(&r)
		if _, err := s.Put(t.Context(), r); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	wantCount(t, s, "family", map[string]int{})
}

func unnamed(t *testing.T, s fixture) {
	for _, id := range []string{"a\x00b", "a\xffb", string(bytes.Repeat([]byte("x"), 257)), ""} {
		wantNoFamily(t, s, id)
	}
}

func listed(t *testing.T, s fixture) {
	for _, tenant := range []string{"a", "b"} {
		for i := range 5 {
			r := record("key", fmt.Sprintf("%s%d", tenant, i), tenant)
			if i == 3 {
				r.Owner = "bob"
			}
			put(t, s, r)
		}
	}
	put(t, s, record("other", "a9", "a"))
	for _, test := range []struct {
		q    store.Query
		want []string
	}{
		{store.Query{Kind: "key"}, []string{"a0", "a1", "a2", "a3", "a4", "b0", "b1", "b2", "b3", "b4"}},
		{store.Query{Kind: "key", Tenant: "a"}, []string{"a0", "a1", "a2", "a3", "a4"}},
		{store.Query{Kind: "key", Owner: "bob"}, []string{"a3", "b3"}},
		{store.Query{Kind: "key", Owner: "bob", Tenant: "b"}, []string{"b3"}},
		{store.Query{Kind: "key", Tenant: "a", Limit: 2}, []string{"a0", "a1"}},
		{store.Query{Kind: "key", Tenant: "a", Limit: 2, After: "a1"}, []string{"a2", "a3"}},
		{store.Query{Kind: "key", After: "b4"}, nil},
		{store.Query{Kind: "none"}, nil},
	} {
		var got []string
		for _, r := range fatal.Have(s.List(t.Context(), test.q))(t) {
			got = append(got, r.ID)
			get(t, s, r)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("list %+v: (-want +got)\n%s", test.q, diff)
		}
	}
	wantCount(t, s, "key", map[string]int{"a": 5, "b": 5})
	kinds, err := s.Kinds(t.Context())
	if diff := cmp.Diff(map[string]int{"key": 10, "other": 1}, kinds); diff != "" || err != nil {
		t.Errorf("kinds: error %v (-want +got)\n%s", err, diff)
	}
}

func wantCount(t *testing.T, s store.Store, kind string, want map[string]int) {
	t.Helper()
	got := fatal.Have(s.Count(t.Context(), kind))(t)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("count %s: (-want +got)\n%s", kind, diff)
	}
}

func expired(t *testing.T, s fixture) {
	first := put(t, s, record("family", "1", "a"))
	put(t, s, record("family", "2", "a"))
	s.pass(time.Hour - time.Minute)
	get(t, s, first)
	s.pass(2 * time.Minute)
	wantNoFamily(t, s, "1")
	if records, err := s.List(t.Context(), store.Query{Kind: "family"}); err != nil || len(records) > 0 {
		t.Fatalf("list: got %d records and error %v, want none", len(records), err)
	}
	first.Expires = first.Expires.Add(time.Hour)
	wantNoPut(t, s, "change what has expired", first, store.ErrConflict)
	again := record("family", "1", "b")
	again.Expires = first.Expires
	get(t, s, put(t, s, again))
	wantCount(t, s, "family", map[string]int{"a": 1, "b": 1})
	sweep(t, s)
	wantCount(t, s, "family", map[string]int{"b": 1})
}

// sweptToTheEnd has more rows that have expired than one statement removes.
func sweptToTheEnd(t *testing.T, s fixture) {
	for i := range 2*store.MostSwept + 1 {
		put(t, s, record("family", fmt.Sprintf("%05d", i), "a"))
	}
	s.pass(2 * time.Hour)
	sweep(t, s)
	if kinds, err := s.Kinds(t.Context()); err != nil || len(kinds) > 0 {
		t.Errorf("got rows %v and error %v, want none", kinds, err)
	}
}

func bounded(t *testing.T, s fixture) {
	for i := range 3 {
		put(t, s, record("family", fmt.Sprint(i), "a"))
	}
	wantNoPut(t, s, "put one too many", record("family", "3", "a"), store.ErrFull)
	wantNoFamily(t, s, "3")
	put(t, s, record("family", "4", "b"))
	put(t, s, record("client", "3", "a"))
	wantError(t, "delete", s.Delete(t.Context(), "family", "0"), nil)
	last := put(t, s, record("family", "3", "a"))
	put(t, s, last) // a change needs no room
	wantCount(t, s, "family", map[string]int{"a": 3, "b": 1})

	s.pass(2 * time.Hour)
	late := record("family", "5", "a")
	late.Expires = late.Expires.Add(4 * time.Hour)
	put(t, s, late) // what has expired gives way before it is swept
	wantCount(t, s, "family", map[string]int{"a": 1, "b": 1})
}

func moved(t *testing.T, s fixture) {
	r := put(t, s, record("family", "1", ""))
	put(t, s, record("family", "2", "full"))
	r.Tenant = "full"
	wantNoPut(t, s, "move to a tenant that is full", r, store.ErrFull)
	r.Tenant = "a"
	get(t, s, put(t, s, r))
	wantCount(t, s, "family", map[string]int{"a": 1, "full": 1})
}

func atOnce(t *testing.T, s fixture) {
	put(t, s, record("counter", "1", "a"))
	const writers, times = 8, 10
	var over sync.WaitGroup
	for range writers {
		over.Go(func() {
			for done := 0; done < times; {
				r, err := s.Get(t.Context(), "counter", "1")
				if err != nil {
					t.Error(err)
					return
				}
				r.Value = append(r.Value, '.')
				switch _, err := s.Put(t.Context(), r); {
				case err == nil:
					done++
				case !errors.Is(err, store.ErrConflict):
					t.Error(err)
					return
				}
			}
		})
	}
	over.Wait()
	r, err := s.Get(t.Context(), "counter", "1")
	if got, want := bytes.Count(r.Value, []byte(".")), writers*times; err != nil || got != want {
		t.Fatalf("got %d changes and error %v, want %d: changes were lost", got, err, want)
	}
}

func boundedAtOnce(t *testing.T, s fixture) {
	var taken atomic.Int64
	var over sync.WaitGroup
	for i := range 20 {
		over.Go(func() {
			_, err := s.Put(t.Context(), record("family", fmt.Sprint(i), "a"))
			if err == nil {
				taken.Add(1)
			} else if !errors.Is(err, store.ErrFull) {
				t.Error(err)
			}
		})
	}
	over.Wait()
	if taken.Load() != 5 {
		t.Errorf("got %d records, want 5", taken.Load())
	}
	wantCount(t, s, "family", map[string]int{"a": 5})
}

// rows returns all rows, which need be few.
func rows(t *testing.T, s store.Database) (all []store.Row) {
	t.Helper()
	for row, err := range s.Rows(t.Context()) {
		wantError(t, "read a row", err, nil)
		all = append(all, row)
	}
	return all
}

// sequence returns rows as Replace takes them, and an error after them unless it is nil.
func sequence(all []store.Row, last error) iter.Seq2[store.Row, error] {
	return func(yield func(store.Row, error) bool) {
		for _, row := range all {
			if !yield(row, nil) {
				return
			}
		}
		if last != nil {
			yield(store.Row{}, last)
		}
	}
}

func sealed(t *testing.T, s fixture) {
	put(t, s, record("family", "1", "a"))
	put(t, s, record("family", "2", "a"))
	for name, spoil := range map[string]func(*store.Row){
		"another id":     func(r *store.Row) { r.ID += "x" },
		"another kind":   func(r *store.Row) { r.Kind += "x" },
		"another tenant": func(r *store.Row) { r.Tenant = "b" },
		"another owner":  func(r *store.Row) { r.Owner = "bob" },
		"later":          func(r *store.Row) { r.Expires += 1000 },
		"another value":  func(r *store.Row) { r.Value[len(r.Value)-1] ^= 1 },
		"no value":       func(r *store.Row) { r.Value = []byte{} },
	} {
		all := rows(t, s)
		if bytes.Contains(all[0].Value, []byte("value of")) {
			t.Fatal("the value is not sealed")
		}
		good := slices.Clone(all)
		good[0].Value = bytes.Clone(all[0].Value)
		spoil(&all[0])
		replace(t, s, all)
		if _, err := s.Get(t.Context(), all[0].Kind, all[0].ID); err == nil ||
			errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: got error %v, want one that says that the record cannot be read", name, err)
		}
		records, err := s.List(t.Context(), store.Query{Kind: "family"})
		if err != nil || len(records) != 1 || records[0].ID != "2" {
			t.Errorf("%s: list: got %d records and error %v, want the other one", name, len(records), err)
		}
		replace(t, s, good)
	}
}

// ring returns keys that consist of one byte each.
func ring(t *testing.T, fills ...byte) *seal.Ring {
	t.Helper()
	keys := make([][]byte, len(fills))
	for i, fill := range fills {
		keys[i] = bytes.Repeat([]byte{fill}, seal.KeySize)
	}
	return fatal.Have(seal.NewRing(keys...))(t)
}

// unread has more rows that cannot be read than one page of a sweep or a list takes.
// They come first, and the others are sealed again and listed all the same.
func unread(t *testing.T, s fixture) {
	const bad, good = 1100, 600
	var all []store.Row
	for i := range bad + good {
		row := fatal.Have(s.cfg.Seal(record("family", fmt.Sprintf("%05d", i), "a")))(t)
		if i < bad {
			row.Value[len(row.Value)-1] ^= 1
		}
		all = append(all, row)
	}
	replace(t, s, all)
	for limit, want := range map[int]int{700: good, 2: 2} {
		records, err := s.List(t.Context(), store.Query{Kind: "family", Limit: limit})
		if err != nil || len(records) != want {
			t.Fatalf("list: got %d records and error %v, want %d", len(records), err, want)
		}
	}
	s.cfg.Ring.Adopt(ring(t, 3, 2, 1))
	if got := sweep(t, s); got != bad {
		t.Errorf("got %d rows that cannot be read, want %d", got, bad)
	}
	ids := s.cfg.Ring.IDs()
	keys, err := s.Keys(t.Context())
	if diff := cmp.Diff(slices.Sorted(slices.Values([]string{ids[0], ids[2]})), keys); diff != "" || err != nil {
		t.Errorf("keys in use: error %v (-want +got)\n%s", err, diff)
	}
	s.cfg.Ring.Adopt(ring(t, 3))
	records, err := s.List(t.Context(), store.Query{Kind: "family", Limit: 700})
	if len(records) != good || err != nil {
		t.Errorf("sealed with the newest key: got %d records and error %v, want %d", len(records), err, good)
	}
}

func keysEnded(t *testing.T, s fixture) {
	r := put(t, s, record("family", "1", "a"))
	if err := store.MissingKeys(t.Context(), s, ring(t, 2)); err == nil {
		t.Error("a key that seals rows may end")
	}
	s.cfg.Ring.Adopt(ring(t, 2, 1))
	wantError(t, "end no key", store.MissingKeys(t.Context(), s, s.cfg.Ring), nil)
	sweep(t, s)
	wantError(t, "end a key after a sweep", store.MissingKeys(t.Context(), s, ring(t, 2)), nil)
	s.cfg.Ring.Adopt(ring(t, 2))
	get(t, s, r)
	put(t, s, r) // whoever read it before may still change it
}

func replaced(t *testing.T, s fixture) {
	put(t, s, record("family", "1", "a"))
	all := rows(t, s)
	s.pass(time.Minute)
	late := record("family", "2", "b")
	late.Expires = late.Expires.Add(time.Hour)
	late = put(t, s, late)
	failure := errors.New("the end of the file is missing")
	_, err := s.Replace(t.Context(), sequence(all, failure))
	wantError(t, "replace by what cannot be read", err, failure)
	get(t, s, late)
	wantCount(t, s, "family", map[string]int{"a": 1, "b": 1})

	both := rows(t, s)
	s.pass(time.Hour) // of the two, the first has expired
	if replaced := replace(t, s, both); replaced != 1 {
		t.Fatalf("got %d rows, want 1", replaced)
	}
	get(t, s, late)
	wantCount(t, s, "family", map[string]int{"b": 1})

	var large []store.Row
	for i := range 201 { // several statements, as long as they may be
		r := record("family", fmt.Sprint(i), "a")
		r.Expires, r.Value = late.Expires, bytes.Repeat([]byte("x"), store.MaxValue)
		large = append(large, fatal.Have(s.cfg.Seal(r))(t))
	}
	if replaced := replace(t, s, large); replaced != len(large) {
		t.Fatalf("got %d rows, want %d", replaced, len(large))
	}
	wantCount(t, s, "family", map[string]int{"a": len(large)})
}

func ended(t *testing.T, s fixture) {
	r := put(t, s, record("family", "1", "a"))
	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, err := s.Get(ctx, "family", "1")
	wantError(t, "get", err, context.Canceled)
	_, err = s.List(ctx, store.Query{Kind: "family"})
	wantError(t, "list", err, context.Canceled)
	_, err = s.Put(ctx, r)
	wantError(t, "put", err, context.Canceled)
	wantError(t, "delete", s.Delete(ctx, "family", "1"), context.Canceled)
	get(t, s, r)
}
