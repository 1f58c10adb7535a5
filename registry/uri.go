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
// backslashes or controls, with an encoded slash, with the encoding of a character that needs none, or with a second
// spelling of its scheme and host.
// https://www.rfc-editor.org/rfc/rfc3986#section-6.2.2
func isPlain(uri string) bool {
	if !validURI(uri) || encodesNeedlessly(uri) || !hasOneOrigin(uri) {
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

// hasOneOrigin tells whether scheme and host are spelt in the one way that all readers agree on. Those of the web know a
// host's case, default ports, user names and a local host for the same; what other schemes call a host is a name.
// https://url.spec.whatwg.org/#special-scheme
func hasOneOrigin(uri string) bool {
	scheme := schemeOf(uri)
	if strings.ToLower(scheme) != scheme {
		return false
	}
	defaultPort := ""
	switch scheme {
	case "file":
	case "http", "ws", "https", "wss", "ftp":
		defaultPort = map[string]string{"http": ":80", "ws": ":80", "https": ":443", "wss": ":443", "ftp": ":21"}[scheme]
	default:
		return true
	}
	rest, isAbsolute := strings.CutPrefix(uri[len(scheme)+1:], "//")
	host := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		host = rest[:end]
	}
	return isAbsolute && (scheme != "file" || host != "localhost") && strings.ToLower(host) == host && !strings.ContainsAny(host, "@%") &&
		!strings.HasSuffix(host, ":") && !strings.HasSuffix(host, ".") && !strings.Contains(host, ".:") &&
		(defaultPort == "" || !strings.HasSuffix(host, defaultPort))
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
