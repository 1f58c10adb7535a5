package strictjson

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Fold returns the form under which a lenient parser may take name for another one: compatibility-normalised, folded to
// lower case, without what follows a NUL. Names that differ but fold alike are a parser differential.
func Fold(name string) string {
	name, _, _ = strings.Cut(name, "\x00")
	for i := range len(name) {
		if name[i] >= utf8.RuneSelf {
			return strings.Map(smallest, norm.NFKC.String(name))
		}
	}
	return strings.ToLower(name) // name itself when it has no capitals
}

// smallest returns the smallest rune of r's folding orbit, lower case where that is ASCII.
func smallest(r rune) rune {
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	return unicode.ToLower(least)
}
