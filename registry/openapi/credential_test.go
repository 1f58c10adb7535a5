package openapi_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
	"github.com/drawbridge-mcp/drawbridge/registry/openapi"
)

// forwarding is an API whose operation takes a header that says who calls.
const forwarding = `openapi: 3.0.0
info: {title: t, version: "1"}
paths:
  /who:
    get:
      operationId: who
      parameters: [{name: X-Team, in: header, schema: {type: string}}]
      responses: {"200": {description: ok}}
`

// traceparent is that of the request of each call.
const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// callWho calls the tool who as ann of acme.
func callWho(t *testing.T, cfg openapi.Config, arguments string) (text string, err error) {
	t.Helper()
	loaded, err := openapi.Load(cfg)
	if err != nil {
		t.Fatal(err)
	}
	call := &registry.Call{
		Params:    mcp.NewObject(mcp.Member{Name: "arguments", Value: mcp.RawJSON(arguments)}),
		Trace:     credential.Trace{ID: "REQ1", Parent: traceparent},
		Principal: auth.Principal{TenantID: "acme", Issuer: "https://a.example", Subject: "ann"},
	}
	result, err := loaded.Offers[0].Call(t.Context(), call)
	if err != nil {
		return "", err
	}
	text, _ = said(t, result)
	return text, nil
}

func newCredential(t *testing.T, spec credential.Spec) *credential.Source {
	t.Helper()
	s := credential.New(credential.Config{
		Server: "tracker", Spec: spec, Signer: credential.NewSigner(time.Now), Issuer: "https://gateway.example",
	})
	t.Cleanup(s.Close)
	return s
}

// TestArgumentsCannotSayWhoCalls has a document declare the header in which the gateway
// says it, also where the caller has no such claim.
func TestArgumentsCannotSayWhoCalls(t *testing.T) {
	a := newAPI(t)
	a.answers(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprintf(w, "team %q, user %q, id %q, trace %q", r.Header["X-Team"], r.Header["X-User"], r.Header["X-Request-Id"],
			r.Header["Traceparent"])
	})
	cfg := a.config([]byte(forwarding))
	cfg.Credential = newCredential(t, credential.Spec{Identity: &credential.Identity{
		Claims: []string{"team"}, Plain: map[string]string{"x-team": "team", "X-User": "sub"},
	}})
	got, err := callWho(t, cfg, `{"X-Team":"admins"}`)
	if want := `team [], user ["https://a.example#ann"], id ["REQ1"], trace ["` + traceparent + `"]`; err != nil || got != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

// TestRefusedAPIIsAskedOnceMoreWithAnotherKey rotates the file of a key: the first call
// after that is served, and one with a key that nobody takes is no answer of the API.
func TestRefusedAPIIsAskedOnceMoreWithAnotherKey(t *testing.T) {
	a := newAPI(t)
	good := "first-key-of-the-api"
	a.answers(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") != good {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, "with "+good)
	})
	path := filepath.Join(t.TempDir(), "key")
	save := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	save(good)
	cfg := a.config([]byte(forwarding))
	cfg.Credential = newCredential(t, credential.Spec{Header: &credential.Header{Name: "X-Api-Key", File: path}})
	for range 2 {
		if got, err := callWho(t, cfg, `{}`); err != nil || got != "with [redacted]" {
			t.Fatalf("got %q, %v, want an answer without the key", got, err)
		}
		good = "second-key-of-the-api"
		save(good)
	}
	good = "third-key-of-the-api"
	save("a-key-that-nobody-takes")
	_, err := callWho(t, cfg, `{}`)
	if credential.FaultOf(err) != credential.FaultRefused || strings.Contains(err.Error(), "nobody-takes") {
		t.Errorf("got %v, want %s", err, credential.FaultRefused)
	}
}

// transport is a function that makes requests.
type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// TestARequestThatWasRefusedHadNoEffect has an API refuse a key and then go away: nobody
// has to ask whether it did what was asked.
func TestARequestThatWasRefusedHadNoEffect(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	save := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Error(err)
		}
	}
	save("first-key-of-the-api")
	a := newAPI(t)
	a.answers(func(w http.ResponseWriter, _ *http.Request) {
		save("second-key-of-the-api")
		w.WriteHeader(http.StatusUnauthorized)
	})
	cfg := a.config([]byte(forwarding))
	cfg.Credential = newCredential(t, credential.Spec{TokenFile: path})
	inner, requests := cfg.Client, 0
	cfg.Client = transport(func(r *http.Request) (*http.Response, error) {
		if requests++; requests > 1 {
			return nil, errors.New("connection refused")
		}
		return inner.RoundTrip(r)
	})
	_, err := callWho(t, cfg, `{}`)
	unavailable, ok := errors.AsType[*registry.UnavailableError](err)
	if !ok || unavailable.Sent || requests != 2 {
		t.Errorf("after %d requests: got error %+v, want one that nothing was sent", requests, err)
	}
}

// TestArgumentsReplaceNoCredential has a document declare each header that says who
// calls, in several spellings: the API gets what the gateway says, whatever the
// arguments.
func TestArgumentsReplaceNoCredential(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("key-of-the-gateway"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		spec     credential.Spec
		declared []string // after the first, spellings that some servers take for it
	}{
		"header":              {credential.Spec{Header: &credential.Header{Name: "X-Api-Key", File: key}}, []string{"X-Api-Key", "x-api-key", "X_Api_Key"}},
		"token":               {credential.Spec{TokenFile: key}, []string{"Authorization", "authorization", "AUTHORIZATION"}},
		"identity":            {credential.Spec{Identity: &credential.Identity{Audience: "crm"}}, []string{"Authorization", "authorization"}},
		"identity elsewhere":  {credential.Spec{Identity: &credential.Identity{Audience: "crm", Header: "X-Who"}}, []string{"X-Who", "x_who"}},
		"identity with trace": {credential.Spec{Identity: &credential.Identity{Audience: "crm"}}, []string{"X-Request-Id", "x_request_id"}},
		"trace":               {credential.Spec{Identity: &credential.Identity{Audience: "crm"}}, []string{"Traceparent"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t)
			a.answers(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/plain")
				for _, values := range r.Header {
					if strings.Contains(strings.Join(values, ""), "forged") {
						fmt.Fprint(w, "forged ")
					}
				}
				fmt.Fprint(w, len(r.Header.Values(test.declared[0])))
			})
			var parameters, arguments []string
			for _, header := range test.declared {
				parameters = append(parameters, fmt.Sprintf("{name: %s, in: header, schema: {type: string}}", header))
				arguments = append(arguments, fmt.Sprintf("%q:%q", header, "forged"))
			}
			document := strings.Replace(forwarding, "[{name: X-Team, in: header, schema: {type: string}}]",
				"["+strings.Join(parameters, ", ")+"]", 1)
			cfg := a.config([]byte(document))
			cfg.Credential = newCredential(t, test.spec)
			got, err := callWho(t, cfg, "{"+strings.Join(arguments, ",")+"}")
			if err != nil || got != "1" {
				t.Errorf("got %q, %v, want one header, of the gateway", got, err)
			}
		})
	}
}

// TestCredentialGoesToNoOtherAPI has an API redirect: the place that it names gets
// nothing.
func TestCredentialGoesToNoOtherAPI(t *testing.T) {
	elsewhere := newAPI(t)
	elsewhere.answers(func(http.ResponseWriter, *http.Request) { t.Error("got a request elsewhere, want none") })
	for _, status := range []int{301, 302, 303, 307, 308, 300, 305, 201} {
		a := newAPI(t)
		a.answers(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", elsewhere.URL+"/who")
			w.Header().Set("Refresh", "0; url="+elsewhere.URL+"/who")
			w.WriteHeader(status)
		})
		cfg := a.config([]byte(forwarding))
		cfg.Credential = newCredential(t, credential.Spec{Identity: &credential.Identity{Audience: "crm"}})
		if got, err := callWho(t, cfg, `{}`); strings.Contains(got, "eyJ") {
			t.Errorf("%d: got %q, %v, want nothing of the credential", status, got, err)
		}
	}
}
