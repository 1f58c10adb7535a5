package main

import (
	"math/rand/v2"
)

// spoilt returns a token with a change in some place of it: whatever it is, it must be
// refused. way says what is wrong with it.
func spoilt(r *rand.Rand, good string) (token, way string) {
	at := r.IntN(len(good))
	switch r.IntN(3) {
	case 0:
		return good[:at] + string(otherThan(r, good[at])) + good[at+1:], "a character changed"
	case 1:
		return good[:at], "cut off"
	}
	return good[:at] + pick(r, []string{"A", ".", "=", "==", "%", "\t", "e30", "AAAA", good}) + good[at:],
		"something inserted"
}

const base64url = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// otherThan returns a character of base64url that is not c.
func otherThan(r *rand.Rand, c byte) byte {
	for {
		if other := base64url[r.IntN(len(base64url))]; other != c {
			return other
		}
	}
}

func pick[T any](r *rand.Rand, all []T) T { return all[r.IntN(len(all))] }
