package ratelimit_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/ratelimit"
)

func ofSharer(name string, limit ratelimit.Limit) ratelimit.Bucket {
	return ratelimit.Bucket{Key: "tenant", Limit: limit, Sharer: name}
}

// TestOneSharerLeavesTheTokensOfTheQuiet shows that one who takes less than its part is
// never refused, whatever the others do and in whatever order they come, and that all
// together get no more than the bucket gives.
func TestOneSharerLeavesTheTokensOfTheQuiet(t *testing.T) {
	for _, test := range []struct {
		loud  int
		every time.Duration // the quiet one takes a token
	}{
		{1, 110 * time.Millisecond},
		{1, 25 * time.Millisecond},
		{2, 110 * time.Millisecond},
		{7, 110 * time.Millisecond},
		{15, time.Second},
		{15, 200 * time.Millisecond},
	} {
		t.Run(fmt.Sprintf("%d loud, quiet every %s", test.loud, test.every), func(t *testing.T) {
			eachLimiter(t, func(t *testing.T, l ratelimit.Limiter) {
				limit := ratelimit.Limit{Rate: 100, Burst: 200}
				random := rand.New(rand.NewPCG(7, uint64(test.loud)))
				begun, next, got := time.Now(), time.Duration(random.IntN(300))*time.Millisecond, 0
				for time.Since(begun) < 8*time.Second {
					for range random.IntN(min(10*test.loud, 40)) { // of which the rate gives less than one
						if exceeded(t, l, ofSharer(fmt.Sprint("loud", random.IntN(test.loud)),
							limit)) == nil {
							got++
						}
					}
					if at := time.Since(begun); at >= next {
						next = at + test.every
						if refusal := exceeded(t, l, ofSharer("quiet", limit)); refusal != nil {
							t.Fatalf("after %s the quiet one was refused: %+v", at, refusal)
						}
						got++
					}
					time.Sleep(time.Duration(random.IntN(9_000)) * time.Microsecond)
				}
				most := limit.Rate*time.Since(begun).Seconds() + float64(limit.Burst)
				if float64(got) > most || float64(got) < 0.95*(most-float64(limit.Burst)) {
					t.Errorf(
						"%d taken by all together, want at most %.0f, and nearly all that the rate gives",
						got, most)
				}
			})
		})
	}
}

// TestTheQuietFindTokensWhenOthersKnowTheRule shows that those who take only what the
// quiet may take, so that no share ever holds them back, leave a token to one more.
func TestTheQuietFindTokensWhenOthersKnowTheRule(t *testing.T) {
	eachLimiter(t, func(t *testing.T, l ratelimit.Limiter) {
		limit := ratelimit.Limit{Rate: 100, Burst: 200}
		for range 2000 { // one takes all that it can, the others follow
			if exceeded(t, l, ofSharer("loud", limit)) != nil {
				break
			}
		}
		for range 100 {
			for sharer := range 14 {
				for exceeded(t, l, ofSharer(fmt.Sprint("sly", sharer), limit)) == nil {
				}
			}
			if refusal := exceeded(t, l, ofSharer("quiet", limit)); refusal != nil {
				t.Fatalf("the quiet one was refused: %+v", refusal)
			}
			time.Sleep(time.Second)
		}
	})
}

func TestOneSharerAloneTakesHalfAndAllOfTheRate(t *testing.T) {
	for _, burst := range []int{1, 2, 3, 4, 5, 6, 7, 8, 20, 63, 64, 65, 200, 1 << 30} {
		t.Run(fmt.Sprint("burst ", burst), func(t *testing.T) {
			eachLimiter(t, func(t *testing.T, l ratelimit.Limiter) {
				half := (burst + 1) / 2
				if burst%4 == 1 && burst > 1 { // a token cannot be cut
					half--
				}
				limit := ratelimit.Limit{Rate: 10, Burst: burst}
				if most := limit.Most(); most != half {
					t.Errorf("Most says %d, want %d", most, half)
				}
				all := ofSharer("alone", limit)
				all.N = half
				if refusal := exceeded(t, l, all); refusal != nil {
					t.Fatalf("half of the burst: %+v", refusal)
				}
				one := ofSharer("alone", limit)
				if refusal := exceeded(t, l, one); burst > 1 && (refusal == nil || !refusal.Share) {
					t.Fatalf("more than half: got %+v, want a refusal for the share", refusal)
				}
				for begun, got := time.Now(), 0; got < 100; got++ {
					for refusal := exceeded(t, l, one); refusal != nil; refusal = exceeded(t, l, one) {
						time.Sleep(refusal.RetryAfter)
					}
					if took := time.Since(begun); took > time.Duration(got+1)*100*time.Millisecond+
						10*time.Millisecond {
						t.Fatalf("%d tokens took %s, want 100ms each", got+1, took)
					}
				}
			})
		})
	}
}

func TestRetryAfterOfAShareIsRight(t *testing.T) {
	eachLimiter(t, func(t *testing.T, l ratelimit.Limiter) {
		limit := ratelimit.Limit{Rate: 3, Burst: 40}
		random := rand.New(rand.NewPCG(1, 2))
		for range 500 {
			b := ofSharer(fmt.Sprint("user", random.IntN(3)), limit)
			b.N = 1 + random.IntN(8)
			refusal := exceeded(t, l, b)
			if refusal == nil {
				continue
			}
			if refusal.RetryAfter <= 0 || refusal.RetryAfter > 14*time.Second {
				t.Fatalf("got %+v, want a time after which the bucket is not yet full", refusal)
			}
			time.Sleep(refusal.RetryAfter - 2*time.Millisecond)
			if early := exceeded(t, l, b); early == nil {
				t.Fatalf("%+v was not refused before the time told", b)
			}
			time.Sleep(2 * time.Millisecond)
			if late := exceeded(t, l, b); late != nil {
				t.Fatalf("%+v after the time told: %+v", b, late)
			}
		}
	})
}

func TestARefusalSaysWhetherItIsTheShare(t *testing.T) {
	eachLimiter(t, func(t *testing.T, l ratelimit.Limiter) {
		limit := ratelimit.Limit{Rate: 1, Burst: 8}
		for sharer := range 8 { // each of them is quiet, and together they take all
			if refusal := exceeded(t, l, ofSharer(fmt.Sprint(sharer), limit)); refusal != nil {
				t.Fatal(refusal)
			}
		}
		if refusal := exceeded(t, l, ofSharer("new", limit)); refusal == nil || refusal.Share ||
			refusal.RetryAfter != time.Second {
			t.Errorf("of an empty bucket: got %+v, want a refusal for 1s, not for the share", refusal)
		}
		if refusal := exceeded(t, l, ofSharer("0", limit)); refusal == nil || !refusal.Share ||
			refusal.RetryAfter <= time.Second {
			t.Errorf("of an empty bucket, by one who took of it: got %+v, want a longer one, for the share",
				refusal)
		}
		never := ofSharer("new", limit)
		never.N = 5
		if refusal := exceeded(t, l, never); refusal == nil || !refusal.Share || refusal.RetryAfter != 0 {
			t.Errorf("more than half of the burst: got %+v, want a refusal for ever, for the share", refusal)
		}
	})
}

// TestAFloodOfSharersRefillsNoShare shows that one who is at its share cannot have that
// forgotten by taking under many names.
func TestAFloodOfSharersRefillsNoShare(t *testing.T) {
	eachLimiter(t, func(t *testing.T, l ratelimit.Limiter) {
		limit := ratelimit.Limit{Rate: 1, Burst: 1_000_000}
		loud := ofSharer("loud", limit)
		loud.N = 500_000
		if refusal := exceeded(t, l, loud); refusal != nil {
			t.Fatal(refusal)
		}
		for sharer := range 20_000 {
			_ = exceeded(t, l, ofSharer(fmt.Sprint(sharer), limit))
		}
		loud.N = 1
		if refusal := exceeded(t, l, loud); refusal == nil {
			t.Error("what it owed was forgotten")
		}
	})
}
