package registry

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of names. Model APIs take tool names of up to 64 characters, and clients put a
// prefix of their own before the name: maxExposed leaves them 17 bytes.
const (
	maxExposed    = 47   // bytes of a prefixed name
	maxToolName   = 128  // characters of the own name of a tool or prompt
	maxServerName = 16   // bytes
	separator     = "__" // between prefix and own name
)

// Sets of characters.
const (
	lowercase = "abcdefghijklmnopqrstuvwxyz"
	uppercase = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits    = "0123456789"
)

var (
	errItemName = errors.New("a name must be 1 to 128 visible characters, with single spaces only within")
	errPrefix   = errors.New("the prefix has a character that no tool's name may have")
)

// ValidServerName tells whether name may name a server in the config: 1 to 16 characters
// of a-z, 0-9 and -.
func ValidServerName(name string) bool {
	return name != "" && len(name) <= maxServerName && strings.Trim(name, lowercase+digits+"-") == ""
}

// onlyNameCharacters tells whether a name has no other characters than a tool's name may
// have. Their number is bounded elsewhere.
// https://modelcontextprotocol.io/specification/2026-07-28/server/tools#tool-names
func onlyNameCharacters(name string) bool {
	return strings.IndexFunc(name, isNoNameCharacter) < 0
}

func isNoNameCharacter(r rune) bool {
	return r >= utf8.RuneSelf ||
		!isAlphanumeric(byte(r)) && r != '_' && r != '.' && r != '-' //nolint:gosec // it is one byte
}

func isAlphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// validName tells whether the own name of a tool or prompt is safe to show and to send.
// Servers use spaces and letters of any language, also in the names of tools, where the
// protocol has neither. What is refused could make two names look alike: invisible
// characters, and spaces at the ends or in a row.
func validName(name string) bool {
	return name != "" && utf8.RuneCountInString(name) <= maxToolName && isVisible(name) &&
		name == strings.TrimSpace(name) && !strings.Contains(name, "  ")
}

// isVisible tells whether text is valid UTF-8 in which every character is the plain space
// or one that a reader sees.
func isVisible(text string) bool {
	for _, r := range text {
		if r == utf8.RuneError || !unicode.IsPrint(r) ||
			unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
			return false
		}
	}
	return true
}

// nameCharacter returns the character that stands for r in the exposed name of a tool.
func nameCharacter(r rune) rune {
	if isNoNameCharacter(r) {
		return '_'
	}
	return r
}

// Marked returns name, cut where it is too long, with "-" and six hexadecimal digits of a
// hash of the whole name at its end. A counter would be shorter, but a name made with it
// would depend on which other tools there are; this one is the same after every restart
// and on every replica.
func Marked(name string, limit int, whole string) string {
	sum := sha256.Sum256([]byte(whole))
	tail := "-" + hex.EncodeToString(sum[:3])
	end := min(len(name), limit-len(tail))
	for end < len(name) && !utf8.RuneStart(name[end]) {
		end--
	}
	return name[:end] + tail
}

// Beginning returns what the exposed names of tools and prompts of a server with that
// prefix begin with, "" for the empty prefix.
func Beginning(prefix string) string {
	if prefix == "" {
		return ""
	}
	return prefix + separator
}
