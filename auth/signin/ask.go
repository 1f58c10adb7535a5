package signin

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/auth/signin/clients"
)

// ask is what a client has asked for.
type ask struct {
	Tenant    string         `json:"t,omitempty"` // of the address; "": that of all tenants
	Client    clients.Client `json:"c"`
	Redirect  string         `json:"r"`
	State     string         `json:"s,omitempty"`
	Challenge string         `json:"p"`           // of PKCE
	Scopes    []string       `json:"a,omitempty"` // none: all that the person has
}

// answerURL returns where the browser brings an answer to the client: always with who
// answers, so that the client cannot be led to take it for another's.
// https://www.rfc-editor.org/rfc/rfc9207#section-2
func (s *core) answerURL(asked ask, answer url.Values) string {
	answer.Set("iss", address{s.config.Settings(), asked.Tenant}.issuer())
	if asked.State != "" {
		answer.Set("state", asked.State)
	}
	separator := "?"
	if strings.Contains(asked.Redirect, "?") {
		separator = "&"
	}
	return asked.Redirect + separator + answer.Encode()
}

// faultURL returns where the browser brings a fault to the client.
func (s *core) faultURL(asked ask, f *fault) string {
	return s.answerURL(asked, url.Values{"error": {f.code}, "error_description": {f.says}})
}

// leadingBack returns the error of a sign-in that a client waits for. Of a problem it
// learns if the person goes back to it: the page has words, which the client would not
// show.
// https://www.rfc-editor.org/rfc/rfc6749#section-4.1.2.1
func (s *core) leadingBack(asked ask, err error) error {
	if p, is := errors.AsType[*problemError](err); is && p.back == "" {
		f := &fault{code: "temporarily_unavailable", says: "nobody was signed in: " + p.line.Reason}
		if p.status == http.StatusForbidden {
			f.code = errDenied.code
		}
		p.back = s.faultURL(asked, f)
	}
	return err
}

// judgeResource checks that a client means the resource of this address, if it names one.
// https://www.rfc-editor.org/rfc/rfc8707#section-2
func judgeResource(a address, values url.Values) *fault {
	for _, resource := range values["resource"] {
		if !a.isResource(resource) {
			return errResource
		}
	}
	return nil
}

// identityScopes are those that clients ask for out of habit. They mean nothing here, and
// who asks for nothing else has asked for all.
var identityScopes = []string{"openid", "profile", "email", "address", "phone", "offline_access"}

// MaxScopes is how many bytes a client may use to name the scopes that it asks for: they
// are kept in a cookie.
const MaxScopes = 1024

// scopesAsked returns the scopes that are asked for and may be, none if that is all.
func scopesAsked(known []string, text string) ([]string, *fault) {
	if len(text) > MaxScopes {
		return nil, errRepeated
	}
	var asked []string
	unknown := false
	for word := range strings.FieldsSeq(text) {
		switch {
		case slices.Contains(identityScopes, word) || slices.Contains(asked, word):
		case len(known) > 0 && !slices.Contains(known, word):
			unknown = true
		default:
			asked = append(asked, word)
		}
	}
	if unknown && len(asked) == 0 {
		return nil, errScope
	}
	return asked, nil
}
