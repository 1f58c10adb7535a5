package auth

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

const (
	minSecret    = 32 // bytes: as long as the hash of HS256, RFC 7518 section 3.2
	minRemainder = 16 // bytes that are left without well-known words and runs
	minDistinct  = 8  // different bytes among those
)

// ParseSecret reads a shared secret from a file. One line break at the end is not part of
// it. It must have at least 32 bytes; well-known and repetitive ones are refused. Who has
// a token can try out secrets as fast as a machine can, so a secret that can be guessed
// lets anybody make tokens.
func ParseSecret(data []byte) (Key, error) {
	secret, cut := bytes.CutSuffix(data, []byte("\n"))
	if cut {
		secret = bytes.TrimSuffix(secret, []byte("\r"))
	}
	if err := checkSecret(secret); err != nil {
		return Key{}, err
	}
	secret = bytes.Clone(secret)
	return Key{Public: secret, Private: secret}, nil
}

// checkSecret returns why a secret can be guessed, nil if it seems random. The error says
// nothing of the secret but its length or period.
func checkSecret(secret []byte) error {
	if len(secret) < minSecret {
		return fmt.Errorf("a shared secret of %d bytes; at least %d are needed", len(secret), minSecret)
	}
	if p := period(secret); p < minSecret {
		return fmt.Errorf("a shared secret that repeats after %d bytes; what repeats counts once", p)
	}
	rest := withoutRuns(withoutWords(string(secret)))
	if len(rest) < minRemainder || distinct(rest) < minDistinct {
		return errors.New("a shared secret made of well-known words, runs or few characters")
	}
	return nil
}

// period returns after how many bytes text repeats itself, and its length if it does not.
func period(text []byte) int {
	for p := 1; p <= len(text)/2; p++ {
		if bytes.Equal(text[p:], text[:len(text)-p]) {
			return p
		}
	}
	return len(text)
}

// withoutWords returns text in lower case without the words that guides, frameworks and
// people in a hurry use.
func withoutWords(text string) string {
	return strings.NewReplacer(
		"your-256-bit-secret", "", "your-384-bit-secret", "", "your-512-bit-secret", "", "please", "",
		"replace", "",
		"changeit", "", "changeme", "", "change", "", "default", "", "development", "", "drawbridge", "",
		"example", "",
		"gateway", "", "hmac", "", "jwt", "", "insecure", "", "keyboard", "", "letmein", "", "password", "",
		"passwd", "",
		"private", "", "production", "", "qwertyuiop", "", "qwerty", "", "asdfghjkl", "", "zxcvbnm", "",
		"secret", "",
		"secure", "", "shared", "", "signing", "", "signature", "", "super", "", "testing", "", "test", "",
		"token", "",
		"admin", "", "string", "", "random", "", "value", "", "this", "", "that", "", "should", "", "must",
		"", "least",
		"", "long", "", "very", "", "with", "", "bits", "", "bytes", "", "characters", "", "enough", "",
		"your", "",
		"key", "", "256", "", "512", "", "deadbeef", "", "cafebabe", "", "lorem", "", "ipsum", "",
	).Replace(strings.ToLower(text))
}

// withoutRuns returns text without each byte that goes on as the two before it did, as in
// 0000, 12345 or cba.
func withoutRuns(text string) string {
	rest := make([]byte, 0, len(text))
	for i := range len(text) {
		if i < 2 || text[i]-text[i-1] != text[i-1]-text[i-2] {
			rest = append(rest, text[i])
		}
	}
	return string(rest)
}

// distinct returns how many different bytes text has.
func distinct(text string) int {
	return len(slices.Compact(slices.Sorted(slices.Values([]byte(text)))))
}
