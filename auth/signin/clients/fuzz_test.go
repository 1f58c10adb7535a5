package clients_test

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth/signin/clients"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// web answers requests for documents.
type web func(*http.Request) (*http.Response, error)

func (w web) RoundTrip(r *http.Request) (*http.Response, error) { return w(r) }

// registry returns a registry that keeps nothing, before that web.
func registry(w web) *clients.Registry {
	return clients.NewRegistry(clients.Config{
		Ring: seal.RandomRing(), Documents: &http.Client{Transport: w}, Now: time.Now,
		Fixed: func() []clients.Fixed { return nil }, Open: func() clients.Registration { return clients.RegistrationOn },
	})
}

// registration is what a program sends that registers one redirect URI.
func registration(redirect string) []byte {
	body, err := strictjson.Marshal(map[string]any{"redirect_uris": []string{redirect}})
	if err != nil {
		return nil
	}
	return body
}

var (
	plainLoopback = regexp.MustCompile(`^http://(127\.0\.0\.1|\[::1\]|localhost)(:[0-9]{1,5})?([/?][^#]*)?$`)
	ownScheme     = regexp.MustCompile(`^[a-z][a-z0-9+.-]*:.`)
	script        = regexp.MustCompile(`^(javascript|data|file|vbscript|blob|about|intent|view-source|ws|ftp):`)
)

// withoutPort returns a loopback address as all of its ports have it, "" for any other.
func withoutPort(uri string) string {
	m := plainLoopback.FindStringSubmatch(uri)
	if m == nil {
		return ""
	}
	return m[1] + m[3]
}

// FuzzRedirect registers any text as a redirect URI and asks for codes at another. They
// go nowhere but to the very text that was registered or, on the person's machine, to
// another port. What is shown of it is where a browser goes.
func FuzzRedirect(f *testing.F) {
	for _, pair := range [][2]string{
		{"https://app.example/cb?x=1", "https://app.example/cb?x=1"},
		{"https://app.example/cb", "https://app.example@evil.example/cb"},
		{"https://app.example/cb", "https://app.example\\@evil.example/cb"},
		{"https://app.example/cb", "https://аpp.example/cb"},
		{"http://127.0.0.1:33418/cb", "http://127.0.0.1:1/cb"},
		{"http://[::1]/cb?", "http://[::1]:80/cb"},
		{"http://localhost/%63b", "http://localhost:1/cb"},
		{"http://127.0.0.1/cb", "http://127.0.0.1.evil.example/cb"},
		{"cursor://anysphere.cursor-mcp/cb", "cursor://anysphere.cursor-mcp/cb#x"},
		{"com.example.app:/cb", "JavaScript:alert(1)"},
	} {
		f.Add(pair[0], pair[1])
	}
	r := registry(nil)
	f.Fuzz(func(t *testing.T, registered, sent string) {
		c, err := r.Register(registration(registered))
		if err != nil {
			return
		}
		for _, asked := range []string{registered, sent} {
			to, ok := c.RedirectOf(asked)
			if asked == registered && !ok {
				t.Fatalf("%q was registered and is refused", registered)
			}
			if !ok {
				continue
			}
			if asked != registered && (withoutPort(asked) == "" || withoutPort(asked) != withoutPort(registered)) {
				t.Fatalf("registered %q, and codes go to %q", registered, asked)
			}
			u, err := url.Parse(to.URI)
			if err != nil || to.URI != asked || u.User != nil || u.Fragment != "" || script.MatchString(asked) ||
				strings.ContainsFunc(asked, func(c rune) bool { return c <= ' ' || c > '~' || c == '\\' }) {
				t.Fatalf("codes go to %q", asked)
			}
			switch {
			case strings.HasPrefix(asked, "https://"):
				ok = !to.Local && to.Host == u.Host
			case strings.HasPrefix(asked, "http:"):
				ok = to.Local && to.Host == u.Host && plainLoopback.MatchString(asked)
			default:
				ok = to.Local && to.Host == u.Scheme+":" && ownScheme.MatchString(asked)
			}
			if !ok {
				t.Fatalf("%q is shown as %+v", asked, to)
			}
		}
	})
}

// bounded fails unless what is kept of a client is within bounds and can be shown.
func bounded(t *testing.T, c clients.Client) {
	t.Helper()
	size := 0
	for _, uri := range c.Redirects {
		size += len(uri)
		if _, ok := c.RedirectOf(uri); !ok {
			t.Fatalf("%q is kept and refused", uri)
		}
	}
	if len(c.Redirects) == 0 || len(c.Redirects) > 10 || size > 2000 || len(c.Name) > 400 ||
		strings.ContainsFunc(c.Name, strictjson.Hidden) {
		t.Fatalf("kept %+v", c)
	}
}

// FuzzRegistration registers any body. Of what is taken the same comes back for its id,
// and is bounded; everything else has one of two words.
func FuzzRegistration(f *testing.F) {
	f.Add([]byte(`{"client_name":"Claude Code","redirect_uris":["http://localhost/callback"],"grant_types":["authorization_code"]}`))
	f.Add([]byte(`{"redirect_uris":["cursor://a/b","javascript:x","http://localhost:8787/callback",7,null],"x":{"y":[]}}`))
	f.Add([]byte(`{"redirect_uris":["https://a.example/"],"redirect_uris":["https://b.example/"]}`))
	f.Add([]byte(`{"redirect_uris":"https://a.example/","client_name":"\u202e\ud800"}`))
	f.Add([]byte(`[[[[{"redirect_uris":[]}`))
	r := registry(nil)
	f.Fuzz(func(t *testing.T, body []byte) {
		c, err := r.Register(body)
		if err != nil {
			if code := clients.Code(err); code != "invalid_redirect_uri" && code != "invalid_client_metadata" {
				t.Fatalf("%v has the code %q", err, code)
			}
			return
		}
		bounded(t, c)
		found, err := r.Find(t.Context(), c.ID)
		if err != nil || found.Name != c.Name || strings.Join(found.Redirects, " ") != strings.Join(c.Redirects, " ") {
			t.Fatalf("registered %+v and found %+v, %v", c, found, err)
		}
	})
}

// FuzzDocument finds a client by any id whose document is any body. A client is of the
// host that its id names, and says so itself; nothing is fetched for an id that is no
// address of a document.
func FuzzDocument(f *testing.F) {
	const id = "https://app.example/client.json"
	good := `{"client_id":"` + id + `","client_name":"x","redirect_uris":["http://127.0.0.1/callback"],"token_endpoint_auth_method":"none"}`
	f.Add(id, good)
	f.Add("https://app.example/a/%2e%2e/client.json", good)
	f.Add("https://u@app.example/client.json", good)
	f.Add("https://[::1%25eth0]/client.json", good)
	f.Add("https://app.example", `{"client_id":"https://app.example","redirect_uris":["https://app.example/"]}`)
	f.Add(id, `{"client_id":"https://app.example/client.json","client_secret":"x","redirect_uris":["https://a.example/"]}`)
	f.Fuzz(func(t *testing.T, id, body string) {
		fetched := ""
		r := registry(func(request *http.Request) (*http.Response, error) {
			fetched = request.URL.String()
			return &http.Response{
				StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
				Body: io.NopCloser(strings.NewReader(body)), Request: request,
			}, nil
		})
		c, err := r.Find(t.Context(), id)
		u, bad := url.Parse(id)
		if fetched != "" && (bad != nil || u.Scheme != "https" || u.User != nil || u.Hostname() == "" || len(u.Path) < 2 ||
			strings.Contains(u.Path+"/", "/../") || strings.ContainsAny(id, "#\\ ")) {
			t.Fatalf("for %q %q was fetched", id, fetched)
		}
		if err != nil {
			if !errors.Is(err, clients.ErrUnknown) {
				t.Fatalf("%q: %v", id, err)
			}
			return
		}
		bounded(t, c)
		var said map[string]any
		bad = strictjson.Unmarshal([]byte(body), &said)
		if bad != nil || said["client_id"] != id || said["client_secret"] != nil || fetched == "" || c.ID != id ||
			c.Host != u.Host || len(body) > 16<<10 {
			t.Fatalf("%q and %q make %+v", id, body, c)
		}
	})
}
