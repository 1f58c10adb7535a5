package sanitize

import (
	"bytes"
	"math/bits"
	"slices"
	"strings"
)

// NamesSecret tells whether a value of that name is probably a secret: a header, a
// variable or a flag. It errs on the side of secrets: any name with key in it counts, but
// for a few well-known ones, such as GIT_AUTHOR_NAME, MAX_TOKENS and FTP_PASSIVE.
func NamesSecret(name string) bool {
	words := []string{"auth", "token", "secret", "key", "pass", "pwd", "cookie", "credential"}
	name = harmlessWords.Replace(strings.ToLower(name))
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(name, word) })
}

// harmlessWords leaves out words that only look like those of secrets. None of them may
// be where two words meet, as bypass is in derbypassword.
var harmlessWords = strings.NewReplacer("authori", "authori", "author", "", "tokeniz", "", "max_tokens", "",
	"max-tokens", "", "maxtokense", "maxtokense", "maxtokens", "", "passive", "", "keyboard", "",
	"keyword", "", "keycloak", "")

// This file finds secrets in one pass over the text, without regular expressions, whose
// time a server could drive up.
//
//	... token = g h p _ 1 6 C 7 e 4 2 F 2 9 2 c 6 9 1 2 E 7 ...
//	            prefix  body
//	                  ^ end of the hint: the byte at which the scan stops to compare prefixes
//
// A hint is the beginning of a prefix, or all of it. The scan stops at every byte that
// ends some hint, so a hint ends where a byte is rare in ordinary text: that of AIza is
// AIz, and the scan need not stop at every a.

// rule recognizes one kind of secret, by a fixed text in it or before it (the prefix) and
// by the form of what follows (the body).
type rule struct {
	kind     string // stands in [REDACTED:kind]
	prefixes []string
	// size of the hint in each prefix, at least 3 bytes; zero: the whole prefix
	hint  int
	lead  int                    // bytes of the secret before the prefix, of the same alphabet as the body
	body  *alphabet              // the bytes that the body may have
	exact int                    // size of the body in bytes; zero: at least the size in least
	least int                    // used when exact is zero
	check func(body []byte) bool // a further test of the first exact or least bytes of the body; nil: none

	// extent, instead of body to check, returns where the secret begins and ends. begin
	// and body are where the prefix and what follows it begin in text. end is 0 when
	// there is no secret.
	extent func(text []byte, begin, body int) (start, end int)
	within bool // the prefix may stand within a word
	yields bool // a secret of another kind within this one is redacted instead, since its kind says more
}

// maxRules is how many rules a set of rules has bits for. The bit of a further rule would
// be shifted out of the set and the rule never fire, so with more rules this file does
// not compile.
const maxRules = 64

const _ = uint(maxRules - len(rules))

// hintTable has three sets of rules for every byte: the rules whose hint has the byte as
// its last one, as the last but one and as the third from the end. A set has one bit for
// each rule. Only a rule in all three sets for the last three bytes of the text can begin
// there, so the prefixes of nearly all rules need not be compared.
type hintTable struct {
	last, second, third [256]uint64
}

var hints = hintsOf(rules[:])

// hintsOf makes the table once, when the program starts.
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

// at returns the set of rules whose hint may end with text[i].
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

// begin returns the index of the secret or of the prefix before it, whose hint ends with
// text[i], and that of the body behind the prefix; ok is false when the rule has no such
// prefix there.
func (r *rule) begin(text []byte, i int) (start, body int, ok bool) {
	for _, prefix := range r.prefixes {
		start = i + 1 - r.hinted(prefix)
		if start >= r.lead && bytes.HasPrefix(text[start:], []byte(prefix)) {
			body, start = start+len(prefix), start-r.lead
			return start, body, r.lead == 0 || r.body.span(text[start:], r.lead) == r.lead
		}
	}
	return 0, 0, false
}

// secretBegins tells whether a secret may begin with the hint that ends with text[i]. Its
// yes may be wrong, its no is not. It serves JSON strings that are not decoded too: there
// the n of \n belongs to an escape, as in a text that quotes JSON. It reads no more than
// the least size of a secret, so that a text of many prefixes takes no longer than
// others.
func secretBegins(text []byte, i int) bool {
	for candidates := hints.at(text, i); candidates != 0; candidates &= candidates - 1 {
		r := &rules[bits.TrailingZeros64(candidates)]
		start, body, ok := r.begin(text, i)
		if !ok || !r.within && !bounded(text[:start]) {
			continue
		}
		if r.yields && !userinfo(text[body:]) {
			continue // most URLs have none, and texts are full of URLs
		}
		if r.extent != nil || r.body.span(text[body:], r.floor()) == r.floor() {
			return true
		}
	}
	return false
}

// redact is the pass that replaces every secret by [REDACTED:kind] and sets foundSecret.
func (c *cleaner) redact(dst, text []byte) ([]byte, bool) {
	copied := 0
	for i := 2; i < len(text); i++ {
		if classes[text[i]] != anchor {
			continue
		}
		start, end, kind := secretOf(hints.at(text, i), text, i, copied)
		if end == 0 {
			continue
		}
		dst = c.replace(append(dst, text[copied:start]...), kind)
		copied = end
		i = end - 1
	}
	if copied == 0 {
		return dst, false
	}
	return append(dst, text[copied:]...), true
}

// replace appends what stands in the place of a secret of that kind, and counts it.
func (c *cleaner) replace(dst []byte, kind string) []byte {
	c.secret++
	c.foundSecret = true
	return append(append(append(dst, "[REDACTED:"...), kind...), ']')
}

// secretOf returns where the secret begins and ends that one of the rules in the set
// candidates finds, whose hints end with text[i], and its kind; end is 0 when there is
// none. The text before from was replaced already: a secret and its prefix must begin at
// or after it, and the letter before from does not count as one that the secret is a part
// of.
func secretOf(candidates uint64, text []byte, i, from int) (start, end int, kind string) {
	for ; candidates != 0; candidates &= candidates - 1 {
		r := &rules[bits.TrailingZeros64(candidates)]
		begin, body, ok := r.begin(text, i)
		if !ok || begin < from || !r.within && !bounded(text[from:begin]) {
			continue
		}
		start, end := r.find(text, begin, body)
		if end == 0 || r.yields && holdsSecret(text[start:end]) {
			continue
		}
		// A variation selector behind the last digit would lose its base, and the next
		// cleaning remove it: cleaning twice would differ from cleaning once.
		for _, selector := range []string{"\uFE0F", "\uFE00"} {
			if bytes.HasPrefix(text[end:], []byte(selector)) {
				end += len(selector)
			}
		}
		return start, end, r.kind
	}
	return 0, 0, ""
}

// holdsSecret tells whether a secret stands in text that says more than one of a rule
// that yields. Those rules are left out: they ask this themselves, so that each address
// within addresses would double the time.
func holdsSecret(text []byte) bool {
	for i := 2; i < len(text); i++ {
		if _, end, _ := secretOf(hints.at(text, i)&^yielding, text, i, 0); end > 0 {
			return true
		}
	}
	return false
}

// yielding is the set of the rules that yield.
var yielding = rulesWhere(func(r *rule) bool { return r.yields })

// rulesWhere returns the set of the rules of which is is true.
func rulesWhere(is func(*rule) bool) (set uint64) {
	for i := range rules {
		if is(&rules[i]) {
			set |= 1 << i
		}
	}
	return set
}

// bounded tells whether a secret may begin behind this text: it ends in no letter or
// digit of a longer word, or in an escape, since secrets often stand in JSON, source or
// URLs that the text quotes: \n, \u0022, \x3d, %3D, %253D.
func bounded(before []byte) bool {
	n := len(before)
	if n == 0 || !alphanumeric[before[n-1]] {
		return true
	}
	hex := n - trailing(before, hexadecimal) // where the hexadecimal digits at the end begin
	switch {
	case n >= 2 && before[n-2] == '\\':
		return bytes.IndexByte([]byte("abfnrtv0"), before[n-1]) >= 0
	case n >= 3 && hex <= n-2 && before[n-3] == '%', n >= 5 && hex <= n-4 && before[n-5] == '%' &&
		string(before[n-4:n-2]) == "25":
		return true
	case n >= 4 && hex <= n-2 && string(before[n-4:n-2]) == `\x`:
		return true
	}
	return n >= 6 && hex <= n-4 && string(before[n-6:n-4]) == `\u`
}

// trailing returns how many of the last four bytes of text are in a, without a gap.
func trailing(text []byte, a *alphabet) int {
	n := 0
	for n < min(4, len(text)) && a[text[len(text)-1-n]] {
		n++
	}
	return n
}

// floor returns the least size of the rule's bodies, in bytes; 0 for a rule with extent.
func (r *rule) floor() int { return max(r.exact, r.least) }

// find returns where the secret begins and ends whose prefix is at begin and whose body
// is at body; end is 0 when there is none. Of a text that is no secret it reads no more
// than the least size of a body. A body that goes on as a longer word is none. Nothing
// else about the text behind the body matters, so that the answer is the same before and
// after another secret there is redacted.
func (r *rule) find(text []byte, begin, body int) (start, end int) {
	if r.extent != nil {
		return r.extent(text, begin, body)
	}
	text, n := text[body:], r.floor()
	if r.body.span(text, n) < n || !varied(text[:n]) || placeholder(text[:n]) || r.check != nil &&
		!r.check(text[:n]) {
		return 0, 0
	}
	if r.exact == 0 {
		n += r.body.span(text[n:], len(text))
	}
	if n < len(text) && alphanumeric[text[n-1]] && alphanumeric[text[n]] {
		return 0, 0
	}
	return begin, body + n
}
