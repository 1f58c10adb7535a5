package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/drawbridge-mcp/drawbridge/internal/corpus"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// texts are what inputs are made of beside the schemas.
type texts struct {
	strings []string // that programs have stumbled over, of valid UTF-8
	bodies  []string // the same, and those that are not
	// bodies that readers take for different calls, by what the revision wants in params
	smuggled map[string][]string
}

func newTexts() *texts {
	t := &texts{smuggled: make(map[string][]string)}
	for _, inside := range []string{"", modernMeta("{}")} {
		t.smuggled[inside] = slices.Sorted(slices.Values(corpus.Smuggled(inside)))
	}
	for _, text := range corpus.Strings(must.TB{}) {
		if utf8.ValidString(text) && len(text) <= 120 {
			t.strings = append(t.strings, text)
		}
		t.bodies = append(t.bodies, text)
	}
	return t
}

// odd is a body that is one of the odd texts, or has one in the place of a name, a URI or
// an argument.
func (w *writer) odd() input {
	in := w.call("odd texts", behave)
	text := pick(w.Rand, w.texts.bodies)
	quoted := write(text)
	odd := []struct{ what, method, params string }{
		{"as the body", "", ""},
		{"as an argument", mcp.MethodToolsCall, `"name":"box__echo","arguments":{"text":` + quoted + `}`},
		{"as the name of a tool", mcp.MethodToolsCall, `"name":` + quoted + `,"arguments":{}`},
		{"as a URI", mcp.MethodResourcesRead, `"uri":` + quoted},
		{"as a member", mcp.MethodToolsCall, `"name":"box__echo","arguments":{` + quoted + `:"x","text":"x"}`},
	}[w.IntN(5)]
	if in.what = odd.what; odd.method != "" {
		in.request = w.ask(in.id, odd.method, odd.params)
	} else {
		in.request, in.id = w.post(text), ""
		in.headers = w.headersOfACall(in.headers)
	}
	if strings.Contains(odd.what, "name") {
		in.want = refuse
	}
	return in
}

// headersOfACall are the headers of a modern call of the plain tool, and others as they
// are.
func (w *writer) headersOfACall(others []string) []string {
	return page.Either(w.revision == mcp.Revision2607, repeated(mcp.MethodToolsCall, "box__echo"), others)
}

// denied asks for what a rule denies, in another spelling. None may be served, whatever
// the spelling.
func (w *writer) denied() input {
	in := w.call("names and URIs of what is denied", refuse)
	if w.IntN(3) == 0 {
		in.request, in.what = w.ask(in.id, mcp.MethodToolsCall, `"name":`+write(respelt(w.Rand, "box__evil"))+
			`,"arguments":{}`), "tool"
		return in
	}
	uri := pick(w.Rand, []string{exposed, exposed, exposed, "", "mcp.ofacme+"}) + uriOfSecret(w.Rand)
	in.request, in.what = w.ask(in.id, mcp.MethodResourcesRead, `"uri":`+write(uri)), "URI"
	return in
}

// respelt returns a name in a way that somebody may read as that name, or as it is.
func respelt(r *rand.Rand, name string) string {
	at := r.IntN(len(name))
	before, c, after := name[:at], name[at], name[at+1:]
	return pick(r, []string{
		name, strings.ToUpper(name), before + string(rune(c)+0xFEE0) + after,
		before + fmt.Sprintf("%%%02x", c) + after,
		before + pick(r, []string{
			"\u200b", "\u00ad", "\x00", " ", "\u202e", "%", "/", "__",
			"\ufeff",
		}) + name[at:],
		name + pick(r, []string{" ", "\x00", "\n", "\u200d", ".", "/", "#", "?", "x"}),
		pick(r, []string{" ", "./", "box__", "box/", "\t", "ofacme__", "ofglobex__"}) + name,
	})
}

// uriOfSecret returns file:///secret/x in one of the many ways that a server may read as
// that.
func uriOfSecret(r *rand.Rand) string {
	var secret strings.Builder
	for _, c := range "secret" {
		plain := string(c)
		secret.WriteString(pick(r, []string{
			fmt.Sprintf("%%%02x", c), fmt.Sprintf("%%%02X", c), plain, plain, plain, plain,
		}))
	}
	before := pick(r, []string{
		"", "", "./", "open/../", "a/b/../../", "%2e/", "x/%2e%2e/", "/", "%2f",
		"x/%2E./", ".//",
	})
	scheme := pick(r, []string{"file", "file", "FILE", "File"})
	authority := pick(r, []string{"//", "//", "//localhost", "//LOCALHOST", ""})
	tail := pick(r, []string{
		"", "/x", "/a/b", "/%61", "/x?y", "/x#y", "#x", "?x", "/", "//x", "/x/../y",
		"%2fx", "/x%00", "%20",
	})
	if authority == "" && strings.HasPrefix(before, "/") {
		before = ""
	}
	return scheme + ":" + authority + "/" + before + secret.String() + tail
}

// forgedID uses an id that was made for this speaker, with one thing changed in it, in
// some place where an id stands.
func (w *writer) forgedID() input {
	in := w.call("ids, cursors and states forged", refuse)
	good, other := pick(w.Rand, w.forged), pick(w.Rand, w.forged)
	at := w.IntN(len(good))
	changed := good[:at] + string(otherThan(w.Rand, good[at])) + good[at+1:]
	id := pick(w.Rand, []string{
		changed, changed, changed, good[:at] + other[min(at, len(other)):] + "A",
		good + pick(w.Rand, []string{"A", "=", " ", "\x00", good}),
		good[:max(1, at)], // an empty cursor is none, which asks for the first page
	})
	// the first of the common ways has no header
	place := page.Either(printable(id) && id != w.session, pick(w.Rand, w.places), commonWays[0])
	rid := w.nextID()
	in.what, in.request, in.id = place.name, place.use(w.speaker, rid, id), ""
	if strings.Contains(in.body, rid) {
		in.id = write(rid)
	}
	return in
}

func printable(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' }) && text != ""
}

// smuggled is a body in which one reader finds a tool that is allowed, and another one
// finds the denied one.
func (w *writer) smuggled() input {
	inside := ""
	in := input{class: "smuggling bodies", what: "body", want: behave}
	if w.revision == mcp.Revision2607 {
		inside = modernMeta("{}")
		name := pick(w.Rand, []string{"box__echo", "box__evil"})
		in.headers = repeated(mcp.MethodToolsCall, name)
	}
	bodies := w.texts.smuggled[inside]
	body := strings.NewReplacer("up__ok", "box__echo", "up__evil", "box__evil").Replace(pick(w.Rand, bodies))
	w.count++
	m := w.post(strings.ReplaceAll(body, "SERIAL", fmt.Sprint(1000+w.count)))
	m.headers = append(m.headers, in.headers...)
	in.request = m
	return in
}
