package sanitize

import (
	"bytes"
	"unicode/utf8"
)

// Characters that begin or end the control functions of ECMA-48, and bytes of the functions themselves.
const (
	bell       = 0x07
	cancel     = 0x18
	substitute = 0x1A
	esc        = 0x1B
	dcs        = 0x90 // as all below, the 8-bit form: ESC and this less 0x40 is the 7-bit form
	sos        = 0x98
	csi        = 0x9B
	st         = 0x9C
	osc        = 0x9D
	pm         = 0x9E
	apc        = 0x9F
)

// isControl tells whether r is a control character that has no place in a text.
func isControl(r rune) bool {
	if r < ' ' {
		return r != '\t' && r != '\n' && r != '\r'
	}
	return r >= 0x7F && r <= 0x9F
}

// loneReturn tells whether text[i] is a carriage return that ends no line: on a terminal it overwrites the line.
func loneReturn(text []byte, i int) bool {
	return text[i] == '\r' && (i+1 == len(text) || text[i+1] != '\n')
}

// removeControls is the pass that removes control characters and the whole of escape sequences.
func (c *cleaner) removeControls(dst, text []byte) ([]byte, bool) {
	kept, changed := 0, false
	for i := 0; i < len(text); {
		r, size := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(text[i:])
		}
		unwanted := isControl(r) || c.strict && loneReturn(text, i)
		if !unwanted {
			i += size
			continue
		}
		dst = append(dst, text[kept:i]...)
		if end := sequence(text, i); end > i+size || r == esc {
			c.escape++
			i = end
		} else {
			c.control++
			i += size
		}
		kept, changed = i, true
	}
	return append(dst, text[kept:]...), changed
}

// sequence returns the end of the escape sequence that begins at i, or of the control character alone. A sequence
// that is broken off ends where it stops being one.
// https://ecma-international.org/publications-and-standards/standards/ecma-48/
func sequence(text []byte, i int) int {
	r, size := utf8.DecodeRune(text[i:])
	i += size
	if r == esc && i < len(text) {
		switch c := text[i]; {
		case c >= 0x40 && c <= 0x5F:
			r, i = rune(c)+0x40, i+1
		case c >= 0x20 && c <= 0x7E:
			return final(text, i, 0x30)
		}
	}
	switch r {
	case csi:
		for i < len(text) && text[i] >= 0x30 && text[i] <= 0x3F {
			i++
		}
		return final(text, i, 0x40)
	case dcs, sos, osc, pm, apc:
		return afterString(text, i)
	}
	return i
}

// final returns the index after the intermediate bytes at i and the final byte, one of first to 0x7E, behind them.
func final(text []byte, i int, first byte) int {
	for i < len(text) && text[i] >= 0x20 && text[i] <= 0x2F {
		i++
	}
	if i < len(text) && text[i] >= first && text[i] <= 0x7E {
		i++
	}
	return i
}

// afterString returns the index after the control string that goes on at i. One without its end ends with the line,
// so that a broken sequence hides no more than that.
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
		case 0xC2:
			if bytes.HasPrefix(text[i:], []byte("\u009c")) {
				return i + 2
			}
		}
	}
	return i
}
