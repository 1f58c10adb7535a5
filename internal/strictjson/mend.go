package strictjson

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"unicode/utf16"
	"unicode/utf8"
)

// Mend returns data with every byte that is no UTF-8, and every escape of a lone
// surrogate, replaced by U+FFFD, and how many it replaced. It is for what servers send,
// where one character that was cut in half must not cost a whole answer. It mends nothing
// else. If it finds nothing, it returns data itself.
func Mend(data []byte) ([]byte, int) {
	mended, count := mendEscapes(data)
	if utf8.Valid(mended) {
		return mended, count
	}
	var out bytes.Buffer
	out.Grow(len(mended) + 16)
	for len(mended) > 0 {
		r, size := utf8.DecodeRune(mended)
		if r == utf8.RuneError && size <= 1 {
			count++
		}
		out.WriteRune(r)
		mended = mended[size:]
	}
	return out.Bytes(), count
}

// mendEscapes replaces escapes of surrogates (\uD800 … \uDFFF) that do not form a pair.
// It does not need to know where strings are: a backslash outside a string is no JSON,
// which Check will say.
func mendEscapes(data []byte) ([]byte, int) {
	if bytes.IndexByte(data, '\\') < 0 {
		return data, 0
	}
	var out []byte
	count, copied := 0, 0
	for i := 0; i < len(data); i++ {
		if data[i] != '\\' {
			continue
		}
		first, ok := surrogate(data[i:])
		switch second, pair := surrogate(data[min(i+6, len(data)):]); {
		case !ok:
			i++ // passes the escaped character, which may be a backslash itself
		case first < 0xDC00 && pair && second >= 0xDC00:
			i += 11 // passes a whole pair
		default:
			out = append(append(out, data[copied:i]...), `\ufffd`...)
			i += 5
			copied = i + 1
			count++
		}
	}
	if count == 0 {
		return data, 0
	}
	return append(out, data[copied:]...), count
}

// surrogate returns the surrogate that data begins with, written as \uXXXX, and false if
// there is none.
func surrogate(data []byte) (rune, bool) {
	if len(data) < 6 || data[0] != '\\' || data[1] != 'u' {
		return 0, false
	}
	var unit [2]byte
	if _, err := hex.Decode(unit[:], data[2:6]); err != nil {
		return 0, false
	}
	r := rune(binary.BigEndian.Uint16(unit[:]))
	return r, utf16.IsSurrogate(r)
}
