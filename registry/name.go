package registry

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of names. Model APIs take tool names of up to 64 characters, and clients put a prefix of their own before the
// name: maxExposed leaves them 17 bytes.
const (
	maxExposed    = 47   // bytes of a prefixed name
	maxToolName   = 128  // characters of the own name of a tool or prompt
	maxServerName = 16   // bytes
	separator     = "__" // between prefix and own name
)

var (
	errToolName   = errors.New("a tool's name must be 1 to 128 characters of A-Za-z0-9_.-")
	errPromptName = errors.New("a prompt's name must be 1 to 128 visible characters, with single spaces only within")
	errPrefix     = errors.New("the prefix has a character that no tool's name may have")
)

// ValidServerName tells whether name may name a server in the config: 1 to 16 characters of a-z, 0-9 and -.
func ValidServerName(name string) bool {
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return len(name) >= 1 && len(name) <= maxServerName
}

// validToolName follows https://modelcontextprotocol.io/specification/2026-07-28/server/tools#tool-names
func validToolName(name string) bool {
	return len(name) >= 1 && len(name) <= maxToolName && onlyNameCharacters(name)
}

func onlyNameCharacters(name string) bool {
	for i := range len(name) {
		if c := name[i]; !isAlphanumeric(c) && c != '_' && c != '.' && c != '-' {
			return false
		}
	}
	return true
}

func isAlphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// validPromptName tells whether a prompt's name is safe to show and to send. The protocol does not restrict prompt
// names to the characters of tool names, and servers use spaces and letters of any language. What is refused could make
// two names look alike: invisible characters, and spaces at the ends or in a row.
func validPromptName(name string) bool {
	return name != "" && utf8.RuneCountInString(name) <= maxToolName && isVisible(name) &&
		name == strings.TrimSpace(name) && !strings.Contains(name, "  ")
}

// isVisible tells whether text is valid UTF-8 in which every character is the plain space or one that a reader sees.
func isVisible(text string) bool {
	for _, r := range text {
		if r == utf8.RuneError || !unicode.IsPrint(r) ||
			unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
			return false
		}
	}
	return true
}

// exposedTool returns the exposed name of a tool. The error says why its own name or the prefix is not valid.
func exposedTool(prefix, name string) (string, error) {
	if !validToolName(name) {
		return "", errToolName
	}
	return exposedName(prefix, name)
}

// exposedPrompt returns the exposed name of a prompt. The error says why its own name or the prefix is not valid.
func exposedPrompt(prefix, name string) (string, error) {
	if !validPromptName(name) {
		return "", errPromptName
	}
	return exposedName(prefix, name)
}

// exposedName puts the prefix before a name. A prefixed name that is too long is cut and ends in "-" and six
// hexadecimal digits of a hash of the full name. A counter would be shorter, but a name made with it would depend on
// which other tools there are; this one is the same after every restart and on every replica.
func exposedName(prefix, name string) (string, error) {
	switch {
	case prefix == "":
		return name, nil
	case !onlyNameCharacters(prefix):
		return "", errPrefix
	}
	full := Beginning(prefix) + name
	if !isCut(prefix, name) {
		return full, nil
	}
	sum := sha256.Sum256([]byte(full))
	tail := "-" + hex.EncodeToString(sum[:3])
	end := maxExposed - len(tail)
	for !utf8.RuneStart(full[end]) {
		end--
	}
	return full[:end] + tail, nil
}

// Beginning returns what the exposed names of tools and prompts of a server with that prefix begin with, "" for the
// empty prefix.
func Beginning(prefix string) string {
	if prefix == "" {
		return ""
	}
	return prefix + separator
}

// isCut tells whether a name with that prefix is too long to be exposed whole.
func isCut(prefix, name string) bool {
	return prefix != "" && len(prefix)+len(separator)+len(name) > maxExposed
}
