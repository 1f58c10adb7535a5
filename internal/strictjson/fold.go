package strictjson

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Fold returns the form under which a lenient parser may take name for another one: in
// lower case, in the compatibility form of Unicode (NFKC), and cut at a NUL. If two names
// differ but fold alike, one program may read the one and another program the other: a
// check that looks at the first would miss what the second does.
func Fold(name string) string {
	name, _, _ = strings.Cut(name, "\x00")
	for i := range len(name) {
		if name[i] >= utf8.RuneSelf {
			return strings.Map(smallest, norm.NFKC.String(name))
		}
	}
	return strings.ToLower(name) // name itself when it has no capitals
}

// smallest returns one rune for all that differ from r only in case: the lower case of
// the smallest of them. So ſ (long s) becomes s, as the Kelvin sign becomes k.
func smallest(r rune) rune {
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	return unicode.ToLower(least)
}
