package signin_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"
)

// TestAnAddressThatWasCutSaysSo has a person who copied an address out of a terminal, and
// not all of it. Nobody wants to mislead that person, and the program is known.
func TestAnAddressThatWasCutSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser(t)
	whole := query(b.register(base, loopback), loopback)
	for _, cut := range []string{"client_id", "redirect_uri"} {
		q := maps.Clone(whole)
		q.Del(cut)
		answer := b.get(base + "/authorize?" + q.Encode())
		if text := read(answer); answer.StatusCode != http.StatusBadRequest ||
			!strings.Contains(text, "not complete") || !strings.Contains(text, "copied") {
			t.Errorf("without %s: status %d: %s", cut, answer.StatusCode, text)
		}
	}
}
