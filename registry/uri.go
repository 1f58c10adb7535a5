package registry

import (
	"iter"
	"strconv"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// This file decides which URIs a server may expose and a client may read. The hazard is a
// URI with two readings: a policy denies file:///secret, a client asks for
// file:///x/../secret, and the server reads what the policy denied.

// maxURI bounds URIs and URI templates of servers, in bytes.
const maxURI = 2048

// validURI tells whether uri is absolute, not longer than maxURI, and has only visible
// characters.
func validURI(uri string) bool {
	return len(uri) <= maxURI && schemeOf(uri) != "" && isVisible(uri) && !strings.Contains(uri, " ")
}

// schemeOf returns the scheme of an absolute URI, as it is written and without the colon,
// or "" for any other text. https://www.rfc-editor.org/rfc/rfc3986#section-3.1
func schemeOf(uri string) string {
	scheme, _, found := strings.Cut(uri, ":")
	if !found || strings.TrimLeftFunc(scheme, inScheme) != "" ||
		strings.IndexAny(scheme, digits+"+-.") == 0 { // it must begin with a letter
		return ""
	}
	return scheme
}

// mostDecodings is how many layers of percent-encoding IsPlain looks through. A URI that
// is still encoded after them is not plain.
const mostDecodings = 3

// IsPlain tells whether an own URI has only one reading, for every server and every
// library that servers parse URIs with. It is asked of URIs that no list has: these come
// from the client, or stand in a result. A URI that a server may read as a second one
// could get around a pattern that denies the second one. So it is false for
//
//   - dot segments, also encoded ones, empty segments, backslashes, spaces and control
//     characters;
//   - the encoding of a slash or of a character that needs none, and a percent sign that
//     begins no encoding;
//   - a scheme, host or port that is not in its one spelling (see hasOneOrigin), also
//     that of a URI within the URI.
//
// Capital and small letters of paths, and different ways to write one letter in Unicode,
// are different URIs. https://www.rfc-editor.org/rfc/rfc3986#section-6.2.2
func IsPlain(uri string) bool {
	if !validURI(uri) || encodesNeedlessly(uri) || !hasOneOrigin(uri) {
		return false
	}
	rest := strings.TrimPrefix(uri[len(schemeOf(uri))+1:], "//")
	if path, _, _ := strings.Cut(rest, "?"); strings.Contains(strings.ReplaceAll(path, "://", ":"), "//") {
		return false
	}
	for rest = range Decodings(rest, mostDecodings-1) {
		if strings.Contains(rest, `\`) || hasDotSegment(rest) || !isVisible(rest) {
			return false
		}
	}
	return Decode(rest) == rest
}

// Decode decodes every percent-encoding in a URI once, and leaves a % that begins none.
func Decode(uri string) string {
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

// Decodings yields a URI, or a part of one, and then what it becomes each time that it is
// decoded, until that changes nothing or it was decoded that many times.
func Decodings(uri string, most int) iter.Seq[string] {
	return func(yield func(string) bool) {
		for yield(uri) && most > 0 {
			decoded := Decode(uri)
			if decoded == uri {
				return
			}
			uri = decoded
			most--
		}
	}
}

// encoded returns the byte that the two hexadecimal digits at the beginning of text stand
// for; ok is false when there are none.
func encoded(text string) (c byte, ok bool) {
	if len(text) < 2 {
		return 0, false
	}
	n, err := strconv.ParseUint(text[:2], 16, 8)
	return byte(n), err == nil
}

// hasDotSegment tells whether a part of uri between delimiters is "." or "..". Slashes
// are not the only delimiters: a server may cut a path at a semicolon, or take a path
// from a parameter of the query.
func hasDotSegment(uri string) bool {
	for segment := range strings.FieldsFuncSeq(uri,
		func(r rune) bool { return strings.ContainsRune("/?#&=;:,", r) }) {
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}

// encodesNeedlessly tells whether uri has a broken percent-encoding, or the encoding of a
// slash or of an unreserved character, which has a second spelling without encoding.
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

// formStart begins the exposed URIs of servers with a prefix. The server's name, a plus
// and the own URI follow, so that file:///a of the server box becomes mcp.box+file:///a.
// Letters, digits, "+", "-" and "." may stand in a scheme, so "mcp.box+file" is one, and
// the whole is a valid URI. URIs whose schemes hosts know keep those, see withScheme.
// https://www.rfc-editor.org/rfc/rfc3986#section-3.1
const formStart = "mcp."

// fromForm splits an exposed URI into server name and own URI. ok is false when the URI
// does not have the form of an exposed URI; when it is true, there need not be such a
// server.
func fromForm(exposed string) (server, uri string, ok bool) {
	rest, ok := strings.CutPrefix(exposed, formStart)
	if !ok {
		return fromWithScheme(exposed)
	}
	if server, uri, ok = strings.Cut(rest, "+"); !ok {
		return "", "", false
	}
	return server, uri, ValidServerName(server)
}

// keepsScheme tells whether the exposed form of a URI keeps its scheme, by which hosts
// know what it is.
func keepsScheme(uri string) bool {
	scheme := schemeOf(uri)
	return mcp.KeepsScheme(scheme) && strings.HasPrefix(uri[len(scheme):], "://")
}

// withScheme returns the exposed form of a URI that keeps its scheme: the name of the
// server stands before the path, so that ui://chart/view.html of the server mod becomes
// ui://mod/chart/view.html.
func withScheme(server, uri string) string {
	scheme := schemeOf(uri)
	return scheme + "://" + server + "/" + uri[len(scheme)+len("://"):]
}

// fromWithScheme splits what withScheme made. ok is false when the URI does not have that
// form; when it is true, there need not be such a server.
func fromWithScheme(exposed string) (server, uri string, ok bool) {
	if !keepsScheme(exposed) {
		return "", "", false
	}
	start := len(schemeOf(exposed)) + len("://")
	server, rest, ok := strings.Cut(exposed[start:], "/")
	if !ok || rest == "" || !ValidServerName(server) {
		return "", "", false
	}
	return server, exposed[:start] + rest, true
}
