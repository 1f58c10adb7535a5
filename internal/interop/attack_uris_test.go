package interop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drawbridge-mcp/drawbridge/auth"
	desk "github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/metrics"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// What the rules of these tests deny: everything of these hosts in these schemes, and
// file:///etc/*.
var (
	deniedSchemes = []string{
		"http", "https", "ws", "wss", "ftp", "memo", "git+http", "docs://http",
		"docs://https", "docs:http",
	}
	deniedHosts = []string{"intra", "127.0.0.1", "::1"}
)

// webPorts are the ports that a scheme means when a URI names none.
var webPorts = map[string]string{"http": "80", "ws": "80", "https": "443", "wss": "443", "ftp": "21"}

// parts are the parts of a URI in which spellings vary: scheme, separator, user, host,
// port, and what follows.
type parts [6]string

var webParts = [len(parts{})][]string{
	{
		"http", "https", "ws", "ftp", "HTTP", "Http", "\uff48ttp", "ht\u017fp", " http", "http ", "memo", "Memo",
		"git+http", "docs://http", "docs://HTTP", "docs://https", "docs://memo", "memo://intra", "docs:http",
		"docs:HTTP",
	},
	{"://", ":", ":/", ":///", ":////", `:\\`, `:/\`, "%3A//", ":%2f%2f", ": //", ":\t//"},
	{"", "@", "u@", "u:p@", "public.example@", "public.example%40", "u@v@", "%75@"},
	hostSpellings(),
	{
		"", ":", ":80", ":080", ":0080", ":00000000000080", ":443", ":21", ":0", ":8080", ":08080", ":65535",
		":65536", ":65616", ":8o", ":\uff18\uff10", ":+80", ":-1", ": 80", ":80:80", ":%38%30",
	},
	{
		"/x", "", "/", "?x", "#x", `\x`, ";x", "//x", "/./x", "/%2e/x", "/a/../x", "/%2Fx", "/%78", "/a%2fb",
		"/é", "/caf%C3%A9", "/a|b", "/x?y#z", "/x y", "/x\t", "/%", "&x", ",x", "?/x", "#/x", "/x#@evil",
		"%2Fx", "\u2044x", "\uff0fx",
	},
}

var fileParts = [len(parts{})][]string{
	{"file", "FILE", "File", "\uff46ile", "x+file", "docs://file", "docs:file"},
	webParts[1],
	{"", "@", "u@"},
	append([]string{"", "localhost", "LOCALHOST", "x", "C:", "C|", "/", "//", ".", "..", "%2f", "%00"},
		hostSpellings()...),
	{"", ":", ":80"},
	{
		"/etc/passwd", "//etc/passwd", "/./etc/passwd", "/x/../etc/passwd", "/x/%2e%2e/etc/passwd",
		"/%65tc/passwd", "/%2565tc/passwd", "/%2565tc/passwd?%25zz",
		"/etc%2fpasswd", "/etc%252fpasswd", `\etc\passwd`, `/etc\passwd`, "/etc/passwd?x", "/etc/passwd#x",
		"/etc/passwd;x", "/etc/passwd/", "/etc/passwd.", "/etc/passwd%20",
		"/e\ttc/passwd", "/C|/etc/passwd", "/C:/etc/passwd", "/srv/x", "/srv/caf%C3%A9", "/srv/é",
		"/srv/a%20b", "etc/passwd", "/\uff45tc/passwd", "/etc\uff0fpasswd",
	},
}

// hostSpellings returns spellings of a name and of two addresses, of which programs take
// many for the same, and others.
func hostSpellings() []string {
	all := []string{
		"", "intra", "INTRA", "Intra", "intra.", "intra..", ".intra", "intra.example", "%69ntra",
		"%69%6e%74%72%61", "in\u00adtra", "in\u200btra", "in\u2060tra", "\u0131ntra", "intr\u00aa",
		"xn--intra-", "XN--intra-", "xn--intra", "xn--ntra-vpa", "xn--mnchen-3ya.example",
		"m\u00fcnchen.example", "stra\u00dfe", "intra%00", "intra%2eexample", "intra%20", "intra\\.example",
		"int ra", "intra|", "intra^",
		"127.0.0.1", "127.1", "127.0.1", "127.0.0.1.", "127.0.0.01", "0127.0.0.1", "2130706433",
		"02130706433", "0x7f000001", "0X7F000001", "0x7f.0.0.1", "0x7f.1", "017700000001",
		"0177.0.0.1", "0177.1", "127.0x1", "127.0.0.0x1", "127.0.0.256", "127.0.0.1.1", "4294967297",
		"6425673729", "127%2e0%2e0%2e1", "127\u30020\u30020\u30021", "\uff11\uff12\uff17.0.0.1",
		"\u2460\u2461\u2466.0.0.1", "0x", "1.2.3.4", "17",
		"[::1]", "[0:0:0:0:0:0:0:1]", "[::0001]", "[0::1]", "[::01]", "[0:0::1]", "[::0.0.0.1]",
		"[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::FFFF:127.0.0.1]", "[::127.0.0.1]", "[::1%25lo]",
		"[::1%lo]",
		"[::1", "::1]", "::1", "[[::1]]", "[]", "[2001:db8::1]", "[2001:DB8::1]", "[2001:db8:0:0:1:0:0:1]",
		"[2001:db8::1:0:0:1]", "[127.0.0.1]", "[intra]", "public.example", "Insights", "J%C3%BCrgen", "a_b",
		"a-b", "a!b",
	}
	for _, dot := range []string{"\u3002", "\uff0e", "\uff61", "\u2024"} {
		all = append(all, "intra"+dot, "intra"+dot+"example", "127"+dot+"0.0.1")
	}
	for i := range len("intra") {
		// the same letters elsewhere in Unicode
		for _, wide := range []rune{'\uff41' - 'a', '\uff21' - 'a', '\u24d0' - 'a', 0x1d41a - 'a'} {
			all = append(all, "intra"[:i]+string(rune("intra"[i])+wide)+"intra"[i+1:])
		}
	}
	return all
}

// spellings returns every URI in which at most two of the parts differ from those of a
// base. The first text of each part is that of the base.
func spellings(of [len(parts{})][]string) []string {
	var base parts
	for i := range of {
		base[i] = of[i][0]
	}
	var all []string
	for i := range of {
		for j := range i {
			for _, first := range of[i] {
				for _, second := range of[j] {
					made := base
					made[i], made[j] = first, second
					all = append(all, strings.Join(made[:], ""))
				}
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// reading is what one parser takes a URI for.
type reading struct {
	Scheme, Host, Port, Path string
	Address                  string // for which the resolver of the system takes the host; "" for none
	Error                    bool   // it is no URI to this parser
}

// parsers are asked for many URIs at once.
var parsers = map[string]func(testing.TB,
	[]string) []reading{"Go": readByGo, "Node": readByNode, "Python": readByPython}

func readByGo(_ testing.TB, uris []string) []reading {
	all := make([]reading, len(uris))
	for i, uri := range uris {
		u, err := url.Parse(uri)
		if err != nil {
			all[i].Error = true
			continue
		}
		all[i] = reading{Scheme: u.Scheme, Host: u.Hostname(), Port: u.Port(), Path: u.EscapedPath()}
		if u.Opaque != "" {
			all[i].Path = u.Opaque
		}
	}
	return all
}

func readByNode(t testing.TB, uris []string) []reading {
	binary, _ := node(t)
	return readBy(t, uris, exec.CommandContext(t.Context(), binary, "-e", `
const read = uri => {
  try {
    const u = new URL(uri)
    return {scheme: u.protocol.slice(0, -1), host: u.hostname, port: u.port, path: u.pathname}
  } catch { return {error: true} }
}
console.log(JSON.stringify(JSON.parse(require("fs").readFileSync(0, "utf8")).map(read)))`))
}

func readByPython(t testing.TB, uris []string) []reading {
	binary, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("python3 is missing: run make setup, which installs it")
		}
		t.Skip("python3 is not installed, so nobody knows how Python reads these URIs")
	}
	return readBy(t, uris, exec.CommandContext(t.Context(), binary, "-c", `
import json, socket, sys
from urllib.parse import urlsplit
def read(uri):
    try:
        u = urlsplit(uri)
        found = {"scheme": u.scheme, "host": u.hostname or "", "port": "" if u.port is None else str(u.port), "path": u.path}
    except ValueError:
        return {"error": True}
    try:
        found["address"] = socket.inet_ntoa(socket.inet_aton(found["host"]))
    except (OSError, UnicodeError):
        pass
    return found
print(json.dumps([read(uri) for uri in json.loads(sys.stdin.buffer.read())]))`))
}

// readBy asks a program that reads a JSON list of URIs and writes the list of what it
// takes them for.
func readBy(t testing.TB, uris []string, program *exec.Cmd) []reading {
	t.Helper()
	asked, err := json.Marshal(uris)
	if err != nil {
		t.Fatal(err)
	}
	program.Stdin, program.Stderr = strings.NewReader(string(asked)), os.Stderr
	out, err := program.Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []reading
	if err := json.Unmarshal(out, &all); err != nil || len(all) != len(uris) {
		t.Fatalf("%d readings of %d URIs: %v", len(all), len(uris), err)
	}
	return all
}

// uriForm splits a URI as RFC 3986 does in its appendix B, which is how the text of a
// pattern sees it.
var uriForm = regexp.MustCompile(`^([^:/?#]+):(?://((?:\[[^]]*\])|[^/?#:]*)(?::([^/?#]*))?)?([^?#]*)`)

// differs tells in what a parser's reading differs from the text that a rule judged, ""
// for nothing.
func (r *reading) differs(uri string) string {
	written := uriForm.FindStringSubmatch(uri)
	if written == nil {
		return "form"
	}
	scheme, host, port, path := written[1], strings.Trim(written[2], "[]"), written[3], written[4]
	_, ofWeb := webPorts[scheme]
	switch {
	case r.Scheme != scheme:
		return "scheme"
	case r.Port != port:
		return "port"
	case r.host() != host && (ofWeb || !strings.EqualFold(unescaped(r.host()), unescaped(host))):
		return "host"
	case unescaped(r.Path) != unescaped(path):
		return "path"
	}
	return ""
}

func (r *reading) host() string { return strings.Trim(r.Host, "[]") }

func unescaped(text string) string {
	for {
		decoded := registry.Decode(text)
		if decoded == text {
			return text
		}
		text = decoded
	}
}

// isDenied tells whether the reading is something that the rules deny. schemes begin
// those URIs.
func (r *reading) isDenied(outer string) bool {
	scheme := outer + strings.ToLower(r.Scheme)
	if slices.Contains([]string{"file", "x+file", "docs://file", "docs:file"}, scheme) {
		return strings.HasPrefix(unescaped(r.Path), "/etc/")
	}
	if !slices.Contains(deniedSchemes, scheme) || r.Port != "" && r.Port != webPorts[r.Scheme] {
		return false
	}
	return slices.Contains(deniedHosts, strings.ToLower(r.host())) || slices.Contains(deniedHosts, r.Address)
}

// libraryWorld returns a gateway with one server whose URIs are in no list, a caller of a
// tenant that may read them all, and one of a tenant with the rules that deny.
func libraryWorld(t *testing.T) (g *desk.Gateway, free, restricted desk.Caller) {
	t.Helper()
	library := registry.New()
	library.Replace(registry.Source{
		Name: "lib", Reads: true,
		Use: func(context.Context, *registry.Call) (mcp.Object, error) {
			return mcp.Object{}, nil
		},
	})
	g = desk.New(desk.Config{
		Registry: library, Limiter: ratelimit.NewMemory(0), Metrics: metrics.New(prometheus.NewRegistry()),
		Seal:   seal.RandomRing(),
		Logger: slog.New(slog.DiscardHandler), Version: "test",
	})
	all := desk.Rule{Allow: []string{"resource:*"}}
	denies := desk.Rule{Deny: []string{
		"resource:lib:file:///etc/*", "resource:lib:x+file:///etc/*",
		"resource:lib:docs://file:///etc/*", "resource:lib:docs:file:///etc/*",
	}}
	for _, scheme := range deniedSchemes {
		for _, host := range []string{"intra", "127.0.0.1", "[::1]"} {
			denies.Deny = append(denies.Deny, "resource:lib:"+scheme+"://"+host+"/*")
		}
	}
	g.SetPolicy("", []desk.TenantConfig{
		{ID: "free", Servers: []string{"lib"}, Rules: []desk.Rule{all}},
		{ID: "restricted", Servers: []string{"lib"}, Rules: []desk.Rule{all, denies}},
	})
	var err error
	if free, err = g.Resolve(auth.Principal{TenantID: "free", Issuer: "i", Subject: "s"}); err != nil {
		t.Fatal(err)
	}
	if restricted, err = g.Resolve(auth.Principal{
		TenantID: "restricted", Issuer: "i",
		Subject: "s",
	}); err != nil {
		t.Fatal(err)
	}
	return g, free, restricted
}

// A deny of http://intra/* was passed by http://intra:080/x, http://intra?x, hosts in
// fullwidth letters or as numbers, and one of file:///etc/* by a host in the URI;
// docs:http:u@INTRA/x passed, since only :// within a URI was looked at. So what Go, Node
// and Python read out of a URI that is known must be what the text says, and must not be
// what a rule denies.
func TestWhatParsersReadIsWhatARuleJudged(t *testing.T) {
	g, free, restricted := libraryWorld(t)
	tried := append(spellings(webParts), spellings(fileParts)...)
	var known []string
	for _, uri := range tried {
		if g.Reads(free, uri) {
			known = append(known, uri)
		}
	}
	t.Logf("of %d spellings %d are known", len(tried), len(known))
	t.Attr("spellings", fmt.Sprint(len(tried)))
	for _, uri := range []string{
		"http://intra/x", "https://127.0.0.1/x", "http://[::1]/x", "http://intra:8080/x",
		"http://xn--mnchen-3ya.example/x", "memo://Insights/x", "memo://intra", "memo://J%C3%BCrgen/x",
		"docs://https://intra/x", "file:///etc/passwd", "file:///srv/caf%C3%A9",
	} {
		if !slices.Contains(known, uri) && !g.Reads(free, uri) {
			t.Errorf("%s is unknown, although it has one reading", uri)
		}
	}
	if len(tried) < 10_000 || len(known) < 100 {
		t.Errorf("%d spellings and %d known ones are too few to tell anything", len(tried), len(known))
	}
	// What stands within a URI is parsed by itself by the server of such URIs.
	inner := make([]string, len(known))
	for i, uri := range known {
		inner[i] = strings.TrimPrefix(strings.TrimPrefix(uri, "docs:"), "//")
	}
	for name, read := range parsers {
		t.Run(name, func(t *testing.T) {
			for i, r := range read(t, known) {
				if what := r.differs(known[i]); what != "" && !r.Error {
					t.Errorf("%q: another %s: %+v", known[i], what, r)
				}
			}
			for i, r := range read(t, inner) {
				outer := strings.TrimSuffix(known[i], inner[i])
				if what := r.differs(inner[i]); what != "" && !r.Error {
					t.Errorf("%q within %q: another %s: %+v", inner[i], known[i], what, r)
				}
				if !r.Error && r.isDenied(outer) && g.Reads(restricted, known[i]) {
					t.Errorf("%q passes the rules, but is read as %+v", known[i], r)
				}
			}
		})
	}
}
