package auth_test

import (
	"crypto"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
)

// TestRememberedTokensExpire shows that a token that was verified before is refused once
// it has expired.
func TestRememberedTokensExpire(t *testing.T) {
	var passed atomic.Int64
	v, err := auth.New(auth.Config{
		Issuers: []auth.Issuer{acme(auth.Key{Public: secret}, "HS256")},
		Now:     func() time.Time { return at.Add(time.Duration(passed.Load())) },
	})
	if err != nil {
		t.Fatal(err)
	}
	token := mint(secret, header("HS256"), claims(at))
	for _, step := range []struct {
		passed time.Duration
		want   string
	}{
		{0, ""},
		{time.Hour, ""},
		{time.Hour + 29*time.Second, ""},
		{time.Hour + 30*time.Second, "expired"},
		{0, ""},
	} {
		passed.Store(int64(step.passed))
		if got := verify(t, v, token); got != step.want {
			t.Errorf("after %v: got reason %q, want %q", step.passed, got, step.want)
		}
	}
}

// TestConcurrentVerify verifies more tokens than are remembered from many goroutines;
// each gets its own principal.
func TestConcurrentVerify(t *testing.T) {
	v, err := auth.New(auth.Config{
		Issuers: []auth.Issuer{acme(auth.Key{Public: secret}, "HS256")},
		Now:     func() time.Time { return at }, CacheSize: 64,
	})
	if err != nil {
		t.Fatal(err)
	}
	tokens := make([]string, 200)
	for i := range tokens {
		tokens[i] = mint(secret, header("HS256"), claims(at).with("sub", fmt.Sprintf(`"user%d"`, i)))
	}
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := range 2000 {
				n := (i*7 + worker*13) % len(tokens)
				p, err := v.Verify(t.Context(), tokens[n])
				if err != nil || p.Subject != fmt.Sprint("user", n) {
					t.Errorf("token of user%d: got %+v, %v", n, p, err)
					return
				}
			}
		})
	}
	all.Wait()
}

func BenchmarkVerify(b *testing.B) {
	kinds := []struct {
		algorithm string
		private   crypto.PrivateKey
		key       auth.Key
	}{
		{"HS256", secret, auth.Key{Public: secret}},
		{"RS256", rsaKey(), keyOf("", rsaKey())},
		{"ES256", nil, keyOf("", newEC())},
		{"EdDSA", nil, keyOf("", newEd())},
	}
	for _, kind := range kinds {
		if kind.private == nil {
			kind.private = kind.key.Private
		}
		v, err := auth.New(auth.Config{
			Issuers: []auth.Issuer{acme(kind.key, kind.algorithm)},
			Now:     func() time.Time { return at }, CacheSize: 2,
		})
		if err != nil {
			b.Fatal(err)
		}
		tokens := make([]string, 64) // more than are remembered
		for i := range tokens {
			tokens[i] = mint(kind.private, header(kind.algorithm),
				claims(at).with("sub", fmt.Sprintf(`"user%d"`, i)))
		}
		b.Run("new/"+kind.algorithm, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := v.Verify(b.Context(), tokens[i%len(tokens)]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	v, err := auth.New(auth.Config{
		Issuers:   []auth.Issuer{acme(keyOf("", rsaKey()), "RS256")},
		CacheSize: 10_000,
	})
	if err != nil {
		b.Fatal(err)
	}
	token := mint(rsaKey(), header("RS256"), claims(time.Now()))
	b.Run("remembered", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := v.Verify(b.Context(), token); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("remembered/parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := v.Verify(b.Context(), token); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
}
