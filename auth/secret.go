package auth

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

const (
	minSecret   = 32 // bytes
	minRest     = 16 // bytes that are neither a well-known word nor a run
	minDistinct = 8  // different bytes among them
)

// ParseSecret reads a shared secret from a file: at least 32 bytes, trailing line break cut, well-known and repetitive ones refused.
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

// checkSecret returns why a secret can be guessed. The error says nothing of the secret.
func checkSecret(secret []byte) error {
	if len(secret) < minSecret {
		return fmt.Errorf("a shared secret of %d bytes; at least %d are needed", len(secret), minSecret)
	}
	if p := period(secret); p < minSecret {
		return fmt.Errorf("a shared secret that repeats after %d bytes; what repeats counts once", p)
	}
	rest := withoutRuns(withoutWords(string(secret)))
	if len(rest) < minRest || distinct(rest) < minDistinct {
		return errors.New("a shared secret made of well-known words, runs or few characters")
	}
	return nil
}

// period returns after how many bytes text starts anew; its length when it never does.
func period(text []byte) int {
	for p := 1; p <= len(text)/2; p++ {
		if bytes.Equal(text[p:], text[:len(text)-p]) {
			return p
		}
	}
	return len(text)
}

// withoutWords cuts the words that guides, frameworks and hurried people use out of text.
func withoutWords(text string) string {
	return strings.NewReplacer(
		"your-256-bit-secret", "", "your-384-bit-secret", "", "your-512-bit-secret", "", "please", "", "replace", "",
		"changeit", "", "changeme", "", "change", "", "default", "", "development", "", "drawbridge", "", "example", "",
		"gateway", "", "hmac", "", "jwt", "", "insecure", "", "keyboard", "", "letmein", "", "password", "", "passwd", "",
		"private", "", "production", "", "qwertyuiop", "", "qwerty", "", "asdfghjkl", "", "zxcvbnm", "", "secret", "",
		"secure", "", "shared", "", "signing", "", "signature", "", "super", "", "testing", "", "test", "", "token", "",
		"admin", "", "string", "", "random", "", "value", "", "this", "", "that", "", "should", "", "must", "", "least",
		"", "long", "", "very", "", "with", "", "bits", "", "bytes", "", "characters", "", "enough", "", "your", "",
		"key", "", "256", "", "512", "", "deadbeef", "", "cafebabe", "", "lorem", "", "ipsum", "",
	).Replace(strings.ToLower(text))
}

// withoutRuns cuts what goes on as the two bytes before it did: 0000, 12345, cba.
func withoutRuns(text string) string {
	rest := make([]byte, 0, len(text))
	for i := range len(text) {
		if i < 2 || text[i]-text[i-1] != text[i-1]-text[i-2] {
			rest = append(rest, text[i])
		}
	}
	return string(rest)
}

func distinct(text string) int {
	var seen [256]bool
	count := 0
	for i := range len(text) {
		if !seen[text[i]] {
			seen[text[i]] = true
			count++
		}
	}
	return count
}
