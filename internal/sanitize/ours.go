package sanitize

import (
	b32 "encoding/base32"
	"encoding/base64"
	"hash/crc32"
)

// Sizes of what this gateway gives out, without the prefix: an access key is 40 letters
// at random and 7 of a checksum; a refresh token is base64url of an id of 26 letters, a
// number and a MAC.
const (
	keyBody, keySum       = 40, 7
	refreshBody, familyID = 67, 26
)

var keyLetters = b32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(b32.NoPadding)

// ourSecret finds an access key by its checksum and a refresh token by the id in it, so
// that neither needs to look random.
func ourSecret(text []byte, begin, body int) (start, end int) {
	size := refreshBody
	if string(text[begin:body]) == "dbk_" {
		size = keyBody + keySum
	}
	end = body + size
	if len(text) < end || len(text) > end && alphanumeric[text[end]] {
		return 0, 0
	}
	if size == refreshBody {
		raw, err := base64.RawURLEncoding.Strict().DecodeString(string(text[body:end]))
		if err != nil || base32.span(raw, familyID) < familyID {
			return 0, 0
		}
		return begin, end
	}
	sum := crc32.NewIEEE()
	_, _ = sum.Write(text[begin : end-keySum]) // never fails
	if string(text[end-keySum:end]) != keyLetters.EncodeToString(sum.Sum(nil)) {
		return 0, 0
	}
	return begin, end
}
