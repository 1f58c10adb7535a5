package server_test

import (
	"bytes"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
)

// cause is why a token is refused, and what its bearer is told.
type cause struct {
	token  string // "" for none
	status int
	code   string
	says   string // a part of the message
	reason string // in log and audit
}

// causes are all the causes. What is not understood has one answer.
func causes() []cause {
	all := []cause{
		{"", 401, "DB-AUTH-MISSING", "required", "missing"},
		{"genuine-expired", 401, "DB-AUTH-EXPIRED", "expired", "expired"},
		{"genuine-early", 401, "DB-AUTH-EARLY", "not yet valid", "early"},
		{"other-audience", 401, "DB-AUTH-AUDIENCE", "another audience", "audience"},
		{"genuine-lifetime", 401, "DB-AUTH-LIFETIME", "shorter time", "lifetime"},
		{"genuine-tenant", 401, "DB-AUTH-CLAIMS", "operator", "tenant"},
		{"genuine-claims", 401, "DB-AUTH-CLAIMS", "operator", "claims"},
		{"keyless", 503, "DB-AUTH-UNAVAILABLE", "cannot be checked now", "unavailable"},
	}
	for _, reason := range []string{"malformed", "algorithm", "key", "signature", "issuer", "claims"} {
		all = append(all, cause{"not-understood-" + reason, 401, "DB-AUTH-TOKEN", "not understood", reason})
	}
	return all
}

// challenged is the form of a challenge: RFC 6750 section 3 allows these characters in
// error_description.
var challenged = regexp.MustCompile(
	`^Bearer (?:error="invalid_token", error_description="([\x20-\x21\x23-\x5b\x5d-\x7e]+)"(?:, |$))?(resource_metadata="https://mcp\.test/\.well-known/oauth-protected-resource(?:/t/acme)?/mcp"$|realm="drawbridge"$|$)`)

// TestRefusedTokenIsExplained sends a token of each cause to each route that wants one by
// each method, with an authorization server that can be named and without: body and
// challenge say the cause, once it is certain, and all that is not understood gives one
// answer.
func TestRefusedTokenIsExplained(t *testing.T) {
	w := newWorld(t)
	h := w.Handler()
	servers := w.settings.AuthorizationServers
	cells := 0
	for _, advertised := range [][]exchange.AuthorizationServer{servers, nil} {
		w.settings.AuthorizationServers = advertised
		for _, path := range []string{"/mcp", "/t/acme/mcp", "/sse", "/messages", "/messages?sessionId=x"} {
			for _, method := range slices.DeleteFunc(slices.Clone(methods),
				func(m string) bool { return m == "PROPFIND" }) {
				one := make(map[string]string) // answers by code
				for _, c := range causes() {
					m := message{method: method, path: path, token: c.token}
					if method == http.MethodPost {
						m.body = initialize(mcp.Revision2511).body
					}
					got := record(h, m.request(t.Context(), ""))
					cells++
					where := fmt.Sprintf("%s %s with %s, %d servers", method, path, c.reason, len(advertised))
					told := object(got.Body.String()).Object("error").Text("message")
					if got.Code != c.status || stable(t, got.Body) != c.code ||
						!strings.Contains(told, c.says) {
						t.Errorf("%s: got %d %s, want %d %s", where, got.Code, got.Body, c.status, c.code)
					}
					checkChallenge(t, where, got.Header()["Www-Authenticate"], told, &c, advertised != nil)
					answer := nameless(t, got)
					if before, there := one[c.code]; there && before != answer {
						t.Errorf("%s: two answers for %s:\n%s\n%s", where, c.code, before, answer)
					}
					one[c.code] = answer
				}
			}
		}
	}
	t.Logf("%d cells", cells)
}

func checkChallenge(t *testing.T, where string, values []string, told string, c *cause, advertised bool) {
	t.Helper()
	if c.status != http.StatusUnauthorized {
		if len(values) != 0 {
			t.Errorf("%s: got challenge %q, want none", where, values)
		}
		return
	}
	if len(values) != 1 || !challenged.MatchString(values[0]) {
		t.Errorf("%s: got challenge %q, want one of the form %s", where, values, challenged)
		return
	}
	want := told
	if c.token == "" {
		want = ""
	}
	if said := challenged.FindStringSubmatch(values[0])[1]; said != want {
		t.Errorf("%s: got error_description %q, want %q", where, said, want)
	}
	if strings.Contains(values[0], "resource_metadata") != advertised {
		t.Errorf("%s: got challenge %q", where, values[0])
	}
}

// TestReasonOfARefusedTokenIsInTheLog looks for the reason of each cause, and for what
// the audit has of it: of an audience the one that came and those expected, and an issuer
// only once it is certain.
func TestReasonOfARefusedTokenIsInTheLog(t *testing.T) {
	var out bytes.Buffer
	w := newWorld(t, logging(&out))
	taken := w.recording()
	for _, c := range causes() {
		out.Reset()
		got := w.do(t, modernCall("echo").as(c.token))
		line := object(out.String())
		why := refusals()[c.token]
		detail := ""
		if why.Err != nil {
			detail = why.Err.Error()
		}
		claimed := ""
		if why.Claimed != "" {
			claimed = strings.Repeat("x", 100) + "??" + strings.Repeat("y", 24)
		}
		if line.Text("msg") != "request" || line.Text("reason") != c.reason ||
			line.Text("outcome") != "unauthenticated" || line.Text("code") != c.code ||
			line.Text("detail") != detail ||
			line.Text("issuer") != why.Issuer || line.Text("claimed_issuer") != claimed ||
			line.Text("request_id") != got.Header().Get("X-Request-Id") {
			t.Errorf("%s: got %s, want one line with the reason %s", c.token, &out, c.reason)
		}
		lines := taken()
		if len(lines) != 1 {
			t.Fatalf("%s: got %+v, want one line on record", c.token, lines)
		}
		kept := lines[0]
		if kept.Reason != c.reason || kept.Issuer != why.Issuer || kept.Subject != "" ||
			kept.RequestID != got.Header().Get("X-Request-Id") {
			t.Errorf("%s: got %+v on record, want the reason %s", c.token, kept, c.reason)
		}
		if diff := cmp.Diff([][]string{why.Audience, why.Expected},
			[][]string{kept.Audience, kept.Expected}); diff != "" {
			t.Errorf("%s: audiences on record (-want +got):\n%s", c.token, diff)
		}
		if kept.Claim != why.Claim || kept.Found != why.Found || line.Text("claim") != why.Claim ||
			line.Text("found") != strings.ReplaceAll(why.Found, "\u202e", "?") {
			t.Errorf("%s: got %+v on record and %s in the log, want the claim %s", c.token, kept, &out,
				why.Claim)
		}
	}
	out.Reset()
	if w.do(t, modernCall("echo")); object(out.String()).Has("reason") {
		t.Errorf("got %s, want no reason where nothing was refused", &out)
	}
}

// TestAnotherSchemeIsNotCalledADamagedToken sends what is no bearer token at all. The
// answer says what is wanted, without an error in the challenge, as RFC 6750 section 3.1
// has it; the log has the reason.
func TestAnotherSchemeIsNotCalledADamagedToken(t *testing.T) {
	var out bytes.Buffer
	w := newWorld(t, logging(&out))
	for _, test := range []struct{ header, says, reason, detail string }{
		{"Basic YWxpY2U6eA==", "another scheme than Bearer", "scheme", ""},
		{"alice", "another scheme than Bearer", "scheme", ""},
		{"Bearer ", "A token is required", "missing", "nothing stands behind Bearer"},
	} {
		out.Reset()
		r := modernCall("echo").request(t.Context(), "")
		r.Header.Set("Authorization", test.header)
		got := record(w.Handler(), r)
		if got.Code != http.StatusUnauthorized || stable(t, got.Body) != "DB-AUTH-MISSING" ||
			!strings.Contains(got.Body.String(), test.says) ||
			strings.Contains(got.Header().Get("WWW-Authenticate"), "error") {
			t.Errorf("%s: got %d %v %s", test.header, got.Code, got.Header(), got.Body)
		}
		if line := object(out.String()); line.Text("reason") != test.reason ||
			line.Text("detail") != test.detail {
			t.Errorf("%s: got %s, want the reason %s", test.header, &out, test.reason)
		}
	}
}

// TestTheHostThatIsRefusedIsInTheLog refuses hosts and origins. The log says which, in a
// bounded length and without what a terminal would obey, and which setting admits them;
// whoever sent them learns neither.
func TestTheHostThatIsRefusedIsInTheLog(t *testing.T) {
	var out bytes.Buffer
	w := newWorld(t, logging(&out))
	for _, test := range []struct{ header, code, logged, value, want, setting string }{
		{"Host", "DB-HOST", "host", "mcp.other.example:8443", "mcp.other.example:8443", "allowed_hosts"},
		{
			"Host", "DB-HOST", "host", "\x1b[31m\u202e" + strings.Repeat("x", 500),
			"?[31m?" + strings.Repeat("x", 120), "allowed_hosts",
		},
		{"Origin", "DB-ORIGIN", "origin", "https://evil.example", "https://evil.example", "allowed_origins"},
		{
			"Origin", "DB-ORIGIN", "origin", "https://evil.example/\n" + strings.Repeat("y", 500),
			"https://evil.example/?" + strings.Repeat("y", 106), "allowed_origins",
		},
	} {
		out.Reset()
		r := modernCall("echo").request(t.Context(), "")
		if r.Header.Set(test.header, test.value); test.header == "Host" {
			r.Host = test.value
		}
		got := record(w.Handler(), r)
		line := object(out.String())
		if line.Text("code") != test.code || line.Text(test.logged) != test.want ||
			!strings.Contains(line.Text("advice"), test.setting) {
			t.Errorf("%s %.40q: got %s, want %q and how to admit it", test.header, test.value, &out,
				test.want)
		}
		if answer := got.Body.String(); strings.Contains(answer, "allowed_") ||
			strings.Contains(answer, "example") {
			t.Errorf("%s %.40q: a stranger is told %s", test.header, test.value, answer)
		}
	}
}
