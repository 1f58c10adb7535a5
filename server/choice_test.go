package server_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/auth"
)

// TestAddressChoosesAmongTenantsOfAToken calls with a token of two tenants at their
// addresses, at the common one, and at those of another tenant and of none.
func TestAddressChoosesAmongTenantsOfAToken(t *testing.T) {
	var log strings.Builder
	w := newWorld(t, func(w *world) {
		w.config.Logger = slog.New(slog.NewTextHandler(&log, nil))
		w.config.Verify = func(context.Context, string) (auth.Principal, error) {
			p := principals()["alice"]
			p.TenantID, p.Tenants = "", []string{"globex", "acme"}
			return p, nil
		}
	})
	taken := w.recording()
	for path, want := range map[string]int{
		"/t/acme/mcp": http.StatusOK, "/t/globex/mcp": http.StatusOK,
		"/t/usual/mcp": http.StatusNotFound, "/t/nowhere/mcp": http.StatusNotFound,
		"/mcp": http.StatusForbidden,
	} {
		m := modernCall("echo")
		m.path = path
		got := w.do(t, m)
		if got.Code != want {
			t.Errorf("%s: got %d %s, want %d", path, got.Code, got.Body, want)
		}
		addresses := "https://mcp.test/t/globex/mcp, https://mcp.test/t/acme/mcp"
		if path == "/mcp" && (stable(t, got.Body) != "DB-TENANT-CHOICE" ||
			!strings.Contains(got.Body.String(), addresses)) {
			t.Errorf("%s: got %s, want the addresses of both tenants", path, got.Body)
		}
	}
	if lines := taken(); len(lines) != 1 || lines[0].Reason != "DB-TENANT-CHOICE" {
		t.Errorf("got on record %v, want the refusal alone", lines)
	}
	for _, tenant := range []string{"acme", "globex"} {
		if !regexp.MustCompile("path=/t/" + tenant + "/mcp status=200 .* tenant=" +
			tenant).MatchString(log.String()) {
			t.Errorf("got log %s, want a call of %s at its address", log.String(), tenant)
		}
	}
}

// TestLogNamesTheClaimThatWasAtFault reads the lines of a refused token and of a user who
// has a name.
func TestLogNamesTheClaimThatWasAtFault(t *testing.T) {
	var log strings.Builder
	groups := strings.Repeat("Käufer ", 32) // as long as it is kept
	w := newWorld(t, func(w *world) {
		w.config.Logger = slog.New(slog.NewTextHandler(&log, nil))
		w.config.Verify = func(_ context.Context, token string) (auth.Principal, error) {
			if token != "refused" {
				p := principals()["alice"]
				p.Name = "J\u00fcrgen\u202e"
				return p, nil
			}
			return auth.Principal{}, &auth.Error{
				Reason: "tenant", Issuer: "https://issuer.test", Err: errors.New("no tenant"),
				Claim: "groups", Found: "[\"" + groups + "\u202e", Expected: []string{"5c6"},
			}
		}
	})
	w.do(t, modernCall("echo").as("refused"))
	w.do(t, modernCall("echo"))
	for _, want := range []string{
		"claim=groups", `found="[\"` + groups + `?"`, "expected=[5c6]", "name=J\u00fcrgen?",
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("got log %s, want it to have %s", log.String(), want)
		}
	}
}
