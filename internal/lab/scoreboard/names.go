package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/drawbridge-mcp/drawbridge/internal/corpus"
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
	for _, text := range corpus.Strings(reader{}) {
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

// headersOfACall are the headers of a modern call of the plain tool, and others as they are.
func (w *writer) headersOfACall(others []string) []string {
	if w.revision == mcp.Revision2607 {
		return repeated(mcp.MethodToolsCall, "box__echo")
	}
	return others
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
	switch r.IntN(7) {
	case 0:
		return strings.ToUpper(name)
	case 1:
		return name[:at] + pick(r, []string{
			"\u200b", "\u00ad", "\x00", " ", "\u202e", "%", "/", "__",
			"\ufeff",
		}) + name[at:]
	case 2:
		return name + pick(r, []string{" ", "\x00", "\n", "\u200d", ".", "/", "#", "?", "x"})
	case 3:
		return name[:at] + string(rune(name[at])+0xFEE0) + name[at+1:]
	case 4:
		return name[:at] + fmt.Sprintf("%%%02x", name[at]) + name[at+1:]
	case 5:
		return pick(r, []string{" ", "./", "box__", "box/", "\t", "ofacme__", "ofglobex__"}) + name
	}
	return name
}

// uriOfSecret returns file:///secret/x in one of the many ways that a server may read as
// that.
func uriOfSecret(r *rand.Rand) string {
	segment := func(text string) string {
		var b strings.Builder
		for i := range len(text) {
			switch r.IntN(6) {
			case 0:
				fmt.Fprintf(&b, "%%%02x", text[i])
			case 1:
				fmt.Fprintf(&b, "%%%02X", text[i])
			default:
				b.WriteByte(text[i])
			}
		}
		return b.String()
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
	return scheme + ":" + authority + "/" + before + segment("secret") + tail
}

// forgedID uses an id that was made for this speaker or another one, with one thing
// changed in it, in some place where an id stands.
func (w *writer) forgedID() input {
	in := w.call("ids, cursors and states forged", refuse)
	good := pick(w.Rand, w.forged)
	at := w.IntN(len(good))
	id := good[:at] + string(otherThan(w.Rand, good[at])) + good[at+1:]
	switch w.IntN(6) {
	case 0:
		id = good[:max(1, at)] // an empty cursor is none, which asks for the first page
	case 1:
		id = good + pick(w.Rand, []string{"A", "=", " ", "\x00", good})
	case 2:
		other := pick(w.Rand, w.forged)
		id = good[:at] + other[min(at, len(other)):] + "A"
	}
	quoted := write(id)
	places := []struct{ what, method, params string }{
		{"cursor", mcp.MethodToolsList, `"cursor":` + quoted},
		{"cursor", mcp.MethodResourcesList, `"cursor":` + quoted},
		{"task", mcp.MethodTasksGet, `"taskId":` + quoted},
		{"task", mcp.MethodTasksCancel, `"taskId":` + quoted},
	}
	if w.revision == mcp.Revision2607 {
		places = append(places, struct{ what, method, params string }{
			"requestState", mcp.MethodToolsCall,
			`"name":"box__ask","arguments":{},"inputResponses":{"q":{"action":"decline"}},"requestState":` +
				quoted,
		})
	}
	if w.session != "" && w.IntN(3) == 0 && printable(id) && id != w.session {
		in.what, in.headers = "session", []string{mcp.HeaderSessionID, id}
		return in
	}
	if w.stream != nil && w.IntN(3) == 0 && printable(id) {
		in.what, in.path = "session of a stream", "/messages?sessionId="+
			strings.ReplaceAll(strings.ReplaceAll(id, " ", "%20"), "=", "%3D")
		return in
	}
	one := places[w.IntN(len(places))]
	in.request, in.what = w.ask(in.id, one.method, one.params), one.what
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
