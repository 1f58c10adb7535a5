package once_test

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lifetime/lifetimetest"
	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/internal/replica/replicatest"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/server/once"
)

// patience is how long a test waits for what is due soon.
const patience = 3 * time.Minute

func request(name, body byte) once.Request {
	return once.Request{
		User: share.User{TenantID: "acme", Issuer: "i", Subject: "alice"},
		Name: [32]byte{name}, Body: [32]byte{body},
	}
}

// lab is several replicas with one Redis.
type lab struct {
	server *redistest.Server
	ring   *seal.Ring
	hub    replicatest.Hub
}

// member is one of them.
type member struct {
	*once.Redis
	others *replicatest.Member
	store  *redis.Store
}

func newLab(t *testing.T) *lab {
	t.Helper()
	return &lab{server: redistest.Start(t), ring: seal.RandomRing()}
}

func (l *lab) join(t *testing.T, change ...func(*once.RedisConfig)) *member {
	t.Helper()
	m := &member{others: l.hub.Join(), store: redis.New(l.server.Config())}
	cfg := once.RedisConfig{Store: m.store, Seal: l.ring, Others: m.others, Quota: share.New(128 << 20)}
	for _, f := range change {
		f(&cfg)
	}
	m.Redis = once.NewRedis(cfg)
	redistest.Run(t, m.store)
	lifetimetest.Run(t, m.Run)
	return m
}

// stores calls f for the store of one replica, and for two that share a Redis: the second
// is where repeats arrive.
func stores(t *testing.T, f func(t *testing.T, first, second once.Store)) {
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		m := once.NewMemory(share.New(64 << 20))
		f(t, m, m)
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		a, b := l.join(t), l.join(t)
		f(t, forwarding{a, b}, forwarding{b, a})
	})
}

// forwarding is a store whose caller has what runs at another replica answered there.
type forwarding struct {
	*member
	other *member
}

// Begin implements once.Store.
func (s forwarding) Begin(ctx context.Context, r once.Request) (once.Claim, *once.Answer, error) {
	for {
		c, answer, err := s.member.Begin(ctx, r)
		at, elsewhere := errors.AsType[*once.ElsewhereError](err)
		if !elsewhere {
			return c, answer, err
		}
		if at.Home != s.other.others.Self() {
			return nil, nil, err
		}
		c, answer, err = s.other.Begin(ctx, r)
		if _, elsewhere = errors.AsType[*once.ElsewhereError](err); !elsewhere {
			return c, answer, err
		}
	}
}

// claim begins a request that nobody has begun.
func claim(t *testing.T, s once.Store, r once.Request) once.Claim {
	t.Helper()
	c, answer, err := s.Begin(t.Context(), r)
	if c == nil || answer != nil || err != nil {
		t.Fatalf("got claim %v, answer %v, error %v; want a claim", c, answer, err)
	}
	return c
}

// repeat begins a request that was begun before.
func repeat(t *testing.T, s once.Store, r once.Request) (*once.Answer, error) {
	t.Helper()
	c, answer, err := s.Begin(t.Context(), r)
	if c != nil {
		t.Fatal("got a claim for a request that ran")
	}
	return answer, err
}

func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	for began := time.Now(); !check(); {
		if time.Since(began) > patience {
			t.Fatalf("not within %v: %s", patience, what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func TestARepeatGetsTheAnswer(t *testing.T) {
	t.Parallel()
	stores(t, func(t *testing.T, first, second once.Store) {
		want := once.Answer{Status: 200, Message: []byte(`{"n":1}`)}
		c := claim(t, first, request(1, 1))
		got := make(chan *once.Answer, 2)
		for _, s := range []once.Store{first, second} {
			go func() {
				_, answer, err := s.Begin(context.Background(), request(1, 1))
				if err != nil {
					t.Error(err)
				}
				got <- answer
			}()
		}
		eventually(t, "somebody waits", c.Wanted)
		if _, err := repeat(t, second, request(1, 2)); !errors.Is(err, once.ErrBody) {
			t.Errorf("another body while it runs: got %v, want ErrBody", err)
		}
		claim(t, second, request(2, 1)).Free(t.Context()) // another key
		c.Finish(t.Context(), want)
		for range 2 {
			if answer := <-got; answer == nil || answer.Status != want.Status ||
				!bytes.Equal(answer.Message, want.Message) {
				t.Errorf("who waited got %v, want %v", answer, want)
			}
		}
		if answer, err := repeat(t, second, request(1, 1)); err != nil ||
			!bytes.Equal(answer.Message, want.Message) {
			t.Errorf("later: got %v, %v", answer, err)
		}
		if _, err := repeat(t, second, request(1, 2)); !errors.Is(err, once.ErrBody) {
			t.Errorf("another body later: got %v, want ErrBody", err)
		}
	})
}

func TestAFreedKeyIsFree(t *testing.T) {
	t.Parallel()
	stores(t, func(t *testing.T, first, second once.Store) {
		c := claim(t, first, request(1, 1))
		next := make(chan once.Claim)
		go func() {
			c, _, err := second.Begin(context.Background(), request(1, 1))
			if err != nil {
				t.Error(err)
			}
			next <- c
		}()
		eventually(t, "somebody waits", c.Wanted)
		c.Free(t.Context())
		c = <-next
		if c == nil {
			t.Fatal("who waited got no claim")
		}
		c.Free(t.Context())
		claim(t, second, request(1, 2)).Free(t.Context())
	})
}

// TestOneOfManyRuns sends a request to both replicas again and again, at the same time.
func TestOneOfManyRuns(t *testing.T) {
	t.Parallel()
	stores(t, func(t *testing.T, first, second once.Store) {
		var ran atomic.Int64
		var group sync.WaitGroup
		for n := range 20 {
			group.Go(func() {
				c, answer, err := []once.Store{first, second}[n%2].Begin(context.Background(), request(1, 1))
				switch {
				case err != nil:
					t.Error(err)
				case c != nil:
					ran.Add(1)
					c.Finish(context.Background(), once.Answer{Status: 200, Message: []byte("x")})
				case string(answer.Message) != "x":
					t.Errorf("got %s", answer.Message)
				}
			})
		}
		group.Wait()
		if ran.Load() != 1 {
			t.Errorf("it ran %d times, want once", ran.Load())
		}
	})
}

func TestWhatIsTooLargeIsNotKept(t *testing.T) {
	t.Parallel()
	stores(t, func(t *testing.T, first, second once.Store) {
		claim(t, first, request(1, 1)).Finish(t.Context(),
			once.Answer{Status: 200, Message: make([]byte, once.MaxAnswer+1)})
		if _, err := repeat(t, second, request(1, 1)); !errors.Is(err, once.ErrUnkept) {
			t.Errorf("got %v, want ErrUnkept", err)
		}
		claim(t, first, request(2, 1)).Finish(t.Context(),
			once.Answer{Status: 200, Message: make([]byte, once.MaxAnswer)})
		if answer, err := repeat(t, second, request(2, 1)); err != nil ||
			len(answer.Message) != once.MaxAnswer {
			t.Errorf("of the largest: got %v, want it", err)
		}
	})
}

// TestOneUserFillsOnlyItsShare keeps answers of one user until there is no room, and then
// one of another.
func TestOneUserFillsOnlyItsShare(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, s once.Store, total int64) {
		t.Helper()
		held := int64(0)
		for n := range 10_000 {
			r := request(0, 1)
			r.Name = [32]byte{byte(n), byte(n >> 8), 1}
			c, _, err := s.Begin(t.Context(), r)
			if errors.Is(err, once.ErrFull) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			c.Finish(t.Context(), once.Answer{Status: 200, Message: make([]byte, 2000)})
			held += 2000
		}
		if held == 0 || held > total/2 {
			t.Errorf("one user's answers hold %d of %d", held, total)
		}
		other := request(9, 9)
		other.User.TenantID = "globex"
		claim(t, s, other).Finish(t.Context(), once.Answer{Status: 200, Message: make([]byte, 2000)})
		if answer, err := repeat(t, s, other); err != nil || len(answer.Message) != 2000 {
			t.Errorf("another tenant: got %v, want its answer", err)
		}
	}
	t.Run("memory", func(t *testing.T) {
		memory := share.New(16 << 20)
		check(t, once.NewMemory(memory), 1<<20)
		if memory.InUse() > 1<<20 {
			t.Errorf("%d bytes of the memory of all are held, want a sixteenth at most", memory.InUse())
		}
	})
	t.Run("redis", func(t *testing.T) {
		check(t, newLab(t).join(t, func(c *once.RedisConfig) { c.Quota = share.New(2 << 20) }), 1<<20)
	})
}

// TestARequestOfADeadReplicaDoesNotRunAgain lets a replica die with a request: a repeat
// elsewhere must not run it.
func TestARequestOfADeadReplicaDoesNotRunAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.join(t), l.join(t)
	claim(t, a, request(1, 1))
	l.hub.Leave(a.others)
	if _, err := repeat(t, b, request(1, 1)); !errors.Is(err, once.ErrUnknown) {
		t.Errorf("got %v, want ErrUnknown", err)
	}
}

// TestWithoutRedisNothingRuns stops Redis, and starts an empty one.
func TestWithoutRedisNothingRuns(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.join(t), l.join(t)
	c := claim(t, a, request(1, 1))
	l.server.Stop()
	if _, err := repeat(t, b, request(2, 1)); !errors.Is(err, redis.ErrDown) {
		t.Errorf("got %v, want ErrDown", err)
	}
	c.Finish(t.Context(), once.Answer{Status: 200, Message: []byte("x")})
	l.server.Begin(t)
	eventually(t, "the answer is written when Redis is back", func() bool {
		reply, err := b.store.Do(t.Context(), redis.Command{Name: "EXISTS", Key: recordKey("01")})
		n, _ := reply.Int()
		return err == nil && n == 1
	})
	if answer, err := repeat(t, b, request(1, 1)); err != nil || string(answer.Message) != "x" {
		t.Errorf("later: got %v, %v; want the answer", answer, err)
	}
}

// TestARepeatWhereTheCallRanNeedsNoRedis stops Redis while requests run. Repeats at the
// replica that runs them wait for them, or come later, and get what became of them:
// nobody is told that nothing was done. One that had no effect may run again.
func TestARepeatWhereTheCallRanNeedsNoRedis(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a := l.join(t)
	ran, freed := claim(t, a, request(1, 1)), claim(t, a, request(2, 1))
	waiting := make(chan *once.Answer, 1)
	go func() {
		_, answer, err := a.Begin(context.Background(), request(1, 1))
		if err != nil {
			t.Error("a repeat that waits:", err)
		}
		waiting <- answer
	}()
	eventually(t, "the repeat waits", ran.Wanted)
	l.server.Stop()
	ran.Finish(t.Context(), once.Answer{Status: 200, Message: []byte("x")})
	freed.Free(t.Context())
	if answer := <-waiting; answer == nil || string(answer.Message) != "x" {
		t.Errorf("a repeat that waits got %v, want the answer", answer)
	}
	if answer, err := repeat(t, a, request(1, 1)); err != nil || string(answer.Message) != "x" {
		t.Errorf("a later one got %v, %v; want the answer", answer, err)
	}
	if _, err := repeat(t, a, request(1, 2)); !errors.Is(err, once.ErrBody) {
		t.Errorf("another body: got %v, want ErrBody", err)
	}
	if _, err := repeat(t, a, request(2, 2)); !errors.Is(err, redis.ErrDown) {
		t.Errorf("the key of one that had no effect: got %v, want ErrDown", err)
	}
	l.server.Begin(t)
	var c once.Claim
	eventually(t, "it runs when Redis is back", func() (runs bool) {
		c, _, _ = a.Begin(t.Context(), request(2, 2))
		return c != nil
	})
	c.Free(t.Context())
	if answer, err := repeat(t, a, request(1, 1)); err != nil || string(answer.Message) != "x" {
		t.Errorf("when Redis is back: got %v, %v; want the answer", answer, err)
	}
}

// TestAnAnswerOutlivesTheStopOfItsReplica freezes Redis when a request ends, shortly
// before its replica stops. Redis goes on just in time, so repeats elsewhere get the
// answer.
func TestAnAnswerOutlivesTheStopOfItsReplica(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	b := l.join(t)
	store := redis.New(l.server.Config())
	others := l.hub.Join()
	stopping := once.NewRedis(once.RedisConfig{
		Store: store, Seal: l.ring, Others: others, Quota: share.New(128 << 20),
	})
	redistest.Run(t, store)
	c := claim(t, stopping, request(1, 1))
	l.server.Freeze(t)
	c.Finish(t.Context(), once.Answer{Status: 200, Message: []byte("x")})
	l.server.Thaw(t)
	redistest.WaitUp(t, store)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := stopping.Run(ctx); err != nil || stopping.Claims() != 0 {
		t.Errorf("got error %v, and %d claims are left; want none", err, stopping.Claims())
	}
	l.hub.Leave(others)
	redistest.WaitUp(t, b.store)
	if answer, err := repeat(t, b, request(1, 1)); err != nil || string(answer.Message) != "x" {
		t.Errorf("a repeat: got %v, %v; want the answer", answer, err)
	}
}

// TestRequestsWithoutRedisLeaveNothing sends many while Redis is away. None leaves a
// claim that is to be taken back, and would be of nobody's share.
func TestRequestsWithoutRedisLeaveNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a := l.join(t)
	l.server.Stop()
	redistest.WaitDown(t, a.store)
	before := a.Claims()
	for i := range 100 {
		if _, err := repeat(t, a, request(byte(i), 1)); !errors.Is(err, redis.ErrDown) {
			t.Fatalf("got %v, want ErrDown", err)
		}
	}
	if got := a.Claims(); got != before {
		t.Errorf("%d claims are remembered, want %d", got, before)
	}
}

// recordKey is where the record of a request stands whose name begins with these two
// digits.
func recordKey(n string) string { return redis.Key("acme", "once", n+strings.Repeat("0", 62)) }

// TestForgedRecordsAreNoAnswers puts into Redis what somebody with access to it could:
// the record of another key, and noise.
func TestForgedRecordsAreNoAnswers(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a := l.join(t)
	claim(t, a, request(1, 1)).Finish(t.Context(), once.Answer{Status: 200, Message: []byte("x")})
	reply, err := a.store.Do(t.Context(), redis.Command{Name: "GET", Key: recordKey("01")})
	if err != nil {
		t.Fatal(err)
	}
	genuine, err := reply.Text()
	if err != nil || strings.Contains(genuine, "x") && len(genuine) < 10 {
		t.Fatalf("got %q, %v; want a sealed record", genuine, err)
	}
	for name, forged := range map[string]string{"02": genuine, "03": "", "04": strings.Repeat("r", 100)} {
		if _, err := a.store.Do(t.Context(), redis.Command{
			Name: "SET", Key: recordKey(name),
			Args: []string{forged},
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := repeat(t, a, request(name[1]-'0', 1)); !errors.Is(err, once.ErrUnknown) {
			t.Errorf("%s: got %v, want ErrUnknown", name, err)
		}
	}
}

// TestAnOldAnswerIsNotGivenAgain: a request finds no answer that is older than ten
// minutes. Who could write to Redis put one back, and a request that the client had made
// long after got it.
func TestAnOldAnswerIsNotGivenAgain(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		back time.Duration
		want error
	}{
		{"in time, by a clock that is behind", -30 * time.Second, nil},
		{"in time", 9 * time.Minute, nil},
		{"too late", 12 * time.Minute, once.ErrUnknown},
		{"from the future", -12 * time.Minute, once.ErrUnknown},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			a := l.join(t)
			b := l.join(
				t, func(
					cfg *once.RedisConfig,
				) {
					cfg.Now = func() time.Time { return time.Now().Add(test.back) }
				})
			claim(t, a, request(1, 1)).Finish(t.Context(), once.Answer{Status: 200, Message: []byte("x")})
			answer, err := repeat(t, b, request(1, 1))
			if !errors.Is(err, test.want) || (answer == nil) != (err != nil) {
				t.Errorf("got %v and error %v, want error %v", answer, err, test.want)
			}
		})
	}
}

// TestAKeyOfAnotherTypeLetsNoRequestRun puts values of other types where records are: it
// cannot be known whether the request ran.
func TestAKeyOfAnotherTypeLetsNoRequestRun(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a := l.join(t)
	for i, spoil := range [][]string{
		{"LPUSH", "junk"},
		{"SADD", "junk"},
		{"HSET", "f", "junk"},
		{"XADD", "*", "f", "junk"},
		{"ZADD", "1", "junk"},
	} {
		l.server.Exec(t, append([]string{spoil[0], recordKey("0" + strconv.Itoa(i))}, spoil[1:]...)...)
		if _, err := repeat(t, a, request(byte(i), 1)); !errors.Is(err, redis.ErrDown) &&
			!errors.Is(err, once.ErrUnknown) {
			t.Errorf("%s: got %v, want an error", spoil[0], err)
		}
	}
}

// TestAClaimThatNobodyKnowsIsDropped leaves a claim in Redis whose replica lives and does
// not have it: a repeat there is the next to run, since nothing has run.
func TestAClaimThatNobodyKnowsIsDropped(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.join(t), l.join(t)
	// claims in the name of a
	store := redis.New(l.server.Config())
	ghost := once.NewRedis(once.RedisConfig{
		Store: store, Seal: l.ring, Others: a.others, Quota: share.New(128 << 20),
	})
	redistest.Run(t, store)
	claim(t, ghost, request(1, 1))
	_, err := repeat(t, b, request(1, 1))
	if at, elsewhere := errors.AsType[*once.ElsewhereError](err); !elsewhere || at.Home != a.others.Self() {
		t.Errorf("at another replica: got %v, want where it runs", err)
	}
	claim(t, a, request(1, 1)).Free(t.Context())
	claim(t, b, request(1, 1)).Free(t.Context())
}

// TestAnswersCountInTheQuota fills what the replica may have in Redis with other things:
// a request with a new key is refused then, and runs when there is room again. One whose
// answer is kept gets that.
func TestAnswersCountInTheQuota(t *testing.T) {
	t.Parallel()
	quota := share.New(1 << 20)
	a := newLab(t).join(t, func(c *once.RedisConfig) { c.Quota = quota })
	claim(t, a, request(2, 1)).Finish(t.Context(), once.Answer{Status: 200, Message: []byte("x")})
	others := share.User{TenantID: "acme", Subject: "another"}
	for quota.Take(others, 512) == nil {
	}
	held := quota.InUseBy("acme")
	for quota.Take(request(1, 1).User, 512) == nil {
	}
	if _, err := repeat(t, a, request(1, 1)); !errors.Is(err, once.ErrFull) {
		t.Errorf("got %v, want ErrFull", err)
	}
	if answer, err := repeat(t, a, request(2, 1)); err != nil || string(answer.Message) != "x" {
		t.Errorf("what is kept: got %v, %v; want the answer", answer, err)
	}
	quota.Give(request(1, 1).User, quota.InUseBy("acme")-held)
	claim(t, a, request(1, 1)).Finish(t.Context(), once.Answer{Status: 200, Message: make([]byte, 1000)})
	if got := quota.InUseBy("acme") - held; got < 1000 {
		t.Errorf("%d bytes are counted for an answer of 1000", got)
	}
}
