package clients

import (
	"cmp"
	"encoding/json"
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
	id, name  string
	redirects []string
	secret    bool // it has a member for one
	public    bool // it need not prove who it is
}

// read reads a registration or a document. Members that are not known are ignored, as the
// RFC asks, and so are redirect URIs that cannot be used: programs register several kinds
// at once, and one that is bad must not cost them the good ones. Of several ways to prove
// who it is, a program leaves the choice to the server.
// https://www.rfc-editor.org/rfc/rfc7591#section-2
// https://openid.net/specs/openid-connect-rp-metadata-choices-1_0.html
func read(data []byte) (said, error) {
	var members struct {
		ID        json.RawMessage `json:"client_id"`
		Name      json.RawMessage `json:"client_name"`
		Method    json.RawMessage `json:"token_endpoint_auth_method"`
		Methods   json.RawMessage `json:"token_endpoint_auth_methods_supported"`
		Secret    json.RawMessage `json:"client_secret"`
		Expires   json.RawMessage `json:"client_secret_expires_at"`
		Redirects json.RawMessage `json:"redirect_uris"`
	}
	if strictjson.Unmarshal(data, &members) != nil {
		return said{}, errMetadata // and not that error: it may name members, which are the client's choice
	}
	redirects, err := strictjson.Elements[[]byte](members.Redirects)
	if err != nil && members.Redirects != nil {
		return said{}, errMetadata
	}
	methods, _ := strictjson.Texts(members.Methods) // those that it has beside the one that it prefers
	s := said{
		id: textOf(members.ID), name: cleaned(textOf(members.Name)), redirects: usable(redirects),
		secret: members.Secret != nil || members.Expires != nil,
		public: slices.Contains(append(methods, cmp.Or(textOf(members.Method), "none")), "none"),
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
	text, _ := strictjson.Text(value)
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
