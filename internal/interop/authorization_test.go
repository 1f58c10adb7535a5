package interop_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/auth/signin"
	"github.com/drawbridge-mcp/drawbridge/auth/signin/clients"
	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/dial"
	"github.com/drawbridge-mcp/drawbridge/internal/freeport"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/store"
	"github.com/drawbridge-mcp/drawbridge/internal/store/sqlite"
	"github.com/drawbridge-mcp/drawbridge/metrics"
)

// atOnce is a provider at which everybody is signed in already.
type atOnce struct{}

func (atOnce) Name() string   { return "corp" }
func (atOnce) Issuer() string { return "https://idp.example/" }

func (atOnce) AuthURL(_ context.Context, a signin.Attempt) (string, error) {
	return a.Callback + "?" + url.Values{"code": {"x"}, "state": {a.State}}.Encode(), nil
}

func (atOnce) Exchange(context.Context, signin.Attempt, string, string) (signin.Identity, error) {
	return signin.Identity{Claims: []byte(`{"sub":"ann","groups":["acme"]}`), Subject: "ann"}, nil
}

func (atOnce) Refresh(context.Context, string) (signin.Identity, error) {
	return signin.Identity{}, errors.New("nobody refreshes here")
}

func (atOnce) Reach(context.Context) error { return nil }

// TestAuthorizationSuite lets the official suite judge the authorization server, at its
// address for all tenants and at that of one, in every revision.
func TestAuthorizationSuite(t *testing.T) {
	t.Parallel()
	binary, modules := node(t)
	for _, tenant := range []string{"", "/t/acme"} {
		for _, revision := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
			t.Run(revision+tenant, func(t *testing.T) {
				t.Parallel()
				number, err := freeport.Take() // the suite takes no listener
				if err != nil {
					t.Fatal(err)
				}
				port := strconv.Itoa(number)
				address := authorizationServer(t, "http://localhost:"+port+"/callback", dial.Client(dial.Config{}),
					func(_ *auth.Verifier, signIn http.Handler) http.Handler { return signIn })
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				cmd := exec.CommandContext(
					ctx,
					binary,
					"--require",
					"./bind-local.cjs",
					filepath.Join(
						modules,
						"@modelcontextprotocol/conformance/dist/index.js",
					),
					"authorization",
					"--url",
					address+tenant,
					"--client-id",
					"suite",
					"-p",
					port,
					"--spec-version",
					revision,
				)
				cmd.Env = append(os.Environ(), "NO_COLOR=1")
				cmd.WaitDelay = 5 * time.Second
				out, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				cmd.Stderr = cmd.Stdout
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				printed := signInWhereAsked(ctx, t, out)
				if err := cmd.Wait(); err != nil {
					t.Errorf("%v\n%s", err, printed)
				}
				for _, scenario := range []string{"authorization-code-grant", "authorization-server-metadata-endpoint"} {
					if !regexp.MustCompile(scenario + `: [1-9]\d* passed, 0 failed`).MatchString(printed) {
						t.Errorf("%s: not all was checked:\n%s", scenario, printed)
					}
				}
			})
		}
	}
}

// authorizationServer starts an authorization server with the client "suite", which reads
// documents of others with a client of its own, and returns its public URL. around puts
// something around it that gets to know its tokens.
func authorizationServer(t *testing.T, redirect string, documents *http.Client,
	around func(tokens *auth.Verifier, signIn http.Handler) http.Handler,
) string {
	t.Helper()
	ring := seal.RandomRing()
	db, err := sqlite.Open(filepath.Join(t.TempDir(), "data.db"), store.Config{
		Ring: ring, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	reader, err := auth.NewReader(auth.Issuer{
		Issuer: atOnce{}.Issuer(), TenantClaim: "groups", TenantsAllowed: []string{"acme"},
	})
	if err != nil {
		t.Fatal(err)
	}
	settings := signin.Settings{
		Logins: []signin.Login{{Provider: atOnce{}, Claims: reader, Tenants: []string{"acme"}}},
		Clients: []clients.Fixed{
			{
				ID:        "suite",
				Redirects: []string{redirect, strings.Replace(redirect, "localhost", "127.0.0.1", 1)},
			},
		},
		Registration: clients.RegistrationOn,
	}
	server := httptest.NewUnstartedServer(nil)
	settings.PublicURL = "http://" + server.Listener.Addr().String()
	signIn := signin.New(signin.Config{
		Ring:      ring,
		Store:     db,
		Documents: documents,
		IsTenant:  func(id string) bool { return id == "acme" },
		Settings:  func() signin.Settings { return settings },
		Logger:    slog.New(slog.DiscardHandler),
		Records:   metrics.New(prometheus.NewRegistry()),
		Audit:     func(context.Context, audit.Record) bool { return true },
		Changed:   func() {},
		Now:       time.Now,
		Hold:      signin.UsualHold,
	})
	tokens, err := auth.New(auth.Config{Issuers: signIn.Issuers(settings, []string{"acme"})})
	if err != nil {
		t.Fatal(err)
	}
	server.Config.Handler = around(tokens, signIn)
	server.Start()
	t.Cleanup(server.Close)
	return settings.PublicURL
}

var asksFor = regexp.MustCompile(`https?://\S+/authorize\?\S+`)

// signInWhereAsked reads what the suite prints, signs in at the address that it prints as
// soon as it listens for the answer, and returns all of it.
func signInWhereAsked(ctx context.Context, t *testing.T, out io.Reader) string {
	t.Helper()
	var printed strings.Builder
	address := ""
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		line := lines.Text()
		fmt.Fprintln(&printed, line)
		if found := asksFor.FindString(line); found != "" {
			address = found
		}
		if strings.Contains(line, "Callback server started") {
			if err := signInBrowser(ctx, address); err != nil {
				t.Errorf("sign in: %v", err)
			}
		}
	}
	return printed.String()
}

var (
	field   = regexp.MustCompile(`name="(id|proof)" value="([^"]*)"`)
	movesTo = regexp.MustCompile(`http-equiv="refresh" content="0; url=([^"]*)"`)
)

// signInBrowser does what a person does with a browser: it follows an address to the page
// that asks, allows, and follows that back to the client.
func signInBrowser(ctx context.Context, address string) error {
	client := &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	cookies := map[string]string{}
	base, err := url.Parse(address)
	if err != nil {
		return err
	}
	method, form := http.MethodGet, ""
	for range 10 {
		r, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(form))
		if err != nil {
			return err
		}
		if method == http.MethodPost {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		for name, value := range cookies {
			r.AddCookie(&http.Cookie{Name: name, Value: value})
		}
		answer, err := client.Do(r)
		if err != nil {
			return err
		}
		page, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		for _, cookie := range answer.Cookies() {
			cookies[cookie.Name] = cookie.Value
		}
		method, form = http.MethodGet, ""
		switch {
		case answer.Header.Get("Location") != "":
			next, err := base.Parse(answer.Header.Get("Location"))
			if err != nil {
				return err
			}
			address = next.String()
		case movesTo.Match(page):
			address = html.UnescapeString(string(movesTo.FindSubmatch(page)[1]))
		case field.Match(page):
			values := url.Values{"decision": {"allow"}}
			for _, match := range field.FindAllStringSubmatch(string(page), -1) {
				values.Set(match[1], match[2])
			}
			method, form, address = http.MethodPost, values.Encode(), base.Scheme+"://"+base.Host+"/consent"
		default:
			if answer.StatusCode != http.StatusOK {
				return fmt.Errorf("status %d: %s", answer.StatusCode, page)
			}
			return nil
		}
	}
	return errors.New("no end of redirects")
}
