package sanitize

import (
	"slices"
	"unicode"
	"unicode/utf8"
)

// joins tells whether r, a zero-width joiner or non-joiner, has an effect between before
// and after: it joins two emoji, or changes the form of letters.
// https://www.unicode.org/reports/tr31/#Layout_and_Format_Control_Characters
func joins(before, after []byte, r rune) bool {
	left, right := last(before), first(after)
	if r == joiner && emojiEnds(before) && isEmoji(right) {
		return true
	}
	if !shaping(left) {
		return false
	}
	// At the end of a word too, a joiner or non-joiner changes the letters before it when
	// it stands behind a virama, and a joiner when it stands behind an Arabic letter.
	return shaping(right) || slices.Contains(viramas, left) || r == joiner && unicode.Is(unicode.Arabic, left)
}

// shaping tells whether r belongs to a script in which letters change their form next to
// other letters.
func shaping(r rune) bool {
	return !suspect(r) && (unicode.In(r,
		unicode.Arabic, unicode.Syriac, unicode.Mandaic, unicode.Nko, unicode.Mongolian, unicode.Phags_Pa,
		unicode.Adlam,
		unicode.Hanifi_Rohingya, unicode.Manichaean, unicode.Sogdian, unicode.Psalter_Pahlavi,
		unicode.Devanagari, unicode.Bengali, unicode.Gurmukhi, unicode.Gujarati, unicode.Oriya, unicode.Tamil,
		unicode.Telugu, unicode.Kannada, unicode.Malayalam, unicode.Sinhala,
		unicode.Tibetan, unicode.Myanmar, unicode.Khmer, unicode.Balinese, unicode.Javanese,
		unicode.Sundanese,
		unicode.Brahmi, unicode.Grantha, unicode.Newa, unicode.Tirhuta, unicode.Chakma,
		unicode.Meetei_Mayek) ||
		r >= 0x064B && r <= 0x0655 || r == 0x0670) // Arabic vowel marks, which several scripts inherit
}

// viramas are the signs that take the vowel from the letter before them.
var viramas = []rune{
	0x094D, 0x09CD, 0x0A4D, 0x0ACD, 0x0B4D, 0x0BCD, 0x0C4D, 0x0CCD, 0x0D4D, 0x0DCA, 0x1039, 0x17D2,
}

// breaksLine tells whether a zero-width space between these two code points marks where
// a line may break: in scripts that write no space between words, and in Japanese next to
// kana.
func breaksLine(left, right rune) bool {
	return unspaced(left) && unspaced(right) ||
		kana(left) && (kana(right) || unicode.Is(unicode.Han, right)) || kana(right) &&
		unicode.Is(unicode.Han, left)
}

// unspaced tells whether r is of a script of South-East Asia that writes no space between
// words.
func unspaced(r rune) bool {
	return !suspect(r) && unicode.In(r, unicode.Thai, unicode.Khmer, unicode.Lao, unicode.Myanmar,
		unicode.Tai_Tham, unicode.Tai_Le, unicode.New_Tai_Lue, unicode.Tai_Viet, unicode.Javanese,
		unicode.Balinese)
}

// kana tells whether r is Japanese kana, or the mark of a long vowel or an end of phrase
// that stands among them.
func kana(r rune) bool {
	return unicode.In(r, unicode.Hiragana, unicode.Katakana) || r == 'ー' || r == '、' || r == '。'
}

// separatesVowel tells whether the Mongolian vowel separator has an effect between these
// two: it stands before a or e at the end of a word.
func separatesVowel(left, right rune) bool {
	return mongolianLetter(left) && (right == 0x1820 || right == 0x1821)
}

func mongolianLetter(r rune) bool { return unicode.Is(unicode.Mongolian, r) && unicode.IsLetter(r) }

// keycapBase tells whether r is what a keycap emoji, such as 1 on a key, begins with.
func keycapBase(r rune) bool { return r >= '0' && r <= '9' || r == '#' || r == '*' }

// emojiEnds tells whether text ends in an emoji, with or without an emoji selector behind
// it.
func emojiEnds(text []byte) bool {
	r, size := utf8.DecodeLastRune(text)
	if r == emojiSelector {
		r = last(text[:len(text)-size])
	}
	return isEmoji(r)
}

func isEmoji(r rune) bool { return r >= 0xA9 && unicode.Is(emoji, r) }

// emoji holds the code points that may take an emoji selector or be joined: those with
// the property Extended_Pictographic, some symbols between them, so that the table stays
// short, and the modifiers for the colour of skin.
// https://www.unicode.org/Public/UCD/latest/ucd/emoji/emoji-data.txt
var emoji = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x00A9, 0x00AE, 5},
		{0x203C, 0x2049, 13},
		{0x2122, 0x2139, 23},
		{0x2194, 0x2199, 1},
		{0x21A9, 0x21AA, 1},
		{0x231A, 0x231B, 1},
		{0x2328, 0x2388, 96},
		{0x23CF, 0x23CF, 1},
		{0x23E9, 0x23FA, 1},
		{0x24C2, 0x24C2, 1},
		{0x25AA, 0x25AB, 1},
		{0x25B6, 0x25C0, 10},
		{0x25FB, 0x25FE, 1},
		{0x2600, 0x27BF, 1},
		{0x2934, 0x2935, 1},
		{0x2B05, 0x2B07, 1},
		{0x2B1B, 0x2B1C, 1},
		{0x2B50, 0x2B55, 5},
		{0x3030, 0x303D, 13},
		{0x3297, 0x3299, 2},
	},
	R32: []unicode.Range32{
		{0x1F000, 0x1F0FF, 1},
		{0x1F10D, 0x1F10F, 1},
		{0x1F12F, 0x1F12F, 1},
		{0x1F16C, 0x1F171, 1},
		{0x1F17E, 0x1F17F, 1},
		{0x1F18E, 0x1F18E, 1},
		{0x1F191, 0x1F19A, 1},
		{0x1F201, 0x1F20F, 1},
		{0x1F21A, 0x1F21A, 1},
		{0x1F22F, 0x1F23A, 1},
		{0x1F249, 0x1F64F, 1},
		{0x1F680, 0x1F6FF, 1},
		{0x1F774, 0x1F77F, 1},
		{0x1F7D5, 0x1F7FF, 1},
		{0x1F90C, 0x1FAFF, 1},
	},
	LatinOffset: 1,
}
