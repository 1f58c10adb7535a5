package registry

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of names.
const (
	maxExposed    = 47  // bytes of a prefixed name; clients add a prefix of their own and models take 64
	maxToolName   = 128 // characters, of prompts' names too
	maxServerName = 16
	separator     = "__"
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

// validPromptName tells whether a prompt's name is safe to show and to send. The protocol does not restrict it to the
// characters of tools' names, and servers use spaces and letters of any language; so it is 1 to 128 characters that can
// be seen, and single spaces within.
func validPromptName(name string) bool {
	return name != "" && utf8.RuneCountInString(name) <= maxToolName && isVisible(name) &&
		name == strings.TrimSpace(name) && !strings.Contains(name, "  ")
}

// isVisible tells whether text is valid UTF-8 of characters that a reader sees, or the plain space.
func isVisible(text string) bool {
	for _, r := range text {
		if r == utf8.RuneError || !unicode.IsPrint(r) ||
			unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
			return false
		}
	}
	return true
}

// exposedTool returns what clients call a tool.
func exposedTool(prefix, name string) (string, error) {
	if !validToolName(name) {
		return "", errToolName
	}
	return exposedName(prefix, name)
}

// exposedPrompt returns what clients call a prompt.
func exposedPrompt(prefix, name string) (string, error) {
	if !validPromptName(name) {
		return "", errPromptName
	}
	return exposedName(prefix, name)
}

// exposedName puts the prefix before a name. A prefixed name that is too long is cut and ends in a hash of the full
// name, so that it is the same after every restart and on every replica.
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

// Beginning returns what the exposed names of tools and prompts begin with that have a prefix; "" for the empty prefix.
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
