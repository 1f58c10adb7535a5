package sanitize

import "bytes"

// alphabet is a set of bytes.
type alphabet [256]bool

// letters returns the set of the bytes in all sets.
func letters(sets ...string) *alphabet {
	a := new(alphabet)
	for _, set := range sets {
		for i := range len(set) {
			a[set[i]] = true
		}
	}
	return a
}

// span returns how many bytes at the start of text are in a. It looks at no more than
// most bytes.
func (a *alphabet) span(text []byte, most int) int {
	most = min(most, len(text))
	for i := range most {
		if !a[text[i]] {
			return i
		}
	}
	return most
}

// prefixSize returns the size of the one in the list with which text begins, 0 when it
// begins with none.
func prefixSize(text []byte, list []string) int {
	for _, prefix := range list {
		if bytes.HasPrefix(text, []byte(prefix)) {
			return len(prefix)
		}
	}
	return 0
}

const (
	digits = "0123456789"
	upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	lower  = "abcdefghijklmnopqrstuvwxyz"
)

var (
	decimal      = letters(digits)
	alphabetic   = letters(upper, lower)
	alphanumeric = letters(upper, lower, digits)
	capitals     = letters(upper, digits)
	hexadecimal  = letters(digits, "abcdefABCDEF")
	base32       = letters(upper, "234567")
	base64Digits = letters(upper, lower, digits, "+/")
	base64Plain  = letters(upper, lower, digits, "+/=")
	wordDash     = letters(upper, lower, digits, "_-")
	wordDashDot  = letters(upper, lower, digits, "_-.")
	wordDashWave = letters(upper, lower, digits, "_-.~")
)
