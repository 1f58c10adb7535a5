package interop_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/auth/signin/pages"
)

// signInPages are the pages of a sign-in, by name.
func signInPages() map[string]pages.Page {
	consent := pages.Consent{
		Client: "Claude Code", Redirect: "localhost:3118", Local: true, Person: "alice@corp.example",
		Tenants: []string{"payments"}, Scopes: []string{"tools.read", "tools.write"}, Action: "/consent",
		ID: "ID", Proof: "PROOF",
	}
	several, document := consent, consent
	several.Tenants = []string{"payments", "search"}
	document.Client, document.Host, document.AnyProgram, document.All, document.Scopes = "", "client.example", true, true,
		nil
	all := map[string]pages.Page{
		"choice": {Choice: &pages.Choice{Providers: []pages.Option{
			{Name: "Corporate account", Href: "/client?a"}, {Name: "GitHub", Href: "/client?b"},
		}}},
		"consent":          {Consent: &consent},
		"consent-tenants":  {Consent: &several},
		"consent-document": {Consent: &document},
	}
	for _, problem := range []pages.Problem{
		pages.UnknownClient, pages.BadRedirect, pages.BadRequest, pages.OtherBrowser, pages.AlreadyDone,
		pages.ProviderFailed, pages.ProviderDenied, pages.NoAccess, pages.TooMany, pages.Unavailable, pages.Refused,
		pages.Impossible,
	} {
		all["problem-"+string(problem)] = pages.Page{
			Problem: problem, Request: "KLBDPVEPQMQITWESXMZXMNNALD", Person: "alice@home.example", Back: "/client?error",
		}
	}
	return all
}

// pagesServer serves the pages in both languages, takes their form and is the client that
// a sign-in comes back to.
func pagesServer(t *testing.T) *httptest.Server {
	mux := http.NewServeMux()
	for name, page := range signInPages() {
		for _, language := range []pages.Language{pages.English, pages.German} {
			shown := page
			shown.Language = language
			path := "/" + name
			if language == pages.German {
				path = "/de" + path
			}
			mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { shown.Write(w) })
		}
	}
	mux.HandleFunc("POST /consent", func(w http.ResponseWriter, r *http.Request) {
		if r.PostFormValue("id") != "ID" || r.PostFormValue("proof") != "PROOF" {
			t.Errorf("a form came with %v", r.PostForm)
		}
		pages.Page{Move: &pages.Move{
			To: "/client?tenant=" + r.PostFormValue("tenant"), Denied: r.PostFormValue("decision") != "allow",
		}}.Write(w)
	})
	// What moves on by itself is looked at before it does.
	mux.HandleFunc("/moved", func(w http.ResponseWriter, _ *http.Request) {
		recorder := httptest.NewRecorder()
		pages.Page{Move: &pages.Move{To: "/client"}}.Write(recorder)
		maps.Copy(w.Header(), recorder.Header())
		w.Header().Del("Content-Length")
		_, _ = w.Write(bytes.Replace(recorder.Body.Bytes(), []byte(`content="0; url`), []byte(`content="90000; url`), 1))
	})
	mux.HandleFunc("/favicon.ico", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/client", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "text/html") })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

// picturedPages are those that the docs show.
var picturedPages = []string{"consent", "consent-tenants", "moved", "problem-no_access"}

// TestPagesOfASignInAreForEverybody looks at each page of a sign-in in Chromium, in both
// languages: axe finds nothing, the console is silent under the page's own policy,
// nothing is loaded beside it, nothing is wider than 320 px, also with text of twice the
// size, and it can be used with keys alone and without script. With -update-compat it
// writes the pictures of the docs.
func TestPagesOfASignInAreForEverybody(t *testing.T) {
	t.Parallel()
	binary, _ := node(t)
	browser, server := chromium(t), pagesServer(t)
	names := []string{"moved", "de/consent-tenants"}
	for name := range signInPages() {
		if !testing.Short() {
			names = append(names, "de/"+name)
		}
		// One problem looks like another, and one language too.
		if !testing.Short() || name != "consent-tenants" && !strings.HasPrefix(name, "problem-") ||
			name == "problem-no_access" {
			names = append(names, name)
		}
	}
	pictures := ""
	if *updateCompat {
		pictures = t.TempDir()
	}
	cmd := exec.CommandContext(t.Context(), binary, append([]string{"clients/pages.mjs", browser, server.URL, pictures},
		names...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	done := false
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var found struct{ Name, What string }
		if err := json.Unmarshal(lines.Bytes(), &found); err == nil {
			t.Errorf("%s: %s", found.Name, found.What)
		} else {
			done = lines.Text() == "done"
		}
	}
	if !done {
		t.Errorf("not all was looked at:\n%s", out)
	}
	for _, name := range picturedPages {
		if pictures == "" {
			break
		}
		data, err := os.ReadFile(filepath.Join(pictures, name+".png"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("../../docs/images/sign-in-"+name+".png", data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
