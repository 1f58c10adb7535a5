package sanitize

import "bytes"

// privateKeyText is what stands between the lines BEGIN and END, headers and escaped line breaks included.
var privateKeyText = letters(upper, lower, digits, "+/=-:,._()\\ \t\r\n")

const (
	dashes       = "-----"
	maxLabel     = 48 // bytes of what stands between the dashes
	minKeyLine   = 32 // bytes of Base64 without which there is no key
	minShortLine = 16 // bytes of Base64 that belong to a key without its end
)

// privateKey returns the size of what follows "-----BEGIN " when that is a private key in PEM or PGP form: up to its
// last line, or without one up to its last long run of Base64.
// https://www.rfc-editor.org/rfc/rfc7468
func privateKey(text []byte) int {
	label := bytes.Index(text[:min(len(text), maxLabel)], []byte(dashes))
	if label < 0 || !bytes.HasSuffix(bytes.TrimSuffix(text[:label], []byte(" BLOCK")), []byte("PRIVATE KEY")) {
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

// lastLine returns the size of the line "-----END …-----" that text begins with, 0 when it does not.
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
