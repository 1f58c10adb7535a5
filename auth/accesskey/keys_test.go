package accesskey

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/store"
	"github.com/drawbridge-mcp/drawbridge/internal/store/sqlite"
)

const issuer = "https://gw.example"

// counted is a store that counts how often it is read, and that can be away.
type counted struct {
	store.Database

	reads atomic.Int64
	away  atomic.Bool
}

var errAway = errors.New("the store is away")

func (c *counted) Get(ctx context.Context, kind, id string) (store.Record, error) {
	c.reads.Add(1)
	if c.away.Load() {
		return store.Record{}, errAway
	}
	return c.Database.Get(ctx, kind, id)
}

func (c *counted) List(ctx context.Context, q store.Query) ([]store.Record, error) {
	if c.away.Load() {
		return nil, errAway
	}
	return c.Database.List(ctx, q)
}

// replica is one that takes keys, with a clock that a test moves.
type replica struct {
	*Keys

	store   *counted
	revoked atomic.Int64
	passed  atomic.Int64
	off     atomic.Bool
}

func newReplica(t *testing.T, db store.Database) *replica {
	t.Helper()
	r := &replica{store: &counted{Database: db}}
	began := time.Now()
	r.Keys = New(Config{
		Store: r.store, Issuer: func() string { return issuer }, Log: slog.New(slog.DiscardHandler),
		Revoked: func() { r.revoked.Add(1) },
		Taken:   func() bool { return !r.off.Load() },
		Now:     func() time.Time { return began.Add(time.Duration(r.passed.Load())) },
	})
	return r
}

func (r *replica) pass(d time.Duration) { r.passed.Add(int64(d)) }

func open(t *testing.T) store.Database {
	t.Helper()
	db, err := sqlite.Open(filepath.Join(t.TempDir(), "drawbridge.db"),
		store.Config{Ring: seal.RandomRing(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // nothing is written any more
	return db
}

func create(t *testing.T, db store.Store, life time.Duration) (string, Key) {
	t.Helper()
	text, k, err := Book{db}.Create(t.Context(),
		Key{Tenant: "payments", Subject: "ci", Scopes: []string{"tools.read"}}, life)
	if err != nil {
		t.Fatal(err)
	}
	return text, k
}

// refused fails the test unless the key is refused for that reason.
func refused(t *testing.T, what string, r *replica, text, reason string) {
	t.Helper()
	p, err := r.Verify(t.Context(), text)
	if e, ok := errors.AsType[*auth.Error](err); !ok || e.Reason != reason || p.Subject != "" {
		t.Errorf("%s: got %+v and error %v, want a refusal for %s", what, p, err, reason)
	}
}

func taken(t *testing.T, what string, r *replica, text string) auth.Principal {
	t.Helper()
	p, err := r.Verify(t.Context(), text)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	return p
}

// TestKeysAreRefusedWhileTheyAreOff shows that a reload which turns keys off ends what
// they have open, also when the store is away, and that one which turns them on again
// takes none from memory.
func TestKeysAreRefusedWhileTheyAreOff(t *testing.T) {
	db := open(t)
	text, k := create(t, db, time.Hour)
	r := newReplica(t, db)
	p := taken(t, "before", r, text)
	r.off.Store(true)
	refused(t, "while keys are off", r, text, "malformed")
	if err := r.Recheck(p); err == nil {
		t.Error("what the key has open goes on while keys are off")
	}
	r.dropRevoked(t.Context())
	if _, err := (Book{db}).Revoke(t.Context(), k.ID); err != nil {
		t.Fatal(err)
	}
	r.off.Store(false)
	r.store.away.Store(true)
	refused(t, "revoked meanwhile, with the store away", r, text, "unavailable")
	r.store.away.Store(false)
	refused(t, "revoked meanwhile", r, text, "key")
}

func TestKeySpeaksForItsSubject(t *testing.T) {
	db := open(t)
	text, k := create(t, db, time.Hour)
	if !regexp.MustCompile(`^dbk_[a-z2-7]{47}$`).MatchString(text) {
		t.Errorf("the key %q has not the form that scanners look for", text)
	}
	p := taken(t, "a key", newReplica(t, db), text)
	want := auth.Principal{
		Issuer: issuer, Subject: "ci", TenantID: "payments", ClientID: "access-key-" + k.ID,
		Scopes: []string{"tools.read"},
	}
	got := p
	got.Expiry = time.Time{}
	got = got.WithAccessKey("")
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(auth.Principal{})); diff != "" || p.AccessKey() == "" {
		t.Errorf("got another principal (-want +got):\n%s", diff)
	}
	if _, at := p.At("search"); at {
		t.Error("the key speaks for another tenant")
	}
	for row, err := range db.Rows(t.Context()) {
		if err != nil || row.ID != digest(text) || bytes.Contains(row.Value, []byte(text[:12])) {
			t.Errorf("got row %q and error %v, want the digest of the key and nothing of it", row.ID, err)
		}
	}
	if _, _, err := (Book{db}).Create(t.Context(), Key{Tenant: "a", Subject: "b"}, MaxLife+time.Hour); err == nil {
		t.Error("a key may live for longer than a year")
	}
}

func TestTextsThatAreNoKeysAskNobody(t *testing.T) {
	db := open(t)
	text, _ := create(t, db, time.Hour)
	r := newReplica(t, db)
	tried := 0
	defer func() { t.Attr("attempts", fmt.Sprint(tried)) }()
	for i := range text {
		for _, letter := range []byte{'a', 'b', 'A', '1', 0, 0xff} {
			slip := []byte(text)
			if slip[i] == letter {
				continue
			}
			slip[i] = letter
			tried++
			refused(t, "a slip", r, string(slip), "malformed")
		}
	}
	for _, other := range []string{"", Prefix, text[:len(text)-1], text + "a", " " + text, "DBK" + text[3:]} {
		refused(t, other, r, other, "malformed")
	}
	if reads := r.store.reads.Load(); reads > 0 {
		t.Errorf("the store was asked %d times", reads)
	}
}

func TestGuessesFindNothingAndHoldUpNobody(t *testing.T) {
	db := open(t)
	text, _ := create(t, db, time.Hour)
	r := newReplica(t, db)
	taken(t, "before", r, text)
	var over sync.WaitGroup
	for range 20 {
		over.Go(func() {
			for range 50 {
				refused(t, "a guess", r, newKey(), "key")
			}
		})
	}
	for range 50 {
		taken(t, "meanwhile", r, text)
	}
	over.Wait()
	t.Attr("attempts", "1000")
	if held := len(r.byName); held != 1 {
		t.Errorf("%d keys in memory, want 1: guesses take no memory", held)
	}
}

func TestKeyInMemoryCostsNoQuestion(t *testing.T) {
	db := open(t)
	text, _ := create(t, db, time.Hour)
	r := newReplica(t, db)
	taken(t, "first", r, text)
	r.dropRevoked(t.Context())
	before := r.store.reads.Load()
	for range 100 {
		taken(t, "again", r, text)
	}
	if asked := r.store.reads.Load() - before; asked > 0 {
		t.Errorf("the store was asked %d times", asked)
	}
	r.pass(freshTTL) // nobody has looked for so long
	taken(t, "later", r, text)
	if r.store.reads.Load() == before {
		t.Error("the store was not asked")
	}
}

func TestRevokedKeyIsRefusedAtEveryReplica(t *testing.T) {
	db := open(t)
	text, k := create(t, db, time.Hour)
	replicas := []*replica{newReplica(t, db), newReplica(t, db)}
	ctx, stop := context.WithCancel(t.Context())
	var over sync.WaitGroup
	var principals []auth.Principal
	for _, r := range replicas {
		over.Go(func() {
			if err := r.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		principals = append(principals, taken(t, "before", r, text))
	}
	defer over.Wait()
	defer stop()
	for i, r := range replicas {
		if err := r.Recheck(principals[i]); err != nil {
			t.Errorf("judged before: %v", err)
		}
	}
	if got, err := (Book{db}).Revoke(t.Context(), k.ID[:6]); err != nil || got.ID != k.ID {
		t.Fatalf("got %+v and error %v", got, err)
	}
	for i, r := range replicas {
		for began := time.Now(); r.Recheck(principals[i]) == nil; <-time.After(10 * time.Millisecond) {
			if time.Since(began) > time.Minute {
				t.Fatal("a replica does not hear of it")
			}
		}
		refused(t, "revoked", r, text, "key")
		if r.revoked.Load() == 0 {
			t.Error("nobody was told to judge again")
		}
	}
	if _, err := (Book{db}).Revoke(t.Context(), k.ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("revoked again: got error %v", err)
	}
}

// full is a store with as many keys as it has values.
type full struct {
	store.Store

	values [][]byte
}

func (f full) List(_ context.Context, q store.Query) (page []store.Record, err error) {
	for i, value := range f.values {
		id := fmt.Sprintf("%04d", i)
		if len(page) < q.Most() && id > q.After && q.Kind == kindKey {
			page = append(page, store.Record{ID: id, Value: value})
		}
	}
	return page, nil
}

// TestKeysBeyondThePageAreListed has one key more than the store lists at once: it could
// not be revoked either if it were not listed.
func TestKeysBeyondThePageAreListed(t *testing.T) {
	f := full{values: slices.Repeat([][]byte{[]byte(`{}`)}, store.Query{}.Most()+1)}
	keys, err := Book{f}.List(t.Context(), "")
	if err != nil || len(keys) != len(f.values) || keys[len(keys)-1].ID != "1000" {
		t.Errorf("got %d keys and error %v, want all %d", len(keys), err, len(f.values))
	}
}

// gone is a store that nobody reaches.
type gone struct{ store.Store }

func (gone) List(context.Context, store.Query) ([]store.Record, error) { return nil, errGone }

var errGone = errors.New("nobody answers")

// TestAnUnreachableStoreIsSaidOnce lists keys, which asks the store twice if it answers.
func TestAnUnreachableStoreIsSaidOnce(t *testing.T) {
	if _, err := (Book{gone{}}).List(t.Context(), ""); !errors.Is(err, errGone) || err.Error() != errGone.Error() {
		t.Errorf("got error %v, want %v", err, errGone)
	}
}

// TestKeyRevokedDuringALongOutageIsForgotten has a replica to which the store was away
// for as long as it is told that a key was revoked. Nothing says so any more when it is
// back.
func TestKeyRevokedDuringALongOutageIsForgotten(t *testing.T) {
	db := open(t)
	text, k := create(t, db, 24*time.Hour)
	r := newReplica(t, db)
	r.dropRevoked(t.Context())
	p := taken(t, "before", r, text)
	r.store.away.Store(true)
	if _, err := (Book{db}).Revoke(t.Context(), k.ID); err != nil {
		t.Fatal(err)
	}
	r.pass(tellTime + time.Second)
	r.dropRevoked(t.Context())
	if err := r.Recheck(p); err != nil {
		t.Errorf("while the store is away: %v", err)
	}
	if err := db.Delete(t.Context(), kindRevoked, k.digest); err != nil { // as if it had expired
		t.Fatal(err)
	}
	r.store.away.Store(false)
	r.dropRevoked(t.Context())
	if err := r.Recheck(p); err == nil || r.revoked.Load() == 0 {
		t.Errorf("what the key has open goes on: %v, judged again %d times", err, r.revoked.Load())
	}
	refused(t, "after the outage", r, text, "key")
}

func TestExpiredKeyIsRefused(t *testing.T) {
	db := open(t)
	text, _ := create(t, db, time.Second)
	r := newReplica(t, db)
	p := taken(t, "before", r, text)
	r.pass(2 * time.Second)
	if err := r.Recheck(p); err == nil {
		t.Error("an expired key is judged good")
	}
	for began := time.Now(); ; <-time.After(20 * time.Millisecond) { // by the clock of the store
		if _, err := r.Verify(t.Context(), text); err != nil && r.revoked.Load() > 0 {
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatal("an expired key is taken")
		}
	}
	refused(t, "expired", r, text, "key")
}

func TestKeysSeenInTheLastMinuteGoOnWithoutTheStore(t *testing.T) {
	db := open(t)
	busy, _ := create(t, db, time.Hour)
	idle, _ := create(t, db, time.Hour)
	r := newReplica(t, db)
	taken(t, "busy", r, busy)
	taken(t, "idle", r, idle)
	r.store.away.Store(true)
	refused(t, "a key that was never seen", r, newKey(), "unavailable")
	for range 28 { // 14 minutes
		r.pass(30 * time.Second)
		taken(t, "busy, meanwhile", r, busy)
	}
	refused(t, "idle", r, idle, "unavailable")
	r.pass(30 * time.Second)
	taken(t, "busy, until then", r, busy) // 14 min 30 s
	r.pass(30 * time.Second)
	refused(t, "busy, after a quarter of an hour", r, busy, "unavailable")
	r.store.away.Store(false)
	taken(t, "idle, with the store", r, idle)
}

func TestLastUseIsListed(t *testing.T) {
	db := open(t)
	text, k := create(t, db, time.Hour)
	create(t, db, time.Hour)
	r := newReplica(t, db)
	taken(t, "a key", r, text)
	r.noteUses(t.Context())
	r.pass(2 * time.Minute)
	taken(t, "a key", r, text)
	r.noteUses(t.Context())
	keys, err := Book{db}.List(t.Context(), "payments")
	if err != nil || len(keys) != 2 {
		t.Fatalf("got %d keys and error %v, want 2", len(keys), err)
	}
	for _, got := range keys {
		if used := !got.Used.IsZero(); used != (got.ID == k.ID) {
			t.Errorf("key %s: used at %v", got.ID, got.Used)
		}
		if got.ID == k.ID && got.Used.Before(time.Now().Add(time.Minute)) {
			t.Errorf("got last use %v, want that of two minutes later", got.Used)
		}
	}
	if keys, err = (Book{db}).List(t.Context(), "search"); err != nil || len(keys) > 0 {
		t.Errorf("another tenant: got %d keys and error %v", len(keys), err)
	}
}

// slow is a store whose notes of uses take until a test lets them go on.
type slow struct {
	store.Database

	hold chan struct{}
	held chan struct{} // has a value when the first one waits
}

func (s *slow) Put(ctx context.Context, r store.Record) (int64, error) {
	if r.Kind == kindUse {
		select {
		case s.held <- struct{}{}:
		default:
		}
		<-s.hold // also when ctx has ended: nobody else brings the note to an end
	}
	return s.Database.Put(ctx, r)
}

// TestNotesOfUsesHoldUpNothing shows that a replica hears of what was revoked while it
// notes when keys were used, however long that takes.
func TestNotesOfUsesHoldUpNothing(t *testing.T) {
	db := open(t)
	text, k := create(t, db, time.Hour)
	r := newReplica(t, &slow{db, make(chan struct{}), make(chan struct{}, 1)})
	s := r.store.Database.(*slow)
	taken(t, "a new key", r, text)
	ctx, stop := context.WithCancel(t.Context())
	var runs sync.WaitGroup
	runs.Go(func() { r.run(ctx, time.Millisecond, 10*time.Millisecond) })
	defer runs.Wait()
	defer stop()
	defer close(s.hold)
	<-s.held
	if _, err := (Book{db}).Revoke(t.Context(), k.ID); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); r.revoked.Load() == 0; <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the key that was revoked is held while a note is written")
		}
	}
}

// TestKeysAreCleanedFromOutput shows that output cleaning knows what this package makes.
func TestKeysAreCleanedFromOutput(t *testing.T) {
	for range 100 {
		result := mcp.NewObject(mcp.Member{Name: "structuredContent", Value: mcp.String("key=" + newKey())})
		cleaned, _, err := sanitize.Policy{}.Result(result)
		if got := cleaned.Text("structuredContent"); err != nil || got != "key=[REDACTED:drawbridge-secret]" {
			t.Fatalf("got %q, %v", got, err)
		}
	}
}

// TestFullMemoryForgetsIdleKeys shows that keys in use stay in memory while others come
// and go.
func TestFullMemoryForgetsIdleKeys(t *testing.T) {
	r := newReplica(t, open(t))
	began := time.Now()
	for i := range maxCached {
		r.hold(strconv.Itoa(i), Key{}, began)
	}
	for i := range 50 {
		r.hold(strconv.Itoa(i), Key{}, began.Add(time.Hour))
	}
	for i := range 1000 {
		r.hold("new "+strconv.Itoa(i), Key{}, began.Add(time.Minute))
	}
	kept := 0
	for i := range 50 {
		if r.byName[strconv.Itoa(i)] != nil {
			kept++
		}
	}
	if kept != 50 || len(r.byName) != maxCached {
		t.Errorf("%d of 50 keys in use are held, and %d in all; want 50 and %d", kept, len(r.byName), maxCached)
	}
}

// TestKeysOfManyMachinesKeepWhatTheyOpened shows that keys whose streams are idle are not
// forgotten for others: what they have open would end with the next reload, and go on
// when they are revoked.
func TestKeysOfManyMachinesKeepWhatTheyOpened(t *testing.T) {
	const machines = 50_000
	r := newReplica(t, open(t))
	opened := make([]auth.Principal, machines)
	for i := range opened {
		id := fmt.Sprintf("%064x", i)
		now := time.Now()
		opened[i] = r.principal(r.hold(id, Key{Expires: now.Add(time.Hour), digest: id}, now))
	}
	ended := 0
	for _, p := range opened {
		if r.Recheck(p) != nil {
			ended++
		}
	}
	if ended > 0 {
		t.Errorf("what %d of %d keys have open would end", ended, machines)
	}
	r.drop(opened[0].AccessKey())
	if r.revoked.Load() != 1 || r.Recheck(opened[0]) == nil {
		t.Error("what the key that was used first has open goes on when it is revoked")
	}
}

// listed is a store that counts how often it lists records.
type listed struct {
	store.Database

	lists int
}

func (l *listed) List(ctx context.Context, q store.Query) ([]store.Record, error) {
	l.lists++
	return l.Database.List(ctx, q)
}

// TestRevokeReadsFewKeys shows that it makes no difference to Revoke how many keys there
// are.
func TestRevokeReadsFewKeys(t *testing.T) {
	settings := store.Config{Ring: seal.RandomRing(), Log: slog.New(slog.DiscardHandler)}
	file, err := sqlite.Open(filepath.Join(t.TempDir(), "drawbridge.db"), settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() }) // nothing is written any more
	if _, err := file.Replace(t.Context(), func(yield func(store.Row, error) bool) {
		for i := range 5000 {
			if !yield(settings.Seal(store.Record{
				Kind: kindKey, ID: digest(strconv.Itoa(i)), Tenant: "payments", Owner: "ci",
				Expires: time.Now().Add(time.Hour), Value: []byte(`{"scopes":[],"created":1}`),
			})) {
				return
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	text, k := create(t, file, time.Hour)
	db := &listed{Database: file}
	for _, id := range []string{"", k.digest[:1]} {
		if got, err := (Book{db}).Revoke(t.Context(), id); err == nil {
			t.Errorf("the key %s is revoked by %q, with which others begin", got.ID, id)
		}
	}
	db.lists = 0
	if got, err := (Book{db}).Revoke(t.Context(), text); err != nil || got.ID != k.ID || db.lists != 1 {
		t.Errorf("got %s and error %v after %d lists, want %s after one", got.ID, err, db.lists, k.ID)
	}
	other := digest("17")
	if got, err := (Book{db}).Revoke(t.Context(), other[:idSize]); err != nil || got.digest != other {
		t.Errorf("got %s and error %v, want %s", got.digest, err, other)
	}
}

// bulk is a store in which very many keys were revoked, the one with the last id too. A
// page of them takes as long as at a busy server.
type bulk struct {
	store.Store

	last store.Record
	page atomic.Int64
}

func (b *bulk) List(ctx context.Context, q store.Query) ([]store.Record, error) {
	time.Sleep(30 * time.Millisecond)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if b.page.Add(1) == 100 {
		return []store.Record{b.last}, nil
	}
	return make([]store.Record, q.Most()), nil
}

// TestTheLastOfManyRevokedKeysEnds has a tenant with 100,000 keys leave.
func TestTheLastOfManyRevokedKeysEnds(t *testing.T) {
	db := open(t)
	text, k := create(t, db, time.Hour)
	r := newReplica(t, db)
	p := taken(t, "before", r, text)
	synctest.Test(t, func(t *testing.T) {
		r.cfg.Store = &bulk{last: store.Record{ID: k.digest}}
		r.dropRevoked(t.Context())
	})
	if err := r.Recheck(p); err == nil {
		t.Error("what the last key has open goes on")
	}
}

// asked is a store without records that takes long, and says when it was asked.
type asked struct {
	store.Database

	when chan time.Time
}

func (a asked) List(context.Context, store.Query) ([]store.Record, error) {
	a.when <- time.Now()
	time.Sleep(pollTime / 4 * 3)
	return nil, nil
}

// TestRevokedKeysAreLookedForAsOften shows that a slow store does not put off the next
// look: a revoked key ends everywhere within a second.
func TestRevokedKeysAreLookedForAsOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := asked{when: make(chan time.Time)}
		keys := New(Config{Store: db, Now: time.Now, Taken: func() bool { return true }})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = keys.Run(ctx) })
		last := <-db.when
		for range 10 {
			next := <-db.when
			if pause := next.Sub(last); pause > pollTime {
				t.Errorf("%v between two looks, want %v", pause, pollTime)
			}
			last = next
		}
		cancel()
		running.Wait()
	})
}
