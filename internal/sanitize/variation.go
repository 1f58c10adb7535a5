package sanitize

import (
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// A variation selector picks a form of the character before it. There are 260 of them, so
// without rules one behind every character could spell any bytes. This file holds the
// rules: the base must be one for which Unicode registered the selector, or nearly so
// where the register is too long to carry, and bases of which a text has many may have
// few.

// selector tells whether r is a variation selector.
func selector(r rune) bool { return unicode.Is(unicode.Variation_Selector, r) }

// selects tells whether the variation selector r stands behind a base that it can vary. A
// selector behind another selector has no base.
func selects(base, r rune, after []byte) bool {
	switch {
	case r == textSelector || r == emojiSelector:
		return isEmoji(base) || r == emojiSelector && keycapBase(base) && first(after) == keycap
	case r >= firstSupplement && r <= lastSupplement:
		return ideographic(base, int(r-firstSupplement))
	case r < 0x2000:
		return mongolianLetter(base)
	case r == firstSelector && unicode.Is(oneForm, base), r <= firstSelector+1 && unicode.Is(twoForms, base):
		return true
	}
	return int(r-firstSelector) < compatibleForms()[base]
}

// ideographic tells whether an ideograph may have the variation selector with that number
// in the supplement. Of the 28,749 sequences that the Ideographic Variation Database
// registered until 2014, all but 114 have one of the first eight selectors. Two
// ideographs of the name Watanabe have up to 32, and are why people write such sequences
// at all.
// https://www.unicode.org/ivd/
func ideographic(base rune, number int) bool {
	const most, mostOfWatanabe = 8, 32
	switch base {
	case '邉', '邊':
		return number < mostOfWatanabe
	}
	return number < most && unicode.Is(unicode.Unified_Ideograph, base)
}

// oneForm holds the bases for which the first selector is registered: symbols of
// mathematics, and letters of Myanmar, Phags-pa and Manichaean.
// https://www.unicode.org/Public/UCD/latest/ucd/StandardizedVariants.txt
var oneForm = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x0030, 0x0030, 1},
		{0x1000, 0x1004, 2},
		{0x1010, 0x1011, 1},
		{0x1015, 0x1019, 4},
		{0x101A, 0x101C, 2},
		{0x101D, 0x1022, 5},
		{0x1031, 0x1075, 0x44},
		{0x1078, 0x107A, 2},
		{0x1080, 0x1080, 1},
		{0x2205, 0x2229, 0x24},
		{0x222A, 0x222A, 1},
		{0x2268, 0x2269, 1},
		{0x2272, 0x2273, 1},
		{0x228A, 0x228B, 1},
		{0x2293, 0x2295, 1},
		{0x2297, 0x229C, 5},
		{0x22DA, 0x22DB, 1},
		{0x2A3C, 0x2A3D, 1},
		{0x2A9D, 0x2A9E, 1},
		{0x2AAC, 0x2AAD, 1},
		{0x2ACB, 0x2ACC, 1},
		{0xA856, 0xA85C, 6},
		{0xA85E, 0xA860, 1},
		{0xA868, 0xA868, 1},
		{0xAA60, 0xAA66, 1},
		{0xAA6B, 0xAA6C, 1},
		{0xAA6F, 0xAA7A, 11},
		{0xFF10, 0xFF10, 1},
	},
	R32: []unicode.Range32{
		{0x10AC5, 0x10AC6, 1},
		{0x10AD6, 0x10AD7, 1},
		{0x10AE1, 0x10AE1, 1},
	},
	LatinOffset: 1,
}

// twoForms holds the bases for which the first two selectors are registered: script
// capitals, quotation marks and the punctuation of East Asia.
var twoForms = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x2018, 0x2019, 1},
		{0x201C, 0x201D, 1},
		{0x210B, 0x2110, 5},
		{0x2112, 0x211B, 9},
		{0x212C, 0x2130, 4},
		{0x2131, 0x2133, 2},
		{0x3001, 0x3002, 1},
		{0xFF01, 0xFF0C, 11},
		{0xFF0E, 0xFF0E, 1},
		{0xFF1A, 0xFF1B, 1},
		{0xFF1F, 0xFF1F, 1},
	},
	R32: []unicode.Range32{{0x1D49C, 0x1D4B5, 1}},
}

// compatibleForms returns for each ideograph how many compatibility ideographs decompose
// to it. Unicode registered as many selectors, from the first one on, so that the form
// survives normalization.
// https://www.unicode.org/versions/latest/core-spec/chapter-23/#G19053
var compatibleForms = sync.OnceValue(func() map[rune]int {
	forms := make(map[rune]int)
	for _, block := range [][2]rune{{0xF900, 0xFAFF}, {0x2F800, 0x2FA1F}} {
		for r := block[0]; r <= block[1]; r++ {
			if base := first(norm.NFD.Bytes(utf8.AppendRune(nil, r))); base != r {
				forms[base]++
			}
		}
	}
	return forms
})

// variations counts for one text how many selectors the bases that are many in ordinary
// text may have.
type variations struct {
	text        []byte
	counted     int // text up to here is counted
	bases       int // characters in it that are such bases
	allowedHere int // selectors that were allowed behind them
}

// Of one text, freeSelectors stay, and one more for each basesPerSelector of the bases
// that stand before it. A name with a rare ideograph needs one; a message in selectors
// needs one behind every character.
const (
	freeSelectors    = 4
	basesPerSelector = 16
)

// affords tells whether the selector at i may stay behind base, and counts it if so. Text
// behind i does not matter, so that the answer is the same when the text is cut.
func (v *variations) affords(i int, base rune) bool {
	if !frequent(base) {
		return true
	}
	for v.counted < i {
		r, size := utf8.DecodeRune(v.text[v.counted:])
		v.counted += size
		if r != '0' && frequent(r) { // zeros may stand in a secret, and fewer be left when it is redacted
			v.bases++
		}
	}
	if v.allowedHere >= freeSelectors+v.bases/basesPerSelector {
		return false
	}
	v.allowedHere++
	return true
}

// frequent tells whether an ordinary text may have r in every line, so that selectors
// behind it must be few: an ideograph, a digit zero, or a mark of punctuation.
func frequent(r rune) bool {
	return r == '0' || r == '０' || unicode.Is(unicode.Unified_Ideograph, r) || r < 0x1D49C &&
		unicode.Is(twoForms, r) && unicode.IsPunct(r)
}
