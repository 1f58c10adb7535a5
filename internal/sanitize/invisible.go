package sanitize

import (
	"unicode"
	"unicode/utf8"
)

// Code points that the rules name.
const (
	combiningJoiner  = 0x034F
	arabicMark       = 0x061C
	vowelSeparator   = 0x180E
	zeroWidthSpace   = 0x200B
	nonJoiner        = 0x200C
	joiner           = 0x200D
	leftMark         = 0x200E
	rightMark        = 0x200F
	keycap           = 0x20E3
	firstSelector    = 0xFE00
	textSelector     = 0xFE0E
	emojiSelector    = 0xFE0F
	byteOrderMark    = 0xFEFF
	khitanFiller     = 0x16FE4
	blackFlag        = 0x1F3F4
	firstSupplement  = 0xE0100
	lastSupplement   = 0xE01EF
	lastSpecialPlane = 0xE0FFF
)

// suspect tells whether r can be invisible, or means nothing that two programs agree on.
// Rules then decide by its neighbours whether it stays. It is true for every code point
// with the property Default_Ignorable_Code_Point, for noncharacters, for private use, and
// for the controls and modifiers of hieroglyphs and the filler of Khitan: those who have
// no font for them should see a box, but terminals show nothing.
// https://www.unicode.org/Public/UCD/latest/ucd/DerivedCoreProperties.txt
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
	case r < 0xE000:
		return r == 0x3164 // Hangul filler
	case r < 0x10000:
		return r < 0xF900 || // private use
			r >= 0xFDD0 && r <= 0xFDEF || r >= 0xFFFE || // noncharacters
			r >= firstSelector && r <= emojiSelector || r == byteOrderMark || r == 0xFFA0 || r >= 0xFFF0 &&
			r <= 0xFFFB
	}
	return r >= 0xE0000 && r <= lastSpecialPlane || // tags and selectors
		r >= 0xF0000 || r&0xFFFE == 0xFFFE || // private use, noncharacters
		// shorthand and musical format controls
		arrangesHieroglyphs(r) || r == khitanFiller || r >= 0x1BCA0 && r <= 0x1BCA3 || r >= 0x1D173 &&
		r <= 0x1D17A
}

// arrangesHieroglyphs tells whether r is a control that puts hieroglyphs side by side or
// one into another, or a modifier that mirrors one or marks a part of it as damaged.
func arrangesHieroglyphs(r rune) bool {
	return r >= 0x13430 && r <= 0x13440 || r >= 0x13447 && r <= 0x13455
}

// behindHieroglyph tells whether text ends in a hieroglyph, with no more than two of
// their controls behind it: nobody needs four in a row.
func behindHieroglyph(text []byte) bool {
	r, size := utf8.DecodeLastRune(text)
	for n := 0; n < 2 && arrangesHieroglyphs(r); n++ {
		text = text[:len(text)-size]
		r, size = utf8.DecodeLastRune(text)
	}
	return !arrangesHieroglyphs(r) && unicode.Is(unicode.Egyptian_Hieroglyphs, r)
}

// unwanted tells whether r has no place in a definition, beside what is suspect: a format
// character (Cf).
func unwanted(r rune) bool { return unicode.Is(unicode.Cf, r) }

// last returns the last code point of text, utf8.RuneError when text is empty.
func last(text []byte) rune {
	r, _ := utf8.DecodeLastRune(text)
	return r
}

// first returns the first code point of text, utf8.RuneError when text is empty.
func first(text []byte) rune {
	r, _ := utf8.DecodeRune(text)
	return r
}
