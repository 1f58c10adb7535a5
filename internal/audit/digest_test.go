package audit_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/audit"
)

// TestDigestsArePerTenant shows what a digest is, that another key or tenant has another
// one, and that it is found again with an older key.
func TestDigestsArePerTenant(t *testing.T) {
	older, newer := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	arguments := []byte(`{"n":1}`)
	before, both := audit.NewKeys([][]byte{older}), audit.NewKeys([][]byte{newer, older})
	old, now, foreign := before.Digest("acme", arguments), both.Digest("acme", arguments),
		both.Digest("globex", arguments)

	sum := func(key []byte, text string) []byte {
		m := hmac.New(sha256.New, key)
		m.Write([]byte(text))
		return m.Sum(nil)
	}
	key := sum(newer, "drawbridge audit arguments 1\x00acme")
	want := fmt.Sprintf("hmac-sha256:%x:%x", sum(key, "drawbridge key id 1")[:4], sum(key, string(arguments)))
	if now != want || both.Digest("acme", arguments) != want {
		t.Errorf("got %s, want %s each time", now, want)
	}
	if old == now || now == foreign || now[:20] == foreign[:20] {
		t.Errorf("digests or ids of keys are the same: %s, %s, %s", old, now, foreign)
	}
	for _, test := range []struct {
		keys              *audit.Keys
		digest, arguments string
		is, known         bool
	}{
		{both, now, `{"n":1}`, true, true},
		{both, old, `{"n":1}`, true, true},
		{both, now, `{"n": 1}`, false, true},
		{both, now, ``, false, true},
		{both, foreign, `{"n":1}`, false, false},
		{before, now, `{"n":1}`, false, false},
		{both, "sha256:00", `{"n":1}`, false, false},
		{nil, now, `{"n":1}`, false, false},
	} {
		is, known := test.keys.Verify(test.digest, "acme", []byte(test.arguments))
		if is != test.is || known != test.known {
			t.Errorf("%s of %s: got %t and %t", test.digest, test.arguments, is, known)
		}
	}
	if got := audit.NewKeys(nil).Digest("acme", arguments) + both.Digest("acme", nil); got != "" {
		t.Errorf("without a key, or without arguments: got %q", got)
	}
}
