package allot_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/allot"
	"github.com/drawbridge-mcp/drawbridge/internal/lifetime/lifetimetest"
	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
)

const tenant = "acme"

// holder is one replica, as far as slots go.
type holder struct {
	*allot.Blocks

	tenant    string
	limit     int
	taken     atomic.Int64
	unnoticed atomic.Bool // the others take it for alive though Redis is away
	die       func()
}

// livingReplicas knows the replicas of a test that live.
type livingReplicas struct {
	mu     sync.Mutex // guards living
	living map[replica.ID]bool
}

var censuses sync.Map // testing.TB → *census

func (c *livingReplicas) set(self replica.ID, lives bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.living, self)
	if lives {
		c.living[self] = true
	}
}

func (c *livingReplicas) all() []replica.ID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.living))
}

// join adds a replica of at most replicas, which lives until it dies or the test ends.
func join(t *testing.T, store *redis.Store, self string, replicas, limit int) *holder {
	t.Helper()
	found, _ := censuses.LoadOrStore(t, &livingReplicas{living: make(map[replica.ID]bool)})
	here := found.(*livingReplicas) //nolint:forcetypeassert // nothing else is stored
	here.set(replica.ID(self), true)
	h, began := &holder{tenant: tenant, limit: limit}, time.Now()
	h.Blocks = allot.NewBlocks(allot.Config{
		Store: store, Self: self, Replicas: replicas, Living: here.all,
		Leads: func() (time.Time, bool) { return began, store.Up() == nil || h.unnoticed.Load() },
		Used:  func(allot.Kind, string) int { return int(h.taken.Load()) },
	})
	stop := lifetimetest.Run(t, h.Run)
	h.die = func() { stop(); here.set(replica.ID(self), false) }
	t.Cleanup(h.die)
	return h
}

// take takes a slot as the desk does.
func (h *holder) take(ctx context.Context) bool {
	within := func() bool {
		here := int64(h.Here(allot.Calls, h.tenant, h.limit))
		for {
			n := h.taken.Load()
			if n >= here {
				return false
			}
			if h.taken.CompareAndSwap(n, n+1) {
				return true
			}
		}
	}
	if within() {
		return true
	}
	h.More(ctx, allot.Calls, h.tenant, h.limit)
	return within()
}

func (h *holder) give() { h.taken.Add(-1) }

// until waits for a condition.
func until(t *testing.T, what string, met func() bool) {
	t.Helper()
	for began := time.Now(); !met(); {
		if time.Since(began) > 3*time.Minute {
			t.Fatalf("it never happened: %s", what)
		}
		<-time.After(10 * time.Millisecond)
	}
}

func TestOneReplicaMayUseAll(t *testing.T) {
	t.Parallel()
	store := redistest.Start(t).Store(t)
	a, b := join(t, store, "a", 3, 100), join(t, store, "b", 3, 100)
	for i := range 100 {
		if !a.take(t.Context()) {
			t.Fatalf("place %d was refused, and nobody else has one", i+1)
		}
	}
	if a.take(t.Context()) || b.take(t.Context()) {
		t.Error("there was a place beyond the limit")
	}
}

// TestFewSlotsAreFoundAtEachReplica: of a tenant with few slots, the first replica that
// was asked took all. A client whose load balancer sent each call to the next one was
// refused, though it had no call in work.
func TestFewSlotsAreFoundAtEachReplica(t *testing.T) {
	t.Parallel()
	store := redistest.Start(t).Store(t)
	for _, limit := range []int{2, 4, 9} {
		a := join(t, store, fmt.Sprint("a", limit), 2, limit)
		b := join(t, store, fmt.Sprint("b", limit), 2, limit)
		for _, h := range []*holder{a, b, a, b} {
			h.tenant = fmt.Sprint("few", limit)
			if !h.take(t.Context()) {
				t.Errorf("of %d slots none was found, and none is taken", limit)
				continue
			}
			h.give()
		}
	}
}

// TestTheSumIsNeverMoreThanTheLimit takes and gives back slots at three replicas in
// random order.
func TestTheSumIsNeverMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	store := redistest.Start(t).Store(t)
	const limit, replicas = 20, 3
	var sum, most, taken atomic.Int64
	var all sync.WaitGroup
	for r := range replicas {
		h := join(t, store, strconv.Itoa(r), replicas, limit)
		for worker := range 10 {
			random := rand.New(rand.NewPCG(uint64(r), uint64(worker)))
			all.Go(func() {
				for range 200 {
					if !h.take(t.Context()) {
						<-time.After(time.Duration(random.IntN(20)) * time.Millisecond)
						continue
					}
					now := sum.Add(1)
					for before := most.Load(); now > before &&
						!most.CompareAndSwap(before, now); before = most.Load() {
					}
					taken.Add(1)
					<-time.After(time.Duration(random.IntN(20)) * time.Millisecond)
					sum.Add(-1)
					h.give()
				}
			})
		}
	}
	all.Wait()
	if most.Load() > limit || taken.Load() < 1000 {
		t.Errorf("%d places at once of %d, %d taken in all", most.Load(), limit, taken.Load())
	}
	t.Logf("%d of %d places at once at most; %d taken, %d refused", most.Load(), limit, taken.Load(),
		replicas*10*200-taken.Load())
}

// TestAReplicaThatUsesAllGivesWay fills one replica with calls, and then asks at another
// while they end.
func TestAReplicaThatUsesAllGivesWay(t *testing.T) {
	t.Parallel()
	store := redistest.Start(t).Store(t)
	a, b := join(t, store, "a", 2, 10), join(t, store, "b", 2, 10)
	for a.take(t.Context()) {
	}
	if got := a.taken.Load(); got != 10 {
		t.Fatalf("the first took %d", got)
	}
	until(t, "the other has an even part", func() bool {
		b.take(t.Context())
		if a.taken.Load() > 5 {
			a.give() // a call ends, and the next comes at once
			a.take(t.Context())
		}
		return b.taken.Load() >= 5
	})
	if sum := a.taken.Load() + b.taken.Load(); sum > 10 {
		t.Errorf("%d of 10 places are taken", sum)
	}
}

func TestPlacesOfADeadReplicaComeBack(t *testing.T) {
	t.Parallel()
	store := redistest.Start(t).Store(t)
	a, b := join(t, store, "a", 2, 4), join(t, store, "b", 2, 4)
	for a.take(t.Context()) {
	}
	if b.take(t.Context()) {
		t.Fatal("a fifth place")
	}
	a.die()
	until(t, "the other has all", func() bool { b.take(t.Context()); return b.taken.Load() == 4 })
}

// TestSharesWithoutRedis shows what is given out while Redis is away, and that one slot
// is always left.
func TestSharesWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := server.Store(t)
	a := join(t, store, "a", 3, 100)
	for range 60 {
		if !a.take(t.Context()) {
			t.Fatal("a place was refused")
		}
	}
	server.Stop()
	until(t, "its share is left", func() bool { return a.Here(allot.Calls, tenant, 100) == 33 })
	for limit, want := range map[int]int{0: 0, 1: 1, 2: 1, 5: 1, 6: 2, 300: 100} {
		if got := a.Here(allot.Streams, tenant, limit); got != want {
			t.Errorf("of %d: got %d, want %d", limit, got, want)
		}
	}
	server.Begin(t)
	until(t, "all are there again", func() bool { a.take(t.Context()); return a.taken.Load() == 100 })
}

// TestABlockOutlivesRedisWithItsPresence shows that no slot is refused when Redis goes
// which was free until then: a block counts for as long as the others take its replica
// for alive, and the share where that is more.
func TestABlockOutlivesRedisWithItsPresence(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := server.Store(t)
	large, small := join(t, store, "a", 3, 90), join(t, store, "b", 3, 90)
	for range 45 {
		if !large.take(t.Context()) {
			t.Fatal("a place was refused")
		}
	}
	if !small.take(t.Context()) {
		t.Fatal("a place was refused")
	}
	large.unnoticed.Store(true)
	small.unnoticed.Store(true)
	server.Stop()
	until(t, "the share counts", func() bool { return small.Here(allot.Calls, tenant, 90) == 30 })
	if got := large.Here(allot.Calls, tenant, 90); got < 45 {
		t.Errorf("%d places are left of a block of which 45 are taken", got)
	}
	large.unnoticed.Store(false)
	if got := large.Here(allot.Calls, tenant, 90); got != 30 {
		t.Errorf("%d places when the others take it for dead, want its share of 30", got)
	}
}

// TestIdleTenantsCostNothing holds slots of many tenants that nobody asks for any more:
// Redis is not asked for them.
func TestIdleTenantsCostNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a := join(t, server.Store(t), "a", 3, 100)
	a.taken.Store(1)
	for i := range 200 {
		name := fmt.Sprint("tenant", i)
		if a.More(t.Context(), allot.Streams, name, 100); a.Here(allot.Streams, name, 100) == 0 {
			t.Fatal("places were refused")
		}
	}
	asked := func() string {
		reply := server.Exec(t, "INFO", "commandstats")
		_, stats, _ := strings.Cut(reply, "cmdstat_hset:calls=")
		calls, _, _ := strings.Cut(stats, ",")
		return calls
	}
	before, since := "", time.Now()
	until(t, "nothing is asked for three seconds", func() bool {
		if now := asked(); now != before {
			before, since = now, time.Now()
		}
		return time.Since(since) > 3*time.Second
	})
	held := 0
	for i := range 200 {
		held += a.Here(allot.Streams, fmt.Sprint("tenant", i), 100)
	}
	if held != 200 {
		t.Errorf("%d places are held, want the 200 that are taken", held)
	}
}

// TestJunkIsNoGrant puts values of another form where blocks are.
func TestJunkIsNoGrant(t *testing.T) {
	t.Parallel()
	store := redistest.Start(t).Store(t)
	key := redis.Key(tenant, "blocks", string(allot.Calls))
	for _, junk := range []string{
		"", "x", "1", "-5 0 99999999999999", "1 1 99999999999999", "1 1 7",
		"nan nan nan",
	} {
		if _, err := store.Do(t.Context(), redis.Command{
			Name: "HSET", Key: key,
			Args: []string{"z" + junk, junk},
		}); err != nil {
			t.Fatal(err)
		}
	}
	a := join(t, store, "a", 2, 10)
	for range 10 {
		if !a.take(t.Context()) {
			t.Fatal("junk took places")
		}
	}
	if a.take(t.Context()) {
		t.Error("junk gave places")
	}
	if _, err := store.DoAll(t.Context(), redis.Command{Name: "DEL", Key: key},
		redis.Command{Name: "SET", Key: key, Args: []string{"x"}}); err != nil {
		t.Fatal(err)
	}
	until(t, "the share is left", func() bool { return a.Here(allot.Calls, tenant, 10) == 5 })
}

// TestBlocksOfALaterVersionStay: a replica leaves blocks alone to which a later version
// has added something. It removed them, so that both gave out the same slots while the
// new version was rolled out.
func TestBlocksOfALaterVersionStay(t *testing.T) {
	t.Parallel()
	store := redistest.Start(t).Store(t)
	key := redis.Key(tenant, "blocks", string(allot.Calls))
	granted := time.Now()
	if _, err := store.Do(t.Context(), redis.Command{
		Name: "HSET", Key: key,
		Args: []string{"later", fmt.Sprintf("7 0 %d and more", granted.UnixMilli())},
	}); err != nil {
		t.Fatal(err)
	}
	a := join(t, store, "a", 2, 10)
	taken := 0
	for a.take(t.Context()) {
		taken++
	}
	if taken != 3 && time.Since(granted) < 4*time.Second {
		t.Errorf("%d places taken of 10, of which another has 7", taken)
	}
}

// TestPlacesOfAReplicaThatEndsAreGivenBack: the others need not wait for the five seconds
// until its block lapses, as they once had to.
func TestPlacesOfAReplicaThatEndsAreGivenBack(t *testing.T) {
	t.Parallel()
	store := redistest.Start(t).Store(t)
	a := join(t, store, "a", 2, 10)
	until(t, "all places are taken", func() bool { return a.take(t.Context()) && a.taken.Load() == 10 })
	a.taken.Store(0)
	a.die()
	held, err := store.Do(t.Context(),
		redis.Command{
			Name: "HGET", Key: redis.Key(tenant, "blocks", string(allot.Calls)),
			Args: []string{"a"},
		})
	if err != nil || !held.Nil() {
		t.Errorf("it holds %v, %v, want nothing", held, err)
	}
}

// TestABlockIsGivenUpOnceRedisIsBack: a block that lapses while Redis is away was
// forgotten here and not there, so nobody had its slots for as long as its replica lived.
func TestABlockIsGivenUpOnceRedisIsBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var skipped atomic.Int64
	cfg := server.Config()
	cfg.Called = func(kind string, o redis.Outcome, _ time.Duration) {
		if kind == "blocks" && o == redis.OutcomeSkipped {
			skipped.Add(1)
		}
	}
	store := redistest.Run(t, redis.New(cfg))
	a, b := join(t, store, "a", 2, 10), join(t, server.Store(t), "b", 2, 10)
	if a.More(t.Context(), allot.Calls, tenant, 10); a.Here(allot.Calls, tenant, 10) == 0 {
		t.Fatal("no block was granted")
	}
	server.Freeze(t)
	redistest.WaitDown(t, store)
	a.Idle()
	tried := skipped.Load()
	until(t, "it is given up in vain, again", func() bool { return skipped.Load() >= tried+2 })
	server.Thaw(t)
	until(t, "the other has all", func() bool { b.take(t.Context()); return b.taken.Load() == 10 })
}
