package sanitize

import (
	"bytes"
	"math/bits"
)

// rule recognizes one kind of secret by the fixed text it begins with and by the form of what follows.
type rule struct {
	kind     string
	prefixes []string
	hint     int       // bytes of a prefix up to the one at which scanning stops, at least 3; zero: all
	body     *alphabet // of what follows the prefix
	exact    int       // bytes of that; zero: at least those of least
	least    int
	check    func(body []byte) bool // sees so many bytes
	extent   func(body []byte) int  // instead of the four above: the size of what follows, 0 when it is no secret
}

// maxRules is how many rules a set of rules has bits for. The bit of a further rule would be shifted out of the set and
// the rule never fire, so with more rules this file does not compile.
const maxRules = 64

const _ = uint(maxRules - len(rules))

// hintTable holds for the last three bytes of a hint which rules have that byte there, as sets with one bit for each
// rule. Where the three agree on a rule, its prefix is worth comparing.
type hintTable struct {
	last, second, third [256]uint64
}

var hints = hintsOf(rules[:])

func hintsOf(rules []rule) *hintTable {
	table := new(hintTable)
	for i := range rules {
		for _, prefix := range rules[i].prefixes {
			end, bit := rules[i].hinted(prefix), uint64(1)<<i
			table.last[prefix[end-1]] |= bit
			table.second[prefix[end-2]] |= bit
			table.third[prefix[end-3]] |= bit
		}
	}
	return table
}

// at returns the rules whose hint may end at text[i].
func (h *hintTable) at(text []byte, i int) uint64 {
	if i < 2 {
		return 0
	}
	return h.last[text[i]] & h.second[text[i-1]] & h.third[text[i-2]]
}

// hinted returns the size of the hint in prefix.
func (r *rule) hinted(prefix string) int {
	if r.hint > 0 {
		return r.hint
	}
	return len(prefix)
}

// begin returns the start of the prefix whose hint ends at text[i], and the start of what follows it.
func (r *rule) begin(text []byte, i int) (start, body int, ok bool) {
	for _, prefix := range r.prefixes {
		start = i + 1 - r.hinted(prefix)
		if start >= 0 && bytes.HasPrefix(text[start:], []byte(prefix)) {
			return start, start + len(prefix), true
		}
	}
	return 0, 0, false
}

// secretBegins tells whether a secret may begin with the hint that ends at text[i]. It serves escaped texts too, where
// a letter behind a backslash is no letter. It reads no more than the least size of a secret.
func secretBegins(text []byte, i int) bool {
	for candidates := hints.at(text, i); candidates != 0; candidates &= candidates - 1 {
		r := &rules[bits.TrailingZeros64(candidates)]
		start, body, ok := r.begin(text, i)
		if !ok || start > 0 && alphanumeric[text[start-1]] && (start == 1 || text[start-2] != '\\') {
			continue
		}
		if r.extent != nil || r.body.span(text[body:], r.floor()) == r.floor() {
			return true
		}
	}
	return false
}

// redact is the pass that replaces secrets by their kind.
func (c *cleaner) redact(dst, text []byte) ([]byte, bool) {
	kept := 0
	for i := 2; i < len(text); i++ {
		if classes[text[i]] != anchor {
			continue
		}
		start, end, kind := secretAt(text, i, kept)
		if end == 0 {
			continue
		}
		c.secret++
		dst = append(dst, text[kept:start]...)
		dst = append(append(append(dst, "[REDACTED:"...), kind...), ']')
		kept = end
		i = end - 1
	}
	if kept == 0 {
		return dst, false
	}
	c.held = true
	return append(dst, text[kept:]...), true
}

// secretAt returns the secret that has its hint's end at text[i] and begins at or after from; end is 0 when there is
// none. What stands before from was replaced already.
func secretAt(text []byte, i, from int) (start, end int, kind string) {
	for candidates := hints.at(text, i); candidates != 0; candidates &= candidates - 1 {
		r := &rules[bits.TrailingZeros64(candidates)]
		start, body, ok := r.begin(text, i)
		if !ok || start < from || start > from && alphanumeric[text[start-1]] {
			continue
		}
		if size := r.size(text[body:]); size > 0 {
			end = body + size
			// A selector behind the last digit would be left without its base.
			if bytes.HasPrefix(text[end:], []byte("\uFE0F")) {
				end += len("\uFE0F")
			}
			return start, end, r.kind
		}
	}
	return 0, 0, ""
}

// floor returns the least size of a body.
func (r *rule) floor() int { return max(r.exact, r.least) }

// size returns the size of the secret's body at the start of text, 0 when it is none. It reads no more of what is none
// than the rule's own length. What follows is asked only whether it goes on with the body's last word, so that another
// secret there makes no difference, be it redacted or not.
func (r *rule) size(text []byte) int {
	if r.extent != nil {
		return r.extent(text)
	}
	n := r.floor()
	if r.body.span(text, n) < n || !varied(text[:n]) || r.check != nil && !r.check(text[:n]) {
		return 0
	}
	if r.exact == 0 {
		n += r.body.span(text[n:], len(text))
	}
	if n < len(text) && alphanumeric[text[n-1]] && alphanumeric[text[n]] {
		return 0
	}
	return n
}

// varied tells whether body is more than a placeholder such as xxxx.
func varied(body []byte) bool {
	const enough = 6
	var seen [256]bool
	distinct := 0
	for _, c := range body {
		if !seen[c] {
			seen[c] = true
			distinct++
		}
	}
	return distinct >= enough
}
