package sanitize

import (
	"bytes"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

// unescape returns the text that the inside of a valid JSON string stands for: inside
// itself when it has no escape, otherwise the text appended to dst.
func unescape(dst, inside []byte) []byte {
	i := bytes.IndexByte(inside, '\\')
	if i < 0 {
		return inside
	}
	dst = slices.Grow(dst, len(inside)) // no escape stands for more bytes than it has
	for i >= 0 {
		dst = append(dst, inside[:i]...)
		var size int
		dst, size = appendEscape(dst, inside[i:])
		inside = inside[i+size:]
		i = bytes.IndexByte(inside, '\\')
	}
	return append(dst, inside...)
}

// appendEscape appends what the escape at the start of text stands for, and returns the
// size of the escape in bytes. A lone surrogate becomes U+FFFD.
func appendEscape(dst, text []byte) ([]byte, int) {
	switch c := text[1]; c {
	case 'b':
		return append(dst, '\b'), 2
	case 'f':
		return append(dst, '\f'), 2
	case 'n':
		return append(dst, '\n'), 2
	case 'r':
		return append(dst, '\r'), 2
	case 't':
		return append(dst, '\t'), 2
	case 'u':
		r := hex4(text[2:])
		if utf16.IsSurrogate(r) && len(text) >= 12 && text[6] == '\\' {
			return utf8.AppendRune(dst, utf16.DecodeRune(r, hex4(text[8:]))), 12
		}
		return utf8.AppendRune(dst, r), 6
	default:
		return append(dst, c), 2
	}
}

// hex4 returns the number that the four hexadecimal digits at the start of text write.
func hex4(text []byte) rune {
	var r rune
	for _, c := range text[:4] {
		switch {
		case c <= '9':
			r = r<<4 | rune(c-'0')
		default:
			r = r<<4 | rune(c|0x20-'a'+10)
		}
	}
	return r
}
