package sanitize

import (
	"bytes"
	b32 "encoding/base32"
	"encoding/base64"
	"hash/crc32"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// This file finds secrets that only what stands beside them makes certain: keys of clouds
// behind their names, signatures in addresses, and tokens that say themselves what they
// are.

// Signs as they are written in texts, in URLs and in JSON: plus and slash in Base64, the
// equals signs behind it, and what may stand between a name and its value.
var (
	plusOrSlash = []string{`\/`, "%2B", "%2F", "%2b", "%2f"} // beside themselves
	equalsSign  = []string{"=", "%3D", "%3d"}
	joinSigns   = []string{
		" ", "\t", ":", "=", ">", "\"", "'", "`", "\\", ",", "|", "%20", "%22", "%27", "%3A", "%3D", "%3a", "%3d",
	}
)

// units returns how many bytes at the start of text write n characters of Base64. Plus
// and slash may be escaped as in URLs or JSON. It is 0 when there are fewer.
func units(text []byte, n int) int {
	i := 0
	for range n {
		if i < len(text) && base64Digits[text[i]] {
			i++
			continue
		}
		size := prefixSize(text[i:], plusOrSlash)
		if size == 0 {
			return 0
		}
		i += size
	}
	return i
}

// padded returns the size of a value of Base64 at the start of text that has n characters
// and then the equals signs, 0 when there is none.
func padded(text []byte, n, equals int) int {
	size := units(text, n)
	if size == 0 || !varied(text[:size]) || placeholder(text[:size]) {
		return 0
	}
	for range equals {
		next := prefixSize(text[size:], equalsSign)
		if next == 0 {
			return 0
		}
		size += next
	}
	if equals == 0 && size < len(text) && base64Plain[text[size]] {
		return 0
	}
	return size
}

// base64Value returns an extent: a value of Base64 directly behind the prefix, which
// stays.
func base64Value(n, equals int) func(text []byte, begin, body int) (start, end int) {
	return func(text []byte, _, body int) (start, end int) {
		if size := padded(text[body:], n, equals); size > 0 {
			return body, body + size
		}
		return 0, 0
	}
}

// sasSignature is the extent of the rule for signatures of Azure: of SHA-256, in an
// address that says the version of the service (sv) beside it. The name sig= stays.
func sasSignature(text []byte, begin, body int) (start, end int) {
	const most = 512 // bytes of the address on either side
	size := padded(text[body:], 43, 1)
	if size == 0 {
		return 0, 0
	}
	left := text[max(0, begin-most):begin]
	right := text[body+size : min(len(text), body+size+most)]
	if n := bytes.LastIndexAny(left, " \t\r\n\"'<>"); n >= 0 {
		left = left[n:]
	}
	if n := bytes.IndexAny(right, " \t\r\n\"'<>"); n >= 0 {
		right = right[:n]
	}
	if !bytes.Contains(left, []byte("sv=20")) && !bytes.Contains(right, []byte("sv=20")) {
		return 0, 0
	}
	return body, body + size
}

const awsSecretSize = 40 // characters of Base64, without equals signs

// awsSecret is the extent of the rules for secret keys of AWS behind their name, which
// stays. Signs that join names and values in sources, JSON and XML may stand between.
func awsSecret(text []byte, _, body int) (start, end int) {
	const most = 12 // bytes of such signs
	start = body
	for size := 1; size > 0 && start < body+most; start += size {
		size = prefixSize(text[start:], joinSigns)
	}
	if size := awsSecretAt(text[start:]); size > 0 && start > body {
		return start, start + size
	}
	return 0, 0
}

// awsSecretAt returns the size of what looks like a secret key of AWS at the start of
// text. Such a key has no mark, so something beside it must say what it is. The hash of a
// commit has the same size, and no capitals.
func awsSecretAt(text []byte) int {
	size := padded(text, awsSecretSize, 0)
	if size == 0 || !bytes.ContainsAny(text[:size], upper) || !bytes.ContainsAny(text[:size], lower) {
		return 0
	}
	return size
}

// awsIDs is the set of the rules for ids of AWS access keys.
var awsIDs = rulesWhere(func(r *rule) bool { return r.kind == "aws-access-key" })

// redactBeside is the pass that replaces secret keys of AWS near the id of an access key,
// which makes them certain without a name.
func (c *cleaner) redactBeside(dst, text []byte) ([]byte, bool) {
	if !bytes.Contains(text, []byte("AKIA")) && !bytes.Contains(text, []byte("ASIA")) {
		return dst, false
	}
	const near = 256 // bytes
	copied, looked := 0, 0
	for i := 2; i < len(text); i++ {
		begin, end, _ := secretOf(hints.at(text, i)&awsIDs, text, i, copied)
		if end == 0 {
			continue
		}
		for at := max(looked, begin-near); at < min(len(text), end+near); at++ {
			size := 0
			if !base64Plain[text[max(0, at-1)]] || at == 0 || bounded(text[:at]) && text[at-1] != '/' &&
				text[at-1] != '+' {
				size = awsSecretAt(text[at:])
			}
			if size > 0 && (at >= end || at+size <= begin) && random(text[at:at+size]) {
				dst = c.replace(append(dst, text[copied:at]...), "aws-secret-key")
				copied = at + size
				at = copied
			}
			looked = at
		}
		i = max(end, copied) - 1
	}
	if copied == 0 {
		return dst, false
	}
	return append(dst, text[copied:]...), true
}

// webToken is the extent of the rule for JSON Web Tokens: three parts of Base64, or five
// when encrypted, of which the first is a JSON object that names the algorithm. A token
// without a signature is none that opens anything.
// https://www.rfc-editor.org/rfc/rfc7515#section-3.1
func webToken(text []byte, begin, _ int) (start, end int) {
	const (
		mostHeader     = 1024
		leastSignature = 20 // bytes of Base64; that of the shortest algorithm has 43, a tag of encryption 22
	)
	letters := wordDash
	if begin > 0 && (text[begin-1] == '-' || text[begin-1] == '_') {
		// What stands there may be the rest of a header that was decoded already: a text
		// of headers with dashes between them would be decoded again from each on. The
		// header is ASCII, which Base64 writes with these two only for >, ? and ~.
		letters = alphanumeric
	}
	end = begin + letters.span(text[begin:], mostHeader)
	if end >= len(text) || text[end] != '.' {
		return 0, 0
	}
	decoded, err := base64.RawURLEncoding.DecodeString(string(text[begin:end]))
	if err != nil {
		return 0, 0
	}
	header, err := mcp.ParseObject(decoded)
	if err != nil || !header.Has("alg") {
		return 0, 0
	}
	parts := 2
	if header.Has("enc") {
		parts = 4
	}
	size := 0
	for range parts {
		if end >= len(text) || text[end] != '.' {
			return 0, 0
		}
		size = wordDash.span(text[end+1:], len(text))
		end += 1 + size
	}
	if size < leastSignature {
		return 0, 0
	}
	return begin, end
}

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
