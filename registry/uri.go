package registry

import (
	"strconv"
	"strings"
)

// maxURI bounds URIs and URI templates of servers, in bytes.
const maxURI = 2048

// validURI tells whether uri is absolute, not too long, and without characters that hide.
func validURI(uri string) bool {
	return len(uri) <= maxURI && schemeOf(uri) != "" && isVisible(uri) && !strings.Contains(uri, " ")
}

// schemeOf returns the scheme of an absolute URI, "" of any other text.
// https://www.rfc-editor.org/rfc/rfc3986#section-3.1
func schemeOf(uri string) string {
	for i := range len(uri) {
		c := uri[i]
		switch {
		case c == ':':
			return uri[:i]
		case 'a' <= c|0x20 && c|0x20 <= 'z':
		case i > 0 && ('0' <= c && c <= '9' || c == '+' || c == '-' || c == '.'):
		default:
			return ""
		}
	}
	return ""
}

// mostDecodings is how many layers of percent-encoding are looked through.
const mostDecodings = 3

// isPlain tells whether an own URI that is in no list has one reading only. One that a server may read as another URI
// could pass by a pattern that denies that one: a URI with dot segments, also encoded, with empty segments, with
// backslashes or controls, with an encoded slash, or with the encoding of a character that needs none.
// https://www.rfc-editor.org/rfc/rfc3986#section-6.2.2
func isPlain(uri string) bool {
	if !validURI(uri) || encodesNeedlessly(uri) {
		return false
	}
	rest := strings.TrimPrefix(uri[len(schemeOf(uri))+1:], "//")
	if path, _, _ := strings.Cut(rest, "?"); strings.Contains(strings.ReplaceAll(path, "://", ":"), "//") {
		return false
	}
	for range mostDecodings {
		if strings.Contains(rest, `\`) || hasDotSegment(rest) || !isVisible(rest) {
			return false
		}
		decoded := decode(rest)
		if decoded == rest {
			return true
		}
		rest = decoded
	}
	return false
}

// decode replaces every percent-encoding, and leaves what is none.
func decode(uri string) string {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(uri, "%")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		c, ok := encoded(rest)
		if !ok {
			out.WriteByte('%')
			uri = rest
			continue
		}
		out.WriteByte(c)
		uri = rest[2:]
	}
}

// encoded returns the byte that two hexadecimal digits at the beginning of text stand for.
func encoded(text string) (c byte, ok bool) {
	if len(text) < 2 {
		return 0, false
	}
	n, err := strconv.ParseUint(text[:2], 16, 8)
	return byte(n), err == nil
}

// hasDotSegment tells whether a part of uri between delimiters is . or ..
func hasDotSegment(uri string) bool {
	for segment := range strings.FieldsFuncSeq(uri, func(r rune) bool { return strings.ContainsRune("/?#&=;:,", r) }) {
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}

// encodesNeedlessly tells whether uri has a broken encoding, or the encoding of a slash or of a character that is never
// encoded.
// https://www.rfc-editor.org/rfc/rfc3986#section-2.3
func encodesNeedlessly(uri string) bool {
	for {
		_, rest, found := strings.Cut(uri, "%")
		if !found {
			return false
		}
		c, ok := encoded(rest)
		if !ok || isAlphanumeric(c) || strings.IndexByte("/-._~", c) >= 0 {
			return true
		}
		uri = rest[2:]
	}
}
