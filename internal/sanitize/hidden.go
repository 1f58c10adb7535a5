package sanitize

import (
	"bytes"
	"unicode"
	"unicode/utf8"
)

// Code points that the rules name.
const (
	combiningJoiner  = 0x034F
	arabicMark       = 0x061C
	zeroWidthSpace   = 0x200B
	nonJoiner        = 0x200C
	joiner           = 0x200D
	leftMark         = 0x200E
	rightMark        = 0x200F
	keycap           = 0x20E3
	textSelector     = 0xFE0E
	emojiSelector    = 0xFE0F
	blackFlag        = 0x1F3F4
	firstSupplement  = 0xE0100
	lastSupplement   = 0xE01EF
	lastSpecialPlane = 0xE0FFF
)

// suspect tells whether r hides from a reader in some context, so that a rule decides about it.
func suspect(r rune) bool {
	switch {
	case r < 0x300:
		return r == 0xAD // soft hyphen
	case r < 0x2000:
		return r == combiningJoiner || r == arabicMark ||
			r == 0x115F || r == 0x1160 || // Hangul fillers
			r == 0x17B4 || r == 0x17B5 || // Khmer inherent vowels
			r >= 0x180B && r <= 0x180F // Mongolian selectors and separator
	case r < 0x2070:
		return r >= zeroWidthSpace && r <= rightMark || r >= 0x202A && r <= 0x202E || r >= 0x2060
	case r < 0xFE00:
		return r == 0x3164 // Hangul filler
	case r < 0x10000:
		return r <= emojiSelector || r == 0xFEFF || r == 0xFFA0 || r >= 0xFFF0 && r <= 0xFFFB
	}
	return r >= 0xE0000 && r <= lastSpecialPlane || // tags and selectors
		r >= 0x1BCA0 && r <= 0x1BCA3 || r >= 0x1D173 && r <= 0x1D17A // shorthand and musical format controls
}

// unwanted tells whether r has no place in a definition.
func unwanted(r rune) bool { return unicode.In(r, unicode.Cf, unicode.Co) }

// removeHidden is the pass that removes what hides from a reader, where a script or an emoji does not need it.
func (c *cleaner) removeHidden(dst, text []byte) ([]byte, bool) {
	kept, changed := 0, false
	direction := directions{text: text}
	for i := 0; i < len(text); {
		if text[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		hides := suspect(r) || c.strict && unwanted(r)
		if !hides {
			i += size
			continue
		}
		dst = append(dst, text[kept:i]...)
		keep := 0
		if !c.strict || selector(r) {
			keep = direction.allowed(dst, i, r)
		}
		dst = append(dst, text[i:i+keep]...)
		if keep == 0 {
			keep, changed = size, true
			c.hidden++
		}
		i += keep
		kept = i
	}
	return append(dst, text[kept:]...), changed
}

// allowed returns how many bytes of the text from i on, which begins there with r, may stay behind before; 0: r has no
// place there.
func (d *directions) allowed(before []byte, i int, r rune) int {
	size := utf8.RuneLen(r)
	after := d.text[i+size:]
	fine := false
	switch {
	case r == joiner || r == nonJoiner:
		fine = joins(before, after, r)
	case r == zeroWidthSpace:
		fine = breaksWords(last(before)) && breaksWords(first(after))
	case r == leftMark || r == rightMark || r == arabicMark:
		fine = d.marks(i, before, after)
	case isolation(r):
		fine = d.isolates(i)
	case selector(r):
		fine = selects(last(before), r, after)
	case last(before) == blackFlag:
		return flagTags(d.text[i:])
	}
	if !fine {
		return 0
	}
	return size
}

// flagTags returns the size of the tags at the start of text when they are exactly those of one of the three flags
// recommended for interchange. Any other run after a black flag is hidden text.
// https://www.unicode.org/reports/tr51/#def_emoji_tag_sequence
func flagTags(text []byte) int {
	for _, tags := range []string{
		"\U000E0067\U000E0062\U000E0065\U000E006E\U000E0067\U000E007F", // gbeng
		"\U000E0067\U000E0062\U000E0073\U000E0063\U000E0074\U000E007F", // gbsct
		"\U000E0067\U000E0062\U000E0077\U000E006C\U000E0073\U000E007F", // gbwls
	} {
		if bytes.HasPrefix(text, []byte(tags)) {
			return len(tags)
		}
	}
	return 0
}

// last returns the last code point of text, first its first one; utf8.RuneError when there is none.
func last(text []byte) rune {
	r, _ := utf8.DecodeLastRune(text)
	return r
}

func first(text []byte) rune {
	r, _ := utf8.DecodeRune(text)
	return r
}
