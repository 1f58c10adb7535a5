package sanitize

import (
	"bytes"
	"slices"
)

// This file decides whether what has the form of a secret is certain enough to be one.
// Documentation is full of placeholders and examples in that form, and models must be
// able to quote them.

// varied tells whether body has at least six different bytes. Placeholders such as
// ghp_xxxx in documentation have fewer.
func varied(body []byte) bool { return distinct(body) >= 6 }

// distinct returns how many different bytes body has.
func distinct(body []byte) int {
	var seen [256]bool
	n := 0
	for _, c := range body {
		if !seen[c] {
			seen[c] = true
			n++
		}
	}
	return n
}

// placeholder tells whether body holds a word by which documentation says that it is no
// secret, as in AKIAIOSFODNN7EXAMPLE.
func placeholder(body []byte) bool {
	lowered := bytes.ToLower(body)
	words := []string{"example", "placeholder", "redacted", "changeme", "your-", "your_"}
	return slices.ContainsFunc(words, func(w string) bool { return bytes.Contains(lowered, []byte(w)) })
}

// Classes of bytes, as random sees them.
const (
	noCase = iota // neither letter nor digit
	smallLetter
	capital
	number
)

func caseOf(c byte) int {
	switch {
	case c >= 'a' && c <= 'z':
		return smallLetter
	case c >= 'A' && c <= 'Z':
		return capital
	case c >= '0' && c <= '9':
		return number
	}
	return noCase
}

// random tells whether body looks as if chance had chosen it from small letters, capital
// letters and digits. In words, nearly every letter follows one of the same case, a
// capital or digit seldom follows a small letter, and digits are rare. Of bodies that
// chance did choose, it takes less than one in a hundred for words (20 bytes; of 36
// bytes, one in two hundred).
func random(body []byte) bool {
	const long = 32 // of so many bytes, hardly any that chance chose have no digit
	changes, same := steps(body)
	return changes >= len(body)/6 && same <= len(body)*3/5 &&
		(len(body) < long || bytes.ContainsAny(body, digits))
}

// randomLetters is random for bodies that have no digits. Of 34 bytes, it takes one in
// two thousand for words.
func randomLetters(body []byte) bool {
	changes, _ := steps(body)
	return changes > len(body)/10
}

// steps counts the neighbours in body of which one is a digit or the second a capital,
// and not the other (changes), and the neighbours that are letters of the same case.
func steps(body []byte) (changes, same int) {
	for i := range len(body) - 1 {
		left, right := caseOf(body[i]), caseOf(body[i+1])
		switch {
		case left == noCase || right == noCase:
		case left == right:
			if left != number {
				same++
			}
		case right != smallLetter || left == number:
			changes++
		}
	}
	return changes, same
}
