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
// with "-----BEGIN " and end with their END line.
// https://www.rfc-editor.org/rfc/rfc7468
func privateKey(text []byte, begin, body int) (start, end int) {
	if size := keySize(text[body:]); size > 0 {
		return begin, body + size
	}
	return 0, 0
}

// keySize returns the size of the private key whose BEGIN line goes on with text, up to
// the end of its END line. When there is no END line, because the text was cut, the key
// ends with its last long run of Base64, so that half a key is redacted too. It returns 0
// when text is no private key.
func keySize(text []byte) int {
	label := bytes.Index(text[:min(len(text), maxLabel)], []byte(dashes))
	if label < 0 || !bytes.HasSuffix(bytes.TrimSuffix(text[:label], []byte(" BLOCK")),
		[]byte("PRIVATE KEY")) {
		return 0
	}
	body := label + len(dashes)
	end, longest, run, keyEnd := body, 0, 0, 0
	for ; end < len(text) && privateKeyText[text[end]]; end++ {
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
		return 0
	}
	if last := lastLine(text[end:]); last > 0 {
		return end + last
	}
	return keyEnd
}

// lastLine returns the size of the line "-----END …-----" at the start of text, 0 when
// there is none.
func lastLine(text []byte) int {
	rest, ok := bytes.CutPrefix(text, []byte(dashes+"END "))
	if !ok {
		return 0
	}
	label := bytes.Index(rest[:min(len(rest), maxLabel)], []byte(dashes))
	if label < 0 {
		return 0
	}
	return len(text) - len(rest) + label + len(dashes)
}
