package sanitize

import (
	"bytes"
	"unicode/utf8"
)

// Characters of the control functions of ECMA-48, which terminals obey.
// https://ecma-international.org/publications-and-standards/standards/ecma-48/
const (
	bell       = 0x07 // ends a control string on many terminals, beside ST (ESC \ or U+009C)
	cancel     = 0x18
	substitute = 0x1A
	esc        = 0x1B
)

// isControl tells whether r is a control character that has no place in a text: one of C0
// (but tab, line feed, carriage return and form feed, which begins a new page in plain
// text such as RFCs and old sources), DEL, or one of C1.
func isControl(r rune) bool {
	if r < ' ' {
		return r != '\t' && r != '\n' && r != '\r' && r != '\f'
	}
	return r >= 0x7F && r <= 0x9F
}

// overwrites tells whether text[i] can hide on a terminal what stands before it: a
// carriage return without a line feed behind it, after which the rest overwrites the
// line, or a form feed, which may clear the screen.
func overwrites(text []byte, i int) bool {
	return text[i] == '\f' || text[i] == '\r' && (i+1 == len(text) || text[i+1] != '\n')
}

// removeControls is the pass that removes control characters, and escape sequences that
// begin with ESC as a whole: if only that went, the rest of the sequence would stay as
// rubbish in the text. Of a sequence in its 8-bit form only the first character goes, and
// the rest can be read. Hardly anything sends that form in Unicode, while text that was
// decoded wrongly is full of its characters: every emoji has U+009F, which begins a
// control string.
func (c *cleaner) removeControls(dst, text []byte) ([]byte, bool) {
	copied, changed := 0, false
	for i := 0; i < len(text); {
		r, size := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(text[i:])
		}
		if !isControl(r) && (!c.strict || !overwrites(text, i)) {
			i += size
			continue
		}
		dst = append(dst, text[copied:i]...)
		if i += size; r == esc {
			c.escape++
			i = afterEscape(text, i)
		} else {
			c.control++
		}
		copied, changed = i, true
	}
	return append(dst, text[copied:]...), changed
}

// afterEscape returns the index after the escape sequence whose ESC stands before i. A
// broken sequence ends before the first character that cannot belong to it.
// https://ecma-international.org/publications-and-standards/standards/ecma-48/
func afterEscape(text []byte, i int) int {
	if i == len(text) {
		return i
	}
	switch c := text[i]; {
	case c == '[':
		for i++; i < len(text) && text[i] >= 0x30 && text[i] <= 0x3F; {
			i++
		}
		return final(text, i, 0x40)
	case bytes.IndexByte([]byte("PX]^_"), c) >= 0: // DCS, SOS, OSC, PM and APC begin a control string
		return afterString(text, i+1)
	case c >= 0x40 && c <= 0x5F:
		return i + 1
	case c >= 0x20 && c <= 0x7E:
		return final(text, i, 0x30)
	}
	return i
}

// final returns the index after any intermediate bytes (0x20 to 0x2F) that begin at i and
// the final byte behind them, which is one of first to 0x7E.
func final(text []byte, i int, first byte) int {
	for i < len(text) && text[i] >= 0x20 && text[i] <= 0x2F {
		i++
	}
	if i < len(text) && text[i] >= first && text[i] <= 0x7E {
		i++
	}
	return i
}

// afterString returns the index after the control string whose text begins at i. A
// control string without an end is taken to end with the line, so that a broken one costs
// the reader no more text than that.
func afterString(text []byte, i int) int {
	for ; i < len(text); i++ {
		switch text[i] {
		case bell, cancel, substitute:
			return i + 1
		case '\n', '\r':
			return i
		case esc:
			if i+1 < len(text) && text[i+1] == '\\' {
				return i + 2
			}
			return i
		case 0xC2: // the first byte of ST in UTF-8
			if bytes.HasPrefix(text[i:], []byte("\u009c")) {
				return i + 2
			}
		}
	}
	return i
}
