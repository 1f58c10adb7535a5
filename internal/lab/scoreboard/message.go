package main

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// writer makes inputs for one speaker.
type writer struct {
	*rand.Rand
	*speaker

	speech *speech
	texts  *texts
	forged []string  // ids that were made for somebody, as they are
	fakes  []forgery // of the token
	places []way     // where ids stand that nobody was given, and which give no result then
	count  int
}

// nextID returns an id that this speaker has not used yet.
func (w *writer) nextID() string {
	w.count++
	return "i" + strconv.Itoa(w.count)
}

// message is one of a kind, as it should be.
func (w *writer) message(class string) (in input, tree *members, k *kind) {
	k = &w.speech.kinds[w.IntN(len(w.speech.kinds))]
	id := w.nextID()
	tree = w.speech.make(w.Rand, k, id)
	w.ground(k, tree)
	in = input{class: class, what: k.name, want: behave}
	if k.request {
		in.id = write(id)
		if !mcp.MethodOf(k.method).OfTasks() && k.method != mcp.MethodListen && k.method != "tasks/list" {
			in.want = serve
		}
	}
	return in, tree, k
}

// ground makes a message one about what there is.
func (w *writer) ground(k *kind, tree *members) {
	if k.method == "" {
		return
	}
	if w.revision == mcp.Revision2607 && (k.request || tree.value("params") != nil) {
		meta := tree.object("params").object("_meta")
		meta.set(mcp.MetaProtocolVersion, mcp.Revision2607)
	}
	if tree.value("params") == nil && !mcp.MethodOf(k.method).Named {
		return
	}
	params := tree.object("params")
	params.remove("cursor", "task", "inputResponses", "requestState", "context", "arguments")
	name, uri := member{"name", "box__greet"}, member{"uri", exposed + "file:///open/a"}
	for _, m := range map[string]members{
		mcp.MethodToolsCall: {{"name", "box__echo"}, {"arguments", pick(w.Rand, []any{
			&members{{"text", "hello"}},
			&members{
				{"text", "hello"}, {"n", literal(strconv.Itoa(w.IntN(1000)))}, {"list", []any{"a", "b"}},
			},
		})}},
		mcp.MethodPromptsGet:    {name},
		mcp.MethodResourcesRead: {uri}, mcp.MethodSubscribe: {uri}, mcp.MethodUnsubscribe: {uri},
		mcp.MethodComplete:   {{"ref", &members{{"type", "ref/prompt"}, name}}},
		mcp.MethodInitialize: {{"protocolVersion", w.revision}},
	}[k.method] {
		params.set(m.name, m.value)
	}
}

// sendable adds to an input how it is sent: where to, and with which headers.
func (w *writer) sendable(in *input, text string, tree *members) {
	in.request = w.post(text)
	method, _ := tree.value("method").(string)
	if method == mcp.MethodInitialize && w.stream == nil {
		in.headers = nil // it opens a session
	}
	if w.revision == mcp.Revision2607 {
		params, _ := tree.value("params").(*members)
		subject := ""
		if params != nil {
			subject, _ = params.value(mcp.MethodOf(method).Subject).(string)
		}
		in.headers = repeated(method, subject)
	}
}

// good is a message as it should be. It must be served.
func (w *writer) good() input {
	in, tree, _ := w.message("messages as they should be")
	w.sendable(&in, write(tree), tree)
	return in
}

// mutated is a message that was changed one to three times.
func (w *writer) mutated() input {
	in, tree, k := w.message("messages mutated")
	in.want = behave
	var names []string
	text, broken := "", false
	for range 1 + w.IntN(3) {
		m := pick(w.Rand, mutations)
		if broken || m.text == nil && !m.change(w.Rand, tree) {
			continue
		}
		if names = append(names, m.name); m.text != nil {
			text, broken = m.text(w.Rand, write(tree)), true
		}
	}
	in.what += ": " + strings.Join(names, ", ")
	if broken {
		in.want, in.id = refuse, ""
	} else {
		text = write(tree)
		w.expect(&in, tree)
	}
	w.sendable(&in, text, tree)
	if k.request && w.revision == mcp.Revision2607 && w.IntN(8) == 0 {
		w.mismatch(&in)
	}
	return in
}

// expect decides what must become of a message whose tree was changed.
func (w *writer) expect(in *input, tree *members) {
	method, _ := tree.value("method").(string)
	in.id = ""
	id, valid := tree.value("id"), false
	switch v := id.(type) {
	case string:
		valid = len(v) <= 60
	case literal:
		valid = slices.Contains([]string{"7", "0", "-1", "9007199254740991"}, string(v))
	}
	if valid && method != "" && tree.value("jsonrpc") == "2.0" {
		in.id = write(id)
	}
	if !valid && id == nil || tree.value("jsonrpc") != "2.0" ||
		!w.speech.allows(method, write(forgive(tree))) {
		in.want = refuse
	}
}

// mismatch makes the headers of a modern request say another thing than its body.
func (w *writer) mismatch(in *input) {
	in.want = refuse
	in.what += ", headers differ"
	i := 2 * w.IntN(len(in.headers)/2)
	switch w.IntN(3) {
	case 0:
		in.headers = append(in.headers, in.headers[i], "other")
	case 1:
		in.headers[i+1] += "x"
	default:
		in.without = in.headers[i]
		// without it the body decides the era, and wants the header
		if in.headers[i] == mcp.HeaderProtocolVersion {
			in.without = mcp.HeaderMethod
		}
	}
}

// batch is an array of messages, which only 2025-03-26 has.
func (w *writer) batch() input {
	in := input{class: "batches", what: "batch", want: refuse}
	texts := make([]string, 0, 4)
	for range w.IntN(5) {
		_, tree, k := w.message("")
		if k.method == mcp.MethodInitialize {
			in.what = "initialize in a batch"
		}
		texts = append(texts, write(tree))
	}
	if w.revision == mcp.Revision2503 && len(texts) > 0 && in.what == "batch" {
		in.want = behave
	}
	in.request = w.post("[" + strings.Join(texts, ",") + "]")
	in.headers = w.headersOfACall(in.headers)
	if in.want == behave && w.IntN(3) == 0 {
		in.want, in.body = refuse, in.body[:len(in.body)-1-w.IntN(2)]+
			pick(w.Rand, []string{"", ",", ",[]]", "}", ",null]", ",1]"})
	}
	return in
}

// call is a good tools/call, for faults around it.
func (w *writer) call(class string, m wanted) input {
	id := write(w.nextID())
	return input{
		request: w.ask(id, mcp.MethodToolsCall, `"name":"box__echo","arguments":{"text":"x"}`),
		class:   class, want: m, id: id,
	}
}

// token is a good message with a bad token.
func (w *writer) badToken() input {
	in := w.call("tokens", deny)
	in.token, in.what = spoilt(w.Rand, w.token)
	if w.IntN(8) > 2 {
		fake := pick(w.Rand, w.fakes)
		in.token, in.what = fake.token, fake.what
	}
	separator := page.Either(strings.Contains(in.path, "?"), "&", "?")
	elsewhere := []struct{ what, token, authorization, query string }{
		{what: "no token"},
		{
			what:          "another scheme",
			authorization: pick(w.Rand, []string{"Basic ", "DPoP ", "", "Bearer", "Token "}) + w.token,
		},
		{what: "two headers", token: w.token, authorization: "Bearer " + in.token},
		{what: "in the query", query: separator + "access_token=" + w.token},
	}
	if at := w.IntN(12); at < len(elsewhere) {
		one := elsewhere[at]
		in.what, in.token, in.path = one.what, one.token, in.path+one.query
		if one.authorization != "" {
			in.headers = append(in.headers, "Authorization", one.authorization)
		}
	}
	return in
}

// around is a good message with a fault in what is around it.
func (w *writer) around() input {
	in := w.call("paths and headers", refuse)
	fault := pick(w.Rand, faultsAround)
	in.what = fault.what
	value := pick(w.Rand, fault.values)
	if part := map[string]*string{
		"host": &in.host, "path": &in.path, "method": &in.method, "no content type": &in.without,
	}[fault.what]; part != nil {
		*part = value
	} else {
		in.headers = append(in.headers, pick(w.Rand, fault.headers), value)
	}
	if fault.harmless || value == "/t/"+w.person.tenant+"/mcp" ||
		fault.what == "revision" && w.stream != nil { // HTTP+SSE is older than that header
		in.want = behave
	}
	if in.method != http.MethodPost {
		in.id = ""
	}
	return in
}

// faultsAround are what can be wrong around a message: one of the values stands in the
// part of the request that what names, or in one of the headers.
var faultsAround = []struct {
	what            string
	headers, values []string
	harmless        bool // it may be served
}{
	{what: "host", values: []string{
		"evil.test", "mcp.test.evil.test", "mcp.test@evil.test", "[mcp.test", "mcp.test:1:1", "localhost",
	}},
	{what: "path", values: []string{
		"/mcp/", "//mcp", "/MCP", "/mcp%2f", "/%6dcp", "/./mcp",
		"/x/../mcp", "/t/globex/mcp", "/t/acme/mcp", "/t//mcp", "/t/%61cme/mcp", "/t/initech/mcp",
		"/mcp;x", "/", "/metrics", "/debug/pprof/", "/messages", "/messages?sessionId=", "/sse",
		"/healthz",
	}},
	{what: "method", values: []string{
		"PUT", "PATCH", "OPTIONS", "HEAD", "TRACE", "CONNECT", "PROPFIND", "post", "X",
	}},
	{what: "no content type", values: []string{"Content-Type"}},
	{what: "content types", headers: []string{"Content-Type"}, values: []string{"text/plain"}},
	{what: "content encoding", headers: []string{"Content-Encoding"}, values: []string{"gzip", "br", "x"}},
	{what: "origin", headers: []string{"Origin"}, values: []string{
		"https://evil.test", "null", "https://app.test.evil.test", "http://app.test",
	}},
	{what: "headers that claim", harmless: true, headers: []string{
		"X-Tenant", "X-Tenant-Id", "X-Forwarded-User", "X-Forwarded-Host",
		"X-Original-Url", "X-Forwarded-For", "Mcp-Init-Host", "Connection",
	}, values: []string{"globex", "127.0.0.1", "/metrics", "Authorization", "evil.test"}},
	{what: "revision", headers: []string{mcp.HeaderProtocolVersion}, values: []string{
		"", "1999-01-01", "2026-07-29", "9999-99-99", "x", "2025-06-18,2025-11-25", "\xff",
	}},
}
