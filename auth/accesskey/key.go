// Package accesskey has long-lived keys of machines: it makes them, takes them in the
// place of tokens, and revokes them. It answers one question: whom does this key speak
// for? It deliberately knows nothing of rules.
//
// A key is kept as its SHA-256 and nothing else. It has 200 random bits, so that a fast
// digest is enough, and a lookup by it gives away nothing by its time.
package accesskey

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"strings"
)

// Prefix is what every key begins with, for programs that look for secrets in texts. A
// key is the prefix, 40 letters and digits at random, and 7 of a checksum.
const Prefix = "dbk_"

const (
	bodySize = 25 // bytes at random
	textSize = len(Prefix) + 40 + 7
	idSize   = 12 // of what people call a key, from the digest of the key
)

var encoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// newKey returns a key that nobody had before.
func newKey() string {
	body := make([]byte, bodySize)
	_, _ = rand.Read(body) // crypto/rand never returns an error, it ends the program instead
	text := Prefix + encoding.EncodeToString(body)
	return text + checksum(text)
}

// checksum tells slips and random texts from keys without asking anybody.
func checksum(text string) string {
	var sum [4]byte
	binary.BigEndian.PutUint32(sum[:], crc32.ChecksumIEEE([]byte(text)))
	return encoding.EncodeToString(sum[:])
}

// IsKey tells whether a text has the form of a key, with the right checksum.
func IsKey(text string) bool {
	if len(text) != textSize || !strings.HasPrefix(text, Prefix) {
		return false
	}
	body := text[:len(text)-7]
	if _, err := encoding.DecodeString(body[len(Prefix):]); err != nil {
		return false
	}
	return text[len(body):] == checksum(body)
}

// digest is under which a key is kept.
func digest(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}
