package mcp

import (
	"fmt"
	"unicode/utf8"
)

// InBytes writes a count of bytes for the words of an error, exactly: in MiB or KiB if it
// is a whole number of these, as configs have it, otherwise in bytes.
func InBytes(n int64) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}

// Clip returns text, or where it has more than size bytes its beginning, which ends with
// a whole character, and a mark.
func Clip(text string, size int) string {
	if len(text) <= size {
		return text
	}
	for size > 0 && !utf8.RuneStart(text[size]) {
		size--
	}
	return text[:size] + "…"
}
