package seal_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/seal"
)

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// genuine was sealed with the key of ones for the purpose "session"; it holds "acme".
const genuine = "AfHSlmpZiLVidjIlGZjIZaeNc98RYuuUesWYPQZ45JE2HiYR"

func newKey(fill byte) []byte { return bytes.Repeat([]byte{fill}, seal.KeySize) }

func ringOf(t testing.TB, fills ...byte) *seal.Ring {
	t.Helper()
	keys := make([][]byte, len(fills))
	for i, fill := range fills {
		keys[i] = newKey(fill)
	}
	ring, err := seal.NewRing(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

func sealed(t testing.TB, ring *seal.Ring, purpose string, plain []byte) string {
	t.Helper()
	token, err := ring.Seal(purpose, plain)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, ring := range []*seal.Ring{ringOf(t, 1), seal.RandomRing()} {
		for _, size := range []int{0, 1, 2, 3, 100, seal.MaxPlain} {
			plain := bytes.Repeat([]byte{'x'}, size)
			token := sealed(t, ring, "cursor", plain)
			if len(token) > seal.MaxLength || strings.Trim(token, alphabet) != "" {
				t.Errorf("%d bytes: got the token %q", size, token)
			}
			if got, err := ring.Open("cursor", token); err != nil || !bytes.Equal(got, plain) {
				t.Errorf("%d bytes: opened to %q, error %v", size, got, err)
			}
			if other := sealed(t, ring, "cursor", plain); other == token {
				t.Errorf("%d bytes: the same token twice", size)
			}
		}
	}
}

// TestFormatIsKept shows that a token outlives the build that made it.
func TestFormatIsKept(t *testing.T) {
	t.Parallel()
	if got, err := ringOf(t, 2, 1).Open("session", genuine); err != nil || string(got) != "acme" {
		t.Errorf("opened to %q, error %v, want %q", got, err, "acme")
	}
}

func TestTooLongToSeal(t *testing.T) {
	t.Parallel()
	if token, err := ringOf(t, 1).Seal("cursor", make([]byte, seal.MaxPlain+1)); err == nil {
		t.Errorf("got a token of %d bytes, want an error", len(token))
	}
}

// TestT29TamperedTokens changes each character of a token to every other one, cuts it and
// adds to it.
func TestT29TamperedTokens(t *testing.T) {
	t.Parallel()
	ring := ringOf(t, 1, 2)
	for _, plain := range []string{"", "a", "ab", "acme\x00alice"} {
		token := sealed(t, ring, "cursor", []byte(plain))
		var changed []string
		for i := range len(token) {
			for _, c := range alphabet + "+/=. \x00\n\r\xff" {
				if byte(c) != token[i] {
					changed = append(changed, token[:i]+string(c)+token[i+1:])
				}
			}
			for _, c := range "A=\n\r " {
				changed = append(changed, token[:i]+string(c)+token[i:])
			}
			changed = append(changed, token[:i], token[i+1:], token[:i]+token[i+1:])
		}
		for _, suffix := range []string{"A", "AA", "AAAA", "=", "==", "\n", "\r\n", " ", "\x00", token} {
			changed = append(changed, token+suffix)
		}
		for _, attempt := range changed {
			if got, err := ring.Open("cursor", attempt); !errors.Is(err, seal.ErrInvalid) {
				t.Fatalf("%q, made of %q, opened to %q, error %v", attempt, token, got, err)
			}
		}
	}
}

func TestT31ForeignTokens(t *testing.T) {
	t.Parallel()
	ring := ringOf(t, 1)
	token := sealed(t, ring, "session", []byte("secret"))
	tests := []struct {
		name    string
		ring    *seal.Ring
		purpose string
		token   string
	}{
		{"another purpose", ring, "cursor", token},
		{"a purpose that begins alike", ring, "sessio", token},
		{"no purpose", ring, "", token},
		{"another ring", ringOf(t, 2), "session", token},
		{"no token", ring, "session", ""},
		{"too short", ring, "session", "AAAA"},
		{"too long", ring, "session", strings.Repeat("A", seal.MaxLength+4)},
		{"not base64", ring, "session", strings.Repeat("%", 64)},
		{
			"standard alphabet with padding", ring, "session",
			base64.StdEncoding.EncodeToString(make([]byte, 64)),
		},
		{"zeros", ring, "session", strings.Repeat("A", 64)},
	}
	for _, test := range tests {
		if got, err := test.ring.Open(test.purpose, test.token); !errors.Is(err, seal.ErrInvalid) ||
			got != nil {
			t.Errorf("%s: opened to %q, error %v; want %v", test.name, got, err, seal.ErrInvalid)
		}
	}
}

func TestRotation(t *testing.T) {
	t.Parallel()
	before, during, after := ringOf(t, 1), ringOf(t, 2, 1), ringOf(t, 2)
	old := sealed(t, before, "session", []byte("old"))
	fresh := sealed(t, during, "session", []byte("new"))
	tests := []struct {
		name  string
		ring  *seal.Ring
		token string
		opens bool
	}{
		{"the old key still opens", during, old, true},
		{"the new key seals", after, fresh, true},
		{"the new key is unknown before", before, fresh, false},
		{"the old key is gone after", after, old, false},
	}
	for _, test := range tests {
		if _, err := test.ring.Open("session", test.token); (err == nil) != test.opens {
			t.Errorf("%s: error %v, want it to open: %v", test.name, err, test.opens)
		}
	}
}

func TestLongTokens(t *testing.T) {
	t.Parallel()
	ring := ringOf(t, 1)
	for _, size := range []int{0, seal.MaxPlain, seal.MaxPlain + 1, seal.MaxLong} {
		plain := bytes.Repeat([]byte{'p'}, size)
		token, err := ring.SealLong("state", plain)
		if err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if got, err := ring.OpenLong("state", token); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("%d bytes: opened to %d bytes, error %v", size, len(got), err)
		}
		if _, err := ring.OpenLong("other", token); !errors.Is(err, seal.ErrInvalid) {
			t.Errorf("%d bytes: error %v for another purpose, want ErrInvalid", size, err)
		}
		if _, err := ring.Open("state", token); (err == nil) != (size <= seal.MaxPlain) {
			t.Errorf("%d bytes: Open returns %v", size, err)
		}
		if _, err := ring.OpenLong("state", token+"AAAA"); !errors.Is(err, seal.ErrInvalid) {
			t.Errorf("%d bytes: error %v for a longer token, want ErrInvalid", size, err)
		}
	}
	if _, err := ring.SealLong("state", make([]byte, seal.MaxLong+1)); err == nil {
		t.Error("more than MaxLong bytes were sealed")
	}
}

func TestBadRings(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string][][]byte{
		"none": nil, "short": {newKey(1)[1:]},
		"long": {append(newKey(1), 0)}, "second is empty": {newKey(1), {}},
	} {
		if _, err := seal.NewRing(keys...); err == nil {
			t.Errorf("%s: got a ring, want an error", name)
		}
	}
}

func TestParseKeys(t *testing.T) {
	t.Parallel()
	one, two := base64.StdEncoding.EncodeToString(newKey(1)), base64.StdEncoding.EncodeToString(newKey(2))
	tests := []struct {
		name, file string
		keys       int
		problem    string
	}{
		{"one", one, 1, ""},
		{"two with comments", "# newest first\r\n" + two + "\r\n\n  # older\n  " + one + "  \n", 2, ""},
		{"nothing", "# keys\n\n", 0, "no key"},
		{"too short", one + "\n" + one[4:] + "\n", 0, "line 2"},
		{"too long", one[:40] + one + "\n", 0, "line 1"},
		{"not base64", "\n\nhunter2\n", 0, "line 3"},
		{"twice", one + "\n" + two + "\n" + one + "\n", 0, "line 3"},
	}
	for _, test := range tests {
		keys, err := seal.ParseKeys([]byte(test.file))
		if test.problem == "" && (err != nil || len(keys) != test.keys) {
			t.Errorf("%s: got %d keys and error %v, want %d", test.name, len(keys), err, test.keys)
		}
		if test.problem != "" && (err == nil || !strings.Contains(err.Error(), test.problem) ||
			strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%s: got error %v, want one with %q", test.name, err, test.problem)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	ring := ringOf(t, 1)
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			plain := bytes.Repeat([]byte{byte(worker)}, 50)
			for range 200 {
				token, err := ring.Seal("p", plain)
				if err != nil {
					t.Error(err)
					return
				}
				if got, err := ring.Open("p", token); err != nil || !bytes.Equal(got, plain) {
					t.Errorf("opened to %q, error %v", got, err)
				}
			}
		})
	}
	group.Wait()
}

// FuzzOpen shows that nothing opens but what was sealed, and that a token has one
// spelling.
func FuzzOpen(f *testing.F) {
	ring := ringOf(f, 1, 2)
	f.Add("session", genuine)
	f.Add("session", genuine+"\n")
	f.Add("cursor", genuine)
	f.Fuzz(func(t *testing.T, purpose, token string) {
		got, err := ring.Open(purpose, token)
		if purpose == "session" && token == genuine {
			return
		}
		if !errors.Is(err, seal.ErrInvalid) || got != nil {
			t.Errorf("%q for %q opened to %q, error %v", token, purpose, got, err)
		}
	})
}

func BenchmarkSeal(b *testing.B) {
	ring, plain := ringOf(b, 1), make([]byte, 150)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ring.Seal("session", plain); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	ring := ringOf(b, 1, 2)
	token := sealed(b, ring, "session", make([]byte, 150))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ring.Open("session", token); err != nil {
			b.Fatal(err)
		}
	}
}

// TestKeysAreRotatedWhileTokensAreUsed lets two rings, as of two replicas, go through the
// steps of a rotation one after the other, while others seal with either and open with
// the other. Whatever was sealed opens at both.
func TestKeysAreRotatedWhileTokensAreUsed(t *testing.T) {
	t.Parallel()
	rings := [2]*seal.Ring{ringOf(t, 1), ringOf(t, 1)}
	done, opened := make(chan struct{}), make(chan struct{}, 1)
	var group sync.WaitGroup
	for worker := range 2 {
		group.Go(func() {
			for {
				token, err := rings[worker].Seal("p", []byte("text"))
				if err != nil {
					t.Error(err)
				}
				if _, err := rings[1-worker].Open("p", token); err != nil {
					t.Errorf("replica %d could not open what %d has sealed", 1-worker, worker)
				}
				bytes := rings[worker].SealBytes("p", []byte("text"))
				if _, err := rings[1-worker].OpenBytes("p", bytes); err != nil {
					t.Errorf("replica %d could not open bytes that %d has sealed", 1-worker, worker)
				}
				select {
				case opened <- struct{}{}:
				case <-done:
					return
				default:
				}
			}
		})
	}
	for _, step := range [][]byte{{1, 2}, {2, 1}} {
		for _, ring := range rings {
			<-opened
			ring.Adopt(ringOf(t, step...))
			<-opened
		}
	}
	close(done)
	group.Wait()
	old := sealed(t, ringOf(t, 1), "p", nil)
	rings[0].Adopt(ringOf(t, 2))
	if _, err := rings[0].Open("p", old); !errors.Is(err, seal.ErrInvalid) {
		t.Errorf("a token of a key that was removed: got %v, want ErrInvalid", err)
	}
}

func TestIDsNameKeys(t *testing.T) {
	t.Parallel()
	ring := ringOf(t, 1, 2)
	ids := ring.IDs()
	if want := []string{"f1d296", ringOf(t, 2).IDs()[0]}; !slices.Equal(ids, want) {
		t.Errorf("got %v, want %v", ids, want)
	}
	raw, err := base64.RawURLEncoding.DecodeString(sealed(t, ring, "p", nil))
	if err != nil || hex.EncodeToString(raw[1:4]) != ids[0] {
		t.Errorf("a token begins with %x, want the id %s", raw[1:4], ids[0])
	}
}

// TestDerivedSecretsFollowTheKeys shows that derived secrets are the same for the same
// key, differ by key and purpose, and come in the order of the keys.
func TestDerivedSecretsFollowTheKeys(t *testing.T) {
	t.Parallel()
	ring := ringOf(t, 1, 2)
	both := ring.Derive("signing")
	if len(both) != 2 || len(both[0]) != seal.KeySize || bytes.Equal(both[0], both[1]) {
		t.Fatalf("got %d secrets, want two that differ", len(both))
	}
	if again := ringOf(t, 2).Derive("signing"); !bytes.Equal(again[0], both[1]) {
		t.Error("the same key gives another secret in another ring")
	}
	if other := ring.Derive("another"); bytes.Equal(other[0], both[0]) {
		t.Error("two purposes have one secret")
	}
	before := ring.Adopted()
	ring.Adopt(ringOf(t, 2))
	if after := ring.Derive("signing"); len(after) != 1 || !bytes.Equal(after[0], both[1]) ||
		ring.Adopted() == before {
		t.Error("the secrets do not follow the keys of the ring")
	}
}
