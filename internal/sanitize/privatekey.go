package sanitize

import "bytes"

// privateKeyText has the bytes that may stand between the lines BEGIN and END: Base64,
// headers, and the backslashes of line breaks that are escaped twice.
var privateKeyText = letters(upper, lower, digits, "+/=-:,._()\\ \t\r\n")

const (
	dashes       = "-----"
	maxLabel     = 48 // bytes between the dashes of a BEGIN or END line
	minKeyLine   = 32 // a key has at least one run of that many bytes of Base64
	minShortLine = 16 // without an END line, a key ends with its last run of that many bytes of Base64
)

// privateKey is the extent of the rule for private keys in PEM or PGP form, which begin
// with "-----BEGIN " and end with their END line. When there is none, because the text
// was cut, the key ends with its last long run of Base64, so that half a key is redacted
// too.
// https://www.rfc-editor.org/rfc/rfc7468
func privateKey(text []byte, begin, body int) (start, end int) {
	label, _, found := bytes.Cut(text[body:min(len(text), body+maxLabel)], []byte(dashes))
	if !found || !bytes.HasSuffix(bytes.TrimSuffix(label, []byte(" BLOCK")), []byte("PRIVATE KEY")) {
		return 0, 0
	}
	longest, run, keyEnd := 0, 0, 0
	for end = body + len(label) + len(dashes); end < len(text) && privateKeyText[text[end]]; end++ {
		if text[end] == '-' && bytes.HasPrefix(text[end:], []byte(dashes)) {
			break
		}
		if !base64Plain[text[end]] {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
		if run >= minShortLine {
			keyEnd = end + 1
		}
	}
	if longest < minKeyLine {
		return 0, 0
	}
	if last := lastLine(text[end:]); last > 0 {
		return begin, end + last
	}
	return begin, keyEnd
}

// lastLine returns the size of the line "-----END …-----" at the start of text, 0 when
// there is none.
func lastLine(text []byte) int {
	rest, ok := bytes.CutPrefix(text, []byte(dashes+"END "))
	label, _, found := bytes.Cut(rest[:min(len(rest), maxLabel)], []byte(dashes))
	if !ok || !found {
		return 0
	}
	return len(text) - len(rest) + len(label) + len(dashes)
}
