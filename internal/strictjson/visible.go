package strictjson

import (
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// This file keeps what servers and clients chose from deceiving people who read JSON in a
// terminal or an editor.

// Hidden tells whether a reader would not see r, or would see something other than what
// is there. Besides what is not printable these are characters that change their
// neighbours or show nothing although Unicode counts them as visible, such as U+2800, the
// empty Braille pattern.
func Hidden(r rune) bool {
	return !unicode.IsPrint(r) || unicode.In(r, unicode.Variation_Selector,
		unicode.Other_Default_Ignorable_Code_Point) || r == '\u2800'
}

// AppendVisible appends JSON with an escape in the place of each hidden character. It
// means the same to programs. Broken UTF-8 becomes U+FFFD. Bytes below 0x7F stay: in
// strings JSON has escaped those that control terminals, and between them stand only
// spaces and line breaks.
func AppendVisible(dst, data []byte) []byte {
	copied := 0
	for i := 0; i < len(data); {
		if data[i] < 0x7F {
			i++
			continue
		}
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 || Hidden(r) {
			dst = appendEscape(append(dst, data[copied:i]...), r)
			copied = i + size
		}
		i += size
	}
	return append(dst, data[copied:]...)
}

// AppendVisibleQuote appends text to dst as a string of JSON, with an escape in the place
// of each character that a terminal would hide or obey. Broken UTF-8 becomes U+FFFD. Most
// texts are of visible ASCII and are copied as they are.
func AppendVisibleQuote(dst []byte, text string) []byte {
	dst = append(dst, '"')
	copied := 0
	for i := 0; i < len(text); {
		c := text[i]
		if c >= ' ' && c < 0x7F && c != '"' && c != '\\' {
			i++
			continue
		}
		r, size := rune(c), 1
		if c >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(text[i:])
		}
		if c < utf8.RuneSelf || r == utf8.RuneError && size == 1 || Hidden(r) {
			dst = appendShortEscape(append(dst, text[copied:i]...), r)
			copied = i + size
		}
		i += size
	}
	return append(append(dst, text[copied:]...), '"')
}

// appendShortEscape appends the escape of two characters that r has, if it has one that
// package log/slog writes, too.
func appendShortEscape(dst []byte, r rune) []byte {
	switch r {
	case '"', '\\':
		return append(dst, '\\', byte(r))
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	}
	return appendEscape(dst, r)
}

// appendEscape appends r as an escape of JSON, or as the two of a surrogate pair beyond
// U+FFFF.
func appendEscape(dst []byte, r rune) []byte {
	high, low := utf16.EncodeRune(r)
	if high == unicode.ReplacementChar {
		return appendUnit(dst, r)
	}
	return appendUnit(appendUnit(dst, high), low)
}

// appendUnit appends one UTF-16 code unit as \uXXXX.
func appendUnit(dst []byte, unit rune) []byte {
	const hex = "0123456789abcdef"
	return append(dst, '\\', 'u', hex[unit>>12&15], hex[unit>>8&15], hex[unit>>4&15], hex[unit&15])
}
