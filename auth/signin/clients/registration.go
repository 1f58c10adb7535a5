package clients

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

const (
	maxRedirects = 10 // that are kept of a client
	maxURIs      = 2000
	maxName      = 80 // characters of a client's name
)

// Errors of a registration, each with a code of RFC 7591 section 3.2.2; see Code.
var (
	errMetadata  = errors.New("the registration is no JSON object with redirect_uris")
	errRedirects = errors.New(
		"none of the redirect_uris can be used: they are https, loopback, or of a program's own scheme",
	)
)

// Code returns the word for an error of a registration.
// https://www.rfc-editor.org/rfc/rfc7591#section-3.2.2
func Code(err error) string {
	if errors.Is(err, errRedirects) {
		return "invalid_redirect_uri"
	}
	return "invalid_client_metadata"
}

// said is what a program says of itself.
type said struct {
	id, name, method string
	redirects        []string
	secret           bool // it has a member for one
}

// read reads a registration or a document. Members that are not known are ignored, as the
// RFC asks, and so are redirect URIs that cannot be used: programs register several kinds
// at once, and one that is bad must not cost them the good ones.
// https://www.rfc-editor.org/rfc/rfc7591#section-2
func read(data []byte) (said, error) {
	if strictjson.Check(data) != nil { // the error may name members, which are the client's choice
		return said{}, errMetadata
	}
	members, err := strictjson.Members(nil, data)
	if err != nil {
		return said{}, errMetadata
	}
	var s said
	for _, m := range members {
		switch m.Name {
		case "client_id":
			s.id = textOf(m.Value)
		case "client_name":
			s.name = cleaned(textOf(m.Value))
		case "token_endpoint_auth_method":
			s.method = textOf(m.Value)
		case "client_secret", "client_secret_expires_at":
			s.secret = true
		case "redirect_uris":
			elements, err := strictjson.Elements(nil, m.Value)
			if err != nil {
				return said{}, errMetadata
			}
			s.redirects = usable(elements)
		}
	}
	if len(s.redirects) == 0 {
		return said{}, errRedirects
	}
	return s, nil
}

// usable returns the redirect URIs that can be used, each once, as many as are kept.
func usable(elements [][]byte) []string {
	var uris []string
	bytes := 0
	for _, element := range elements {
		text := textOf(element)
		if _, err := parseRedirect(text); err != nil || slices.Contains(uris, text) {
			continue
		}
		if bytes += len(text); len(uris) == maxRedirects || bytes > maxURIs {
			break
		}
		uris = append(uris, text)
	}
	return uris
}

// textOf returns the text of a JSON string, "" of any other value.
func textOf(value []byte) string {
	if len(value) == 0 || value[0] != '"' {
		return ""
	}
	text, err := strictjson.Unquote(value)
	if err != nil {
		return ""
	}
	return text
}

// cleaned returns a name as people may see it: without characters that they would not
// see, and cut.
func cleaned(name string) string {
	name = strings.Map(func(r rune) rune {
		if strictjson.Hidden(r) || r == utf8.RuneError {
			return -1
		}
		return r
	}, name)
	letters := []rune(strings.TrimSpace(name))
	return string(letters[:min(len(letters), maxName)])
}
