package sanitize

import (
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
	copied, changed := 0, false
	judge := judge{directions{text: text}, variations{text: text}}
	for i := 0; i < len(text); {
		if text[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if !suspect(r) && (!c.strict || !unwanted(r)) {
			i += size
			continue
		}
		dst = append(dst, text[copied:i]...)
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
		copied = i
	}
	return append(dst, text[copied:]...), changed
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
		fine = breaksLine(last(before), first(after))
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
	return prefixSize(text, []string{
		"\U000E0067\U000E0062\U000E0065\U000E006E\U000E0067\U000E007F", // gbeng
		"\U000E0067\U000E0062\U000E0073\U000E0063\U000E0074\U000E007F", // gbsct
		"\U000E0067\U000E0062\U000E0077\U000E006C\U000E0073\U000E007F", // gbwls
	})
}
