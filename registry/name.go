package registry

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
)

// Bounds of names.
const (
	maxExposed    = 47 // of a prefixed name; clients add a prefix of their own and models take 64
	maxToolName   = 128
	maxServerName = 16
	separator     = "__"
)

var (
	errName   = errors.New("a tool's name must be 1 to 128 characters of A-Za-z0-9_.-")
	errPrefix = errors.New("the prefix has a character that no tool's name may have")
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

// exposedName returns what clients call a tool. A prefixed name that is too long is cut and ends in a hash of the full
// name, so that it is the same after every restart and on every replica.
func exposedName(prefix, name string) (string, error) {
	switch {
	case !validToolName(name):
		return "", errName
	case prefix == "":
		return name, nil
	case !onlyNameCharacters(prefix):
		return "", errPrefix
	}
	full := prefix + separator + name
	if len(full) <= maxExposed {
		return full, nil
	}
	sum := sha256.Sum256([]byte(full))
	tail := "-" + hex.EncodeToString(sum[:3])
	return full[:maxExposed-len(tail)] + tail, nil
}
