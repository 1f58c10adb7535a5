package share_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

func user(tenant, name int) share.User {
	return share.User{
		TenantID: fmt.Sprintf("t%d", tenant), Issuer: "https://issuer.test",
		Subject: fmt.Sprintf("u%d", name),
	}
}

// fill takes pieces until the first refusal, and returns how much it took.
func fill(t *testing.T, b *share.Budget, u share.User, piece int64) int64 {
	t.Helper()
	for taken := int64(0); taken <= b.Total(); taken += piece {
		if b.Take(u, piece) != nil {
			return taken
		}
	}
	t.Fatalf("%v took more than there is", u)
	return 0
}

func TestSharesOfSomeBudgets(t *testing.T) {
	t.Parallel()
	const total = 1 << 20
	for _, test := range []struct {
		name string
		fill []share.User // one after the other, each until it is refused
		want []int64      // that each of them has then, in 1/1024 of the total
	}{
		// 768 are common. The lone user gets half of 2/3 of them, and 2 by guarantee.
		{"one user alone", []share.User{user(1, 1)}, []int64{258}},
		{"two users of one tenant", []share.User{user(1, 1), user(1, 2)}, []int64{258, 130}},
		{"two tenants", []share.User{user(1, 1), user(2, 1)}, []int64{258, 172}},
		{"a stranger", []share.User{{Subject: "192.0.2.1"}}, []int64{32}},
		{"two strangers", []share.User{{Subject: "192.0.2.1"}, {Subject: "192.0.2.2"}}, []int64{32, 16}},
	} {
		b := share.New(total)
		for i, u := range test.fill {
			got := fill(t, b, u, 64)
			if want := test.want[i] << 10; got < want-3<<10 || got > want+3<<10 {
				t.Errorf("%s: %v got %d/1024, want about %d", test.name, u, got>>10, test.want[i])
			}
		}
	}
}

// TestManyUsersFillHalfOfTheBudget: a tenant that is alone uses two thirds of the common
// part, in whatever way its users share it.
func TestManyUsersFillHalfOfTheBudget(t *testing.T) {
	t.Parallel()
	b := share.New(1 << 20)
	for n := range 64 {
		fill(t, b, user(1, n), 64)
	}
	if got := b.InUse(); got < 512<<10 || got > 522<<10 {
		t.Errorf("a tenant alone holds %d/1024, want half and its guarantee", got>>10)
	}
	if most := share.New(1 << 20).Most(); most != 258<<10 {
		t.Errorf("one user gets %d at most, want %d", most, 258<<10)
	}
}

func TestErrorsNameWhoCanMakeRoom(t *testing.T) {
	t.Parallel()
	b := share.New(1 << 20)
	want := func(what string, u share.User, n int64, want error) {
		t.Helper()
		if got := b.Take(u, n); !errors.Is(got, want) {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	fill(t, b, user(1, 1), 64)
	want("a user that holds its share", user(1, 1), 64<<10, share.ErrUser)
	fill(t, b, user(1, 2), 64)
	want("a user whose colleagues hold much", user(1, 3), 128<<10, share.ErrTenant)
	want("more than there is", user(1, 3), 2<<20, share.ErrTotal)
	want("more than there is, whoever waits", user(1, 3), 2<<20, share.ErrNever)
	want("as much as one user ever gets", user(1, 3), b.Most(), share.ErrTenant)
	want("more than one user ever gets", user(1, 3), b.Most()+1, share.ErrNever)
	for n := range 8 {
		fill(t, b, user(2+n, 1), 64)
	}
	want("a newcomer that needs much", user(100, 1), 128<<10, share.ErrTotal)
	if err := b.Take(user(100, 1), 128<<10); errors.Is(err, share.ErrNever) {
		t.Errorf("what others left no room for: got %v, as if it never fitted", err)
	}
	want("a newcomer that needs little", user(100, 1), 512, nil)
}

func TestOwnBounds(t *testing.T) {
	t.Parallel()
	b := share.New(1000)
	take := func(u share.User, n int64, want error) {
		t.Helper()
		if got := b.TakeWithin(u, n, share.Bounds{Tenant: 10, User: 5}); !errors.Is(got, want) {
			t.Errorf("%v takes %d: got %v, want %v", u, n, got, want)
		}
	}
	take(user(1, 1), 6, share.ErrUser)
	take(user(1, 1), 5, nil)
	take(user(1, 1), 1, share.ErrUser)
	take(user(1, 2), 5, nil)
	take(user(1, 3), 1, share.ErrTenant)
	take(user(2, 1), 5, nil)
	if err := b.TakeWithin(user(3, 1), 1, share.Bounds{}); !errors.Is(err, share.ErrUser) {
		t.Errorf("bounds of zero: got %v", err)
	}
}

func TestSmallBudgets(t *testing.T) {
	t.Parallel()
	for _, total := range []int64{-1, 0, 1, 2, 3, 8, 64} {
		b := share.New(total)
		got := int64(0)
		for tenant := range 100 {
			got += fill(t, b, user(tenant, 1), 1)
		}
		if got != max(total, 0) || b.InUse() != got {
			t.Errorf("%d of %d could be taken by many, and %d are held", got, total, b.InUse())
		}
	}
	b := share.New(8)
	if alone := fill(t, b, user(1, 1), 1); alone < 3 || alone > 4 {
		t.Errorf("one user has %d of 8 places", alone)
	}
	for tenant := 2; tenant < 4; tenant++ {
		if err := b.Take(user(tenant, 1), 1); err != nil {
			t.Errorf("tenant %d finds none of 8 places: %v", tenant, err)
		}
	}
}

func TestGivingBackWhatIsNotHeldPanics(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{2, -1} {
		b := share.New(100)
		if err := b.Take(user(1, 1), 1); err != nil {
			t.Fatal(err)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("giving back %d of 1 passed", n)
				}
			}()
			b.Give(user(1, 1), n)
		}()
	}
	if b := share.New(100); b.Take(user(1, 1), -1) == nil {
		t.Error("a negative amount was taken")
	}
}

func TestTopHolders(t *testing.T) {
	t.Parallel()
	b := share.New(1000)
	for tenant, n := range []int64{3, 9, 5} {
		if err := errors.Join(b.Take(user(tenant, 1), n), b.Take(user(tenant, 2), 1)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := fmt.Sprint(b.Top(2)), "[{t1 10} {t2 6}]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := len(b.Top(10)); got != 3 {
		t.Errorf("got %d tenants, want 3", got)
	}
}

// TestAnythingGoes lets random tenants take and give back random amounts, aggressors far
// more than the others, and checks after each step what must hold at all times.
func TestAnythingGoes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		total := 1 + random.Int64N(1<<random.IntN(40))
		b := share.New(total)
		held, sum := map[share.User]int64{}, int64(0)
		for range 2000 {
			u := user(random.IntN(6), random.IntN(5))
			if random.IntN(12) == 0 {
				u = share.User{Subject: fmt.Sprint(random.IntN(5))}
			}
			if random.IntN(5) < 2 && held[u] > 0 {
				n := 1 + random.Int64N(held[u])
				b.Give(u, n)
				held[u] -= n
				sum -= n
			} else if n := 1 + random.Int64N(total/(1+random.Int64N(64))+1); b.Take(u, n) == nil {
				held[u] += n
				sum += n
			}
			if b.InUse() != sum || sum > total {
				t.Fatalf("seed %d: %d of %d held, counted %d", seed, sum, total, b.InUse())
			}
		}
		for u, n := range held {
			b.Give(u, n)
		}
		if b.InUse() != 0 || len(b.Top(100)) != 0 {
			t.Fatalf("seed %d: %d and %v are left after all was given back", seed, b.InUse(), b.Top(100))
		}
	}
}

// TestTheQuietAlwaysGetTheirGuarantee lets aggressors grab all that they can, at first
// and between the steps, while quiet users stay within what is guaranteed to a user. Some
// of the quiet have an aggressor for a colleague.
func TestTheQuietAlwaysGetTheirGuarantee(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		random := rand.New(rand.NewPCG(seed, 2))
		total := int64(1<<12) << random.IntN(24)
		b := share.New(total)
		guarantee := total / 4 / 32 / 4
		grab := func() {
			for tenant := range 20 {
				for name := range 3 {
					for n := total; n > 0; n /= 2 {
						for b.Take(user(tenant, name), n) == nil {
						}
					}
				}
			}
			for b.Take(share.User{Subject: "192.0.2.1"}, max(total/1000, 1)) == nil {
			}
		}
		grab()
		held := map[share.User]int64{}
		for range 200 {
			quiet := user(random.IntN(12)+20, random.IntN(4))
			if random.IntN(3) == 0 {
				quiet = user(random.IntN(20), 3)
			}
			if held[quiet] > 0 && random.IntN(2) == 0 {
				b.Give(quiet, held[quiet])
				held[quiet] = 0
			} else if n := 1 + random.Int64N(guarantee); held[quiet]+n <= guarantee {
				if err := b.Take(quiet, n); err != nil {
					t.Fatalf("seed %d: %v holds %d, asks for %d within %d of %d, and is refused: %v", seed,
						quiet, held[quiet], n, guarantee, total, err)
				}
				held[quiet] += n
			}
			if random.IntN(20) == 0 {
				grab()
			}
		}
	}
}

// TestANewcomerFindsMoreThanItsGuarantee: beside a few tenants that hold all they can
// there is room for real work.
func TestANewcomerFindsMoreThanItsGuarantee(t *testing.T) {
	t.Parallel()
	const total = 300 << 20
	b := share.New(total)
	for tenant, want := range []int64{24 << 20, 8 << 20, 2 << 20} {
		for name := range 50 {
			fill(t, b, user(tenant, name), 64<<10)
		}
		if room := b.Available(); room < want || b.Take(user(99, 1), room+1) == nil {
			t.Errorf("beside %d aggressors: room for %d, want %d at least, and no more", tenant+1, room, want)
		}
		if err := b.Take(user(99, 1), want); err != nil {
			t.Errorf("beside %d aggressors, %d MiB: %v", tenant+1, want>>20, err)
			continue
		}
		b.Give(user(99, 1), want)
	}
}

func TestTakenConcurrently(t *testing.T) {
	t.Parallel()
	b := share.New(1 << 16)
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			random := rand.New(rand.NewPCG(uint64(worker), 3))
			for range 2000 {
				u, n := user(worker%3, worker), 1+random.Int64N(1<<13)
				if b.Take(u, n) == nil {
					if held := b.InUse(); held > b.Total() || held < n {
						t.Errorf("%d of %d held", held, b.Total())
					}
					b.Give(u, n)
				}
			}
		})
	}
	group.Wait()
	if b.InUse() != 0 {
		t.Errorf("%d left", b.InUse())
	}
}

func TestTakingDoesNotAllocate(t *testing.T) {
	b := share.New(1 << 20)
	u, full := user(1, 1), user(2, 1)
	fill(t, b, full, 64)
	if n := testing.AllocsPerRun(1000, func() {
		if b.Take(u, 100) != nil || b.Take(full, 1<<15) == nil {
			t.Fatal("the wrong one was refused")
		}
		b.Give(u, 100)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkTakeAndGive(b *testing.B) {
	budget := share.New(1 << 30)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		u := user(rand.IntN(50), rand.IntN(5))
		for pb.Next() {
			if budget.Take(u, 100) == nil {
				budget.Give(u, 100)
			}
		}
	})
}
