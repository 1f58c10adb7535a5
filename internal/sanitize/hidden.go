package sanitize

import (
	"bytes"
	"unicode"
	"unicode/utf8"
)

// This file decides which invisible code points stay. Removing all of them would break
// text: Persian needs the non-joiner, emoji families need the joiner, Thai marks word
// breaks with the zero-width space. Keeping them all would let a server write to the
// model what no reader sees, above all with tag characters and variation selectors, which
// can spell any text. So each one stays only next to characters for which it has an
// effect, and only as many as have one. docs/cleaning.md says what stays, what goes, and
// how much can still be hidden.

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
			r >= firstSelector && r <= emojiSelector || r == 0xFEFF || r == 0xFFA0 || r >= 0xFFF0 &&
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

// judge decides about one text which suspect code points stay. Questions must come in the
// order of their places.
type judge struct {
	directions directions
	variations variations
}

// removeHidden is the pass that removes invisible code points that no script or emoji
// needs where they stand. Whether one stays depends on what is left before it, which is
// dst: in the original text, a code point that is removed itself could justify the next
// one.
func (c *cleaner) removeHidden(dst, text []byte) ([]byte, bool) {
	kept, changed := 0, false
	judge := judge{directions{text: text}, variations{text: text}}
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
			keep = judge.allowed(dst, i, r)
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

// allowed returns how many bytes of the text from i on may stay behind before, the
// cleaned text so far; r is the code point at i. It is 0 when r must go, the size of r
// when it may stay, and more for a run of tags that only counts as a whole.
func (j *judge) allowed(before []byte, i int, r rune) int {
	text, size := j.directions.text, utf8.RuneLen(r)
	after := text[i+size:]
	fine := false
	switch {
	case r == joiner || r == nonJoiner:
		fine = joins(before, after, r)
	case r == zeroWidthSpace:
		fine = breaksWords(last(before), first(after))
	case r == leftMark || r == rightMark || r == arabicMark:
		fine = j.directions.marks(i, before, after)
	case isolation(r):
		fine = j.directions.isolates(i)
	case r == vowelSeparator:
		fine = separatesVowel(last(before), first(after))
	case arrangesHieroglyphs(r):
		fine = behindHieroglyph(before)
	case r == khitanFiller:
		fine = last(before) != khitanFiller && unicode.Is(unicode.Khitan_Small_Script, last(before))
	case selector(r):
		fine = selects(last(before), r, after) && j.variations.affords(i, last(before))
	case last(before) == blackFlag:
		return flagTags(text[i:])
	}
	if !fine {
		return 0
	}
	return size
}

// flagTags returns the size of the run of tags at the start of text when it is that of
// England, Scotland or Wales, the three flags that Unicode recommends for interchange,
// and 0 otherwise. Any other run behind a black flag is hidden text.
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
