package sanitize

import (
	"bytes"
	"iter"
	"unicode/utf8"

	"golang.org/x/text/encoding/unicode"
)

// This file finds text in files that have other bytes, too. One such byte does not make a
// picture of a text: whoever reads the file sees a strange character, and reads on.

const (
	// The bytes of a file are looked at in blocks. Of those that chance has chosen, more
	// than half are strange; of those of a text, less than one in strangePart.
	blockSize   = 128
	strangePart = 8
	// stretches of less are left out, since chance makes some of them
	leastStretch = 32
	// So many hidden characters make hidden text. Programs and fonts have a few in
	// tables.
	leastHidden = 8
)

// stretches yields the parts of a file that a reader may take for text, without what is
// strange in them: bytes that are no UTF-8, and control characters, which are in any
// picture. Byte order marks are left out, too, because the XMP in pictures has one.
func stretches(file []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		var text []byte
		for len(file) > 0 {
			size := min(blockSize, len(file))
			for size < len(file) && size < blockSize+utf8.UTFMax && !utf8.RuneStart(file[size]) {
				size++ // or what stands on both sides of a character that was cut would lose it
			}
			before, strange := len(text), 0
			text, strange = appendLegible(text, file[:size])
			if strange*strangePart >= size {
				if before >= leastStretch && !yield(text[:before]) {
					return
				}
				text = text[:0]
			}
			file = file[size:]
		}
		if len(text) >= leastStretch {
			yield(text)
		}
	}
}

// appendLegible appends what is not strange of part to dst, and tells how many bytes are.
func appendLegible(dst, part []byte) (legible []byte, strange int) {
	for len(part) > 0 {
		r, size := utf8.DecodeRune(part)
		switch {
		case r == utf8.RuneError && size == 1, isControl(r):
			strange += size
		case r != byteOrderMark:
			dst = append(dst, part[:size]...)
		}
		part = part[size:]
	}
	return dst, strange
}

// fromUTF16 returns a file in UTF-8 that begins with a byte order mark of UTF-16, and any
// other file as it is.
func fromUTF16(file []byte) []byte {
	// before the decoder, which makes room for all of the file first
	if !bytes.HasPrefix(file, []byte{0xFF, 0xFE}) && !bytes.HasPrefix(file, []byte{0xFE, 0xFF}) {
		return file
	}
	text, err := unicode.UTF16(unicode.BigEndian, unicode.ExpectBOM).NewDecoder().Bytes(file)
	if err != nil {
		return file
	}
	return text
}
