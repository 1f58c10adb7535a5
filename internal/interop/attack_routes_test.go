package interop_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// badTokens are by what is wrong with them.
func badTokens(g *gateway) map[string]string {
	good := g.mint(who{tenant: "acme", subject: "alice"})
	claims := func() map[string]any {
		return map[string]any{
			"iss": "https://issuer.test/", "sub": "alice", "aud": g.url, "org": "acme",
			"exp": time.Now().Add(time.Minute).Unix(),
		}
	}
	with := func(name string, value any) string {
		c := claims()
		c[name] = value
		if value == nil {
			delete(c, name)
		}
		return "Bearer " + sign(c, hmacSecret)
	}
	return map[string]string{
		"none": "", "empty": "Bearer ", "basic": "Basic YWxpY2U6YWxpY2U=", "garbage": "Bearer x.y.z",
		"expired": "Bearer " +
			g.mint(who{tenant: "acme", subject: "alice", life: -10 * time.Minute}),
		"foreign key":      "Bearer " + sign(claims(), strings.ToUpper(hmacSecret)),
		"foreign audience": with("aud", "https://elsewhere.test/mcp"),
		"foreign issuer":   with("iss", "https://evil.test/"),
		"issuer prefix":    with("iss", "https://issuer.test"),
		"foreign tenant":   with("org", "umbrella"),
		"tenant list":      with("org", []string{"umbrella", "initech"}),
		"tenant mixture":   with("org", []any{"acme", 1}),
		"tenant inside":    with("org", []any{[]string{"acme"}}),
		"tenant case":      with("org", "ACME"),
		"no tenant":        with("org", nil),
		"no subject":       with("sub", nil),
		"no end":           with("exp", nil),
		"cut":              "Bearer " + good[:len(good)-2],
		"unsigned":         "Bearer " + good[:strings.LastIndexByte(good, '.')+1],
		"twice":            "Bearer " + good + " " + good,
	}
}

// notUnderstood are the bad tokens that no known issuer signed: nothing may tell one from
// another.
func notUnderstood() []string {
	return []string{"garbage", "foreign key", "foreign issuer", "issuer prefix", "cut", "unsigned", "twice"}
}

func TestT14EveryRouteWantsAToken(t *testing.T) {
	t.Parallel()
	g := besiege(t, twoTenants(`{allow: ["*"]}`, "  own: {builtin: [calculate]}\n"))
	s := g.speak(t, g.mint(who{tenant: "acme", subject: "alice"}), "2025-11-25")
	paths := []string{
		"/mcp", "/mcp/", "//mcp", "/mcp?x=1", "/MCP", "/%6dcp", "/mcp%2f", "/./mcp", "/t/acme/mcp",
		"/t/globex/mcp", "/t/umbrella/mcp", "/t//mcp",
		"/t/acme%2fmcp", "/t/..%2fmcp", "/sse", "/sse/", "/register", "/messages", "/messages?sessionId=x",
		"/", "/metrics", "/healthz", "/readyz", "/admin",
		"/debug/pprof/", "/debug/pprof/heap", "/debug/vars",
		"/.well-known/oauth-protected-resource/t/acme/mcp/x", "/favicon.ico", "/mcp/../metrics",
		"/.well-known/../mcp", "/.well-known/oauth-protected-resource/../../mcp", "/mcp;x=1", "/mcp%00",
	}
	methods := []string{
		"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "TRACE", "PROPFIND",
		"mcp",
	}
	bad := badTokens(g)
	var all sync.WaitGroup // the gateway answers a flood of refusals late, each by itself
	for _, path := range paths {
		all.Go(func() { refusesAt(t, g, s.session, path, methods, bad) })
	}
	all.Wait()
	if m := s.ask(t, "1", "ping", "", ""); m.Error != nil {
		t.Errorf("the session was hurt: %+v", m.Error)
	}
	publicMetadata(t, g, methods)
	g.unhurt(t)
	t.Attr("cells", fmt.Sprint(len(bad)*len(paths)*len(methods)))
}

// refusesAt comes to a path by each method with each of the bad tokens, and with
// somebody's session.
func refusesAt(t *testing.T, g *gateway, session, path string, methods []string, bad map[string]string) {
	t.Helper()
	forged := make(map[string]string) // answers to tokens that the issuer did not sign, by method
	tried := 0
	for why, token := range bad {
		for _, method := range methods {
			headers := []string{
				"Mcp-Session-Id", session, "MCP-Protocol-Version", revisions()[tried%5],
				"User-Agent", "kube-probe/1.30",
			}
			if token != "" {
				headers = append(headers, "Authorization", token)
			}
			tried++
			a := get(t, method, "http://"+g.addr+path, headers...)
			protected := slices.Contains([]string{"/mcp", "/sse", "/messages", "/t/acme/mcp", "/t/globex/mcp"},
				path) && method != "PROPFIND" && method != "mcp"
			if a.status < 400 || a.status >= 500 || protected &&
				(a.status != 401 || a.header.Get("WWW-Authenticate") == "") {
				t.Errorf("%s %s with %s token: %d %q", method, path, why, a.status,
					a.header.Get("WWW-Authenticate"))
			}
			if !protected || !slices.Contains(notUnderstood(), why) {
				continue
			}
			got := a.nameless(t)
			if before, there := forged[method]; there && before != got {
				t.Errorf("%s %s tells a token that is %s from others that the issuer did not give:\n%s\n%s",
					method, path, why, got, before)
			}
			forged[method] = got
		}
	}
}

// publicMetadata checks the one thing that everyone may read: where tokens for a path
// come from. It is the same whatever token comes with the request, and that of a tenant
// that is not there is that of /mcp.
// https://datatracker.ietf.org/doc/html/rfc9728#section-3.1
func publicMetadata(t *testing.T, g *gateway, methods []string) {
	t.Helper()
	const path = "/.well-known/oauth-protected-resource"
	if a := get(t, http.MethodGet, "http://"+g.addr+path+"/mcp"); a.status != http.StatusOK ||
		!strings.Contains(string(a.body), g.url) {
		t.Errorf("GET %s/mcp: %d %s", path, a.status, a.body)
	}
	const fixed = "https://other.test/" // gives tokens for acme alone
	for tenant, want := range map[string]bool{"acme": true, "globex": false} {
		if a := get(t, http.MethodGet, "http://"+g.addr+path+"/t/"+tenant+
			"/mcp"); strings.Contains(string(a.body), fixed) != want {
			t.Errorf("GET metadata of %s: %d %s, names the issuer that is fixed to acme: want %v", tenant,
				a.status, a.body, want)
		}
	}
	for why, token := range badTokens(g) {
		for _, method := range methods {
			var got [2]answer
			for i, endpoint := range []string{"/mcp", "/t/umbrella/mcp"} { // there is no umbrella
				var headers []string
				if token != "" {
					headers = []string{"Authorization", token}
				}
				a := get(t, method, "http://"+g.addr+path+endpoint, headers...)
				a.body = []byte(strings.ReplaceAll(string(a.body), "http://"+g.addr+endpoint, "ENDPOINT"))
				got[i] = a
			}
			common, unknown := got[0].nameless(t), got[1].nameless(t)
			if common != unknown {
				t.Errorf("%s with %s token has for a tenant that is not there other metadata than /mcp has:\n%s\n%s",
					method, why, unknown, common)
			}
			if method == http.MethodGet &&
				(got[0].status != http.StatusOK || !strings.Contains(string(got[0].body), "ENDPOINT")) {
				t.Errorf("GET with %s token: %s", why, common)
			}
		}
	}
}

func TestT15RulesHoldUnderEveryRevision(t *testing.T) {
	t.Parallel()
	up := ambush(t, &hostile{tools: tool("ok") + "," + tool("evil")})
	g := besiege(t, twoTenants(`{allow: ["*"]}, {deny: ["*evil"]}`, "  up: "+private(up.URL)+"\n"))
	token := g.mint(who{tenant: "acme", subject: "alice"})
	said := append(revisions(), "", "2099-01-01", "1999-01-01", "2026-07-29", "x", "2025-06-18,2026-07-28",
		"2025-03-26 ", "*")
	tried := 0
	for _, revision := range revisions() {
		s := g.speak(t, token, revision)
		if names := s.names(t); !slices.Equal(names, []string{"up__ok"}) {
			t.Errorf("%s is shown %v", revision, names)
		}
		denied := s.ask(t, `"d"`, "tools/call", "up__evil", `"name":"up__evil","arguments":{}`)
		unknown := s.ask(t, `"d"`, "tools/call", "up__none", `"name":"up__none","arguments":{}`)
		if denied.Error == nil || unknown.Error == nil || denied.Error.Code != -32602 ||
			strings.ReplaceAll(denied.Error.Message, "evil", "none") != unknown.Error.Message {
			t.Errorf("%s: denied %+v, unknown %+v; want the same", revision, denied.Error, unknown.Error)
		}
		if s.stream != nil {
			go func() {
				for range s.stream.data { // only what the upstream ran counts
				}
			}()
		}
		for _, version := range said {
			for _, meta := range []string{"", modernMeta + ",", strings.Replace(modernMeta, "2026-07-28",
				"2025-06-18", 1) + ",", `"_meta":{},`} {
				for _, name := range []string{"up__ok", "up__evil", ""} {
					headers := []string{
						"MCP-Protocol-Version", version, "Mcp-Method", "tools/call",
						"Mcp-Name", name,
					}
					tried++
					a := s.post(
						t, fmt.Sprintf(
							`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{%s"name":"up__evil","arguments":{}}}`, tried, meta), headers...)
					if a.status >= 500 {
						t.Errorf("%s said %q: %d %s", revision, version, a.status, a.body)
					}
				}
			}
		}
	}
	for _, e := range up.executions() {
		t.Errorf("%s ran: %s", e.name, e.body)
	}
	g.unhurt(t)
	t.Logf("%d attempts", tried)
}

// selectors are headers that some gateway let select something.
func selectors() [][2]string {
	var all [][2]string
	for _, name := range []string{
		"X-Tenant", "X-Tenant-Id", "X-Org-Id", "X-User", "X-Forwarded-User", "X-Forwarded-For", "X-Real-Ip",
		"Forwarded", "X-Forwarded-Host", "X-Forwarded-Proto",
		"X-Original-Url", "X-Rewrite-Url", "X-Forwarded-Uri", "X-Http-Method-Override", "X-Mcp-Url",
		"X-Upstream", "Mcp-Server", "Mcp-Init-Host", "Mcp-Tenant",
		"Mcp-Param-X", "Mcp-Session", "X_Tenant", "Cookie", "X-Api-Key", "Proxy-Authorization",
		"X-Envoy-Original-Path", "X-Github-Token", "X-Client-Id", "Via",
		"Last-Event-Id", "Traceparent", "Baggage", "X-Amzn-Trace-Id", "Te", "Trailer",
	} {
		for _, value := range []string{"globex", "127.0.0.1", "globex__evil-canary"} {
			all = append(all, [2]string{name, value})
		}
	}
	for _, value := range []string{
		"Authorization", "authorization, mcp-method", "X-Tenant", "Host",
		"Content-Type", "keep-alive, Mcp-Name",
	} {
		all = append(all, [2]string{"Connection", value})
	}
	return all
}

func TestT4T13T30NoHeaderSelectsOrPasses(t *testing.T) {
	t.Parallel()
	for _, modern := range []bool{false, true} {
		up := ambush(t, &hostile{tools: tool("ok"), modern: modern})
		g := besiege(t, strings.Replace(twoTenants(`{allow: ["*"]}`, "  up: "+private(up.URL)+"\n"),
			"globex: {servers: [up]", "globex: {servers: []", 1))
		token := g.mint(who{tenant: "acme", subject: "alice"})
		tried := 0
		var refused sync.WaitGroup // a flood of refusals is answered late, each by itself
		for _, revision := range []string{"2025-11-25", modernRevision} {
			s := g.speak(t, token, revision)
			for _, header := range selectors() {
				tried++
				inside := `"name":"up__ok","arguments":{}`
				if revision == modernRevision {
					inside = modernMeta + "," + inside
				}
				a := s.post(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+inside+`}}`,
					"Mcp-Method", "tools/call", "Mcp-Name", "up__ok", header[0], header[1])
				if a.status != http.StatusOK || !strings.Contains(string(a.body), "ran ok") {
					t.Errorf("%s: %s changed the answer: %d %s", header[0], header[1], a.status, a.body)
				}
				refused.Go(func() { get(t, http.MethodGet, g.url, "Authorization", "Bearer x", header[0], header[1]) })
			}
		}
		refused.Wait()
		for _, line := range g.audited(t) {
			if line.Method == "tools/call" && (line.Tenant != "acme" || line.Subject != "alice") ||
				line.Remote != "" && line.Remote != "127.0.0.1" {
				t.Errorf("a header made this record: %+v", line)
			}
		}
		for _, header := range up.headers() {
			for name, values := range header {
				if text := name + ": " + strings.Join(values, ", "); strings.Contains(text, token[:20]) ||
					strings.Contains(text, "globex") || name == "Authorization" ||
					name == "X-Forwarded-For" || name == "Cookie" {
					t.Errorf("the upstream was sent %s", text)
				}
			}
		}
		t.Logf("%d headers over two revisions", tried)
	}
}

func TestT11UnknownIsNeverWider(t *testing.T) {
	t.Parallel()
	g := besiege(t, twoTenants(`{allow: ["*"]}`, "  own: {builtin: [calculate]}\n"))
	bearer := "Bearer " + g.mint(who{tenant: "acme", subject: "alice"})
	for _, path := range []string{
		"/t/globex/mcp", "/t/umbrella/mcp", "/t/ACME/mcp", "/t/acme%00/mcp",
		"/t/acme%20/mcp", "/t/*/mcp", "/t/../mcp", "/t/%2e%2e/mcp", "/t//mcp", "/t/acme/mcp/",
		"/t/acme/mcp/x", "/t/acme//mcp", "/mcp/acme", "/servers/own/mcp", "/mcp/own",
	} {
		a := post(t, "http://"+g.addr+path, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+
			modernMeta+`}}`,
			"Authorization", bearer, "MCP-Protocol-Version", modernRevision, "Mcp-Method", "tools/list")
		if a.status != http.StatusNotFound {
			t.Errorf("%s: %d %s, want 404", path, a.status, a.body)
		}
	}
	s := g.speak(t, strings.TrimPrefix(bearer, "Bearer "), modernRevision)
	for _, name := range []string{
		"calculate", "own__", "own__*", "*", "__calculate", "OWN__calculate",
		"own__Calculate", "own__calculate ", "own__calculate/", "own__../own__calculate",
		"globex/own__calculate", "",
	} {
		a := s.post(
			t, fmt.Sprintf(
				`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{%s,"name":%q,"arguments":{"expression":"1"}}}`, modernMeta, name), "Mcp-Method", "tools/call", "Mcp-Name", name)
		if a.last(t).Error == nil {
			t.Errorf("tool %q: %s", name, a.body)
		}
	}
	g.unhurt(t)
}
