package openapi_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/openapi"
)

// asked calls the one operation of a document and returns the request line's target, or
// what the model is told.
func asked(t *testing.T, a *api, document []byte, arguments string) (target, refused string) {
	t.Helper()
	tools, left := load(t, a.config(document))
	if len(left) > 0 {
		t.Fatalf("the operation is left out: %v", left[0].Err)
	}
	text, failed := said(t, mustUse(t, tools["op"], arguments))
	if failed {
		if len(a.asked) > 0 {
			t.Errorf("%s: refused, but asked for %s", arguments, a.asked[0].RequestURI)
		}
		return "", text
	}
	r, _ := a.last(t)
	return r.RequestURI, ""
}

func TestStyles(t *testing.T) {
	a := newAPI(t)
	const list, object = `["a/b","c"]`, `{"k":"a,b","l":2}`
	for _, test := range []struct{ in, how, value, want string }{
		{"path", ``, `"x"`, "/v3/p/x"},
		{"path", ``, `true`, "/v3/p/true"},
		{"path", ``, `1.50`, "/v3/p/1.50"},
		{"path", ``, list, "/v3/p/a%2Fb,c"},
		{"path", ``, object, "/v3/p/k,a%2Cb,l,2"},
		{"path", `,"explode":true`, object, "/v3/p/k=a%2Cb,l=2"},
		{"path", `,"style":"label"`, `"x"`, "/v3/p/.x"},
		{"path", `,"style":"label"`, list, "/v3/p/.a%2Fb,c"},
		{"path", `,"style":"label","explode":true`, list, "/v3/p/.a%2Fb.c"},
		{"path", `,"style":"label","explode":true`, object, "/v3/p/.k=a%2Cb.l=2"},
		{"path", `,"style":"matrix"`, `"x"`, "/v3/p/;v=x"},
		{"path", `,"style":"matrix"`, list, "/v3/p/;v=a%2Fb,c"},
		{"path", `,"style":"matrix","explode":true`, list, "/v3/p/;v=a%2Fb;v=c"},
		{"path", `,"style":"matrix"`, object, "/v3/p/;v=k,a%2Cb,l,2"},
		{"path", `,"style":"matrix","explode":true`, object, "/v3/p/;k=a%2Cb;l=2"},
		{"query", ``, `"x y+z"`, "/v3/p?v=x%20y%2Bz"},
		{"query", ``, `""`, "/v3/p?v="},
		{"query", ``, `null`, "/v3/p"},
		{"query", ``, `[]`, "/v3/p"},
		{"query", ``, list, "/v3/p?v=a/b&v=c"},
		{"query", `,"explode":false`, list, "/v3/p?v=a/b,c"},
		{"query", `,"explode":false`, object, "/v3/p?v=k,a%2Cb,l,2"},
		{"query", `,"explode":false`, `[]`, "/v3/p"},
		{"query", `,"style":"spaceDelimited"`, list, "/v3/p?v=a/b%20c"},
		{"query", `,"style":"pipeDelimited"`, list, "/v3/p?v=a/b%7Cc"},
		{"query", `,"style":"spaceDelimited"`, `["a b","c"]`, ""},
		{"query", `,"style":"pipeDelimited"`, `["a|b","c"]`, ""},
		{"query", `,"style":"pipeDelimited"`, `["a b","c"]`, "/v3/p?v=a%20b%7Cc"},
		{"query", `,"style":"deepObject","explode":true`, object, "/v3/p?v%5Bk%5D=a,b&v%5Bl%5D=2"},
	} {
		path := "/p"
		if test.in == "path" {
			path = "/p/{v}"
		}
		document := operation(path, `"parameters":[{"name":"v","in":"`+test.in+
			`","allowReserved":true,"required":`+
			(map[bool]string{true: "true", false: "false"})[test.in == "path"]+test.how+`,"schema":{}}]`)
		if got, refused := asked(t, a, document, `{"v":`+test.value+`}`); got != test.want {
			t.Errorf("%s%s %s: got %s%s, want %s", test.in, test.how, test.value, got, refused, test.want)
		}
	}
}

func TestContentParametersAreJSON(t *testing.T) {
	a := newAPI(t)
	document := withParameter(
		`{"name":"filter","in":"query","content":{"application/json":{"schema":{"type":"object"}}}}`)
	if got, refused := asked(t, a, document,
		`{"filter":{"a":[1,{"b":"&c=d"}]}}`); got != "/v3/x?filter=%7B%22a%22%3A%5B1%2C%7B%22b%22%3A%22%26c%3Dd%22%7D%5D%7D" {
		t.Errorf("got %s%s", got, refused)
	}
}

// TestT3HostilePaths shows the bytes that arrive, or that nothing does.
func TestT3HostilePaths(t *testing.T) {
	a := newAPI(t)
	document := operation("/users/{id}/keys",
		`"parameters":[{"name":"id","in":"path","required":true,"allowReserved":true,"schema":{}}]`)
	for value, want := range map[string]string{
		"a/b":                           "/v3/users/a%2Fb/keys",
		`a\b`:                           "/v3/users/a%5Cb/keys",
		"a?b=c":                         "/v3/users/a%3Fb%3Dc/keys",
		"a#b":                           "/v3/users/a%23b/keys",
		"a&b":                           "/v3/users/a%26b/keys",
		"a;b=c":                         "/v3/users/a%3Bb%3Dc/keys",
		"a%2fb":                         "/v3/users/a%252fb/keys",
		"a@evil.example":                "/v3/users/a%40evil.example/keys",
		"http://evil.example":           "", // an empty segment
		"//evil.example":                "",
		"é":                             "/v3/users/%C3%A9/keys",
		"...":                           "/v3/users/.../keys",
		"a..b":                          "/v3/users/a..b/keys",
		" ":                             "/v3/users/%20/keys",
		"100%":                          "/v3/users/100%25/keys",
		"":                              "",
		".":                             "",
		"..":                            "",
		"../admin":                      "",
		"a/../../admin":                 "",
		`a\..\admin`:                    "",
		"%2e%2e":                        "",
		"%252e%252e%252fadmin":          "",
		"..%2fadmin":                    "",
		"..;/admin":                     "",
		"..;x":                          "",
		"a/":                            "",
		"/":                             "",
		"a\r\nHost: evil.example":       "",
		"a%0d%0aX: y":                   "",
		"a\x00":                         "",
		"a%00b":                         "",
		"a%ff":                          "", // no UTF-8
		strings.Repeat("a", 4097):       "",
		"%" + strings.Repeat("25", 99):  "/v3/users/%25" + strings.Repeat("25", 99) + "/keys",
		"%" + strings.Repeat("25", 999): "", // it takes long to look through so many layers
	} {
		got, refused := asked(t, a, document, `{"id":`+string(mcp.String(value))+`}`)
		if got != want {
			t.Errorf("%q: got %s %s, want %q", value, got, refused, want)
		}
		if want == "" && value != "" && len(value) > 2 && strings.Contains(refused, value) {
			t.Errorf("%q: the value is in the error: %s", value, refused)
		}
	}
	for _, value := range []string{
		`null`, `[]`, `{}`, `[".."]`, `["a",null]`, `[["a"]]`, `{"..":"a"}`,
		`{"a":".."}`,
	} {
		if got, _ := asked(t, a, document, `{"id":`+value+`}`); got != "" {
			t.Errorf("%s: got %s, want nothing", value, got)
		}
	}
}

// Many servers decode a path before they look which operation it is: an argument with a
// slash would reach one that was not included.
func TestSlashesReachNoOtherOperation(t *testing.T) {
	a := newAPI(t)
	document := operation("/users/{id}",
		`"parameters":[{"name":"id","in":"path","required":true,"schema":{}}]`)
	for _, value := range []string{
		`"1/secrets"`, `"1\\secrets"`, `"1%2fsecrets"`, `"1%252Fsecrets"`,
		`"1%5csecrets"`, `["1","2/x"]`, `{"a":"b/c"}`, `{"a/b":"c"}`,
	} {
		if got, _ := asked(t, a, document, `{"id":`+value+`}`); got != "" {
			t.Errorf("%s: got %s, want nothing", value, got)
		}
	}
	if got, refused := asked(t, a, document, `{"id":"1-secrets"}`); got != "/v3/users/1-secrets" {
		t.Errorf("got %s%s", got, refused)
	}
}

// Some servers take the underscore in a header's name for a hyphen, so that an argument
// could replace a credential.
func TestArgumentsReplaceNoHeaderOfTheOperator(t *testing.T) {
	a := newAPI(t)
	cfg := a.config(withParameter(`{"name":"X_Api_Key","in":"header","schema":{"type":"string"}}`), "*")
	cfg.Headers = map[string]string{"X-Api-Key": "s3cret-value"}
	tools, _ := load(t, cfg)
	for name, tool := range tools {
		if strings.Contains(string(tool.Raw), "X_Api_Key") {
			t.Errorf("%s has the argument: %s", name, tool.Raw)
		}
	}
}

// Two arguments in one segment, each harmless, may be harmful together.
func TestT3ArgumentsThatMeetInOneSegment(t *testing.T) {
	a := newAPI(t)
	document := operation("/f/.{a}{b}",
		`"parameters":[{"name":"a","in":"path","required":true,"schema":{}},{"name":"b","in":"path","required":true,"schema":{}}]`)
	for arguments, want := range map[string]string{
		`{"a":"x","b":"y"}`:   "/v3/f/.xy",
		`{"a":"%2","b":"e"}`:  "",
		`{"a":"%","b":"2e"}`:  "",
		`{"a":"%","b":"%2e"}`: "",
		`{"a":"x%","b":"2f"}`: "",
	} {
		if got, refused := asked(t, a, document, arguments); got != want {
			t.Errorf("%s: got %s %s, want %q", arguments, got, refused, want)
		}
	}
}

func TestT3HostileQueries(t *testing.T) {
	a := newAPI(t)
	deep := withParameter(
		`{"name":"f","in":"query","style":"deepObject","explode":true,"schema":{"type":"object"}}`)
	open := withParameter(`{"name":"f","in":"query","schema":{}}`)
	for _, test := range []struct {
		document        []byte
		arguments, want string
	}{
		{deep, `{"f":{"a&admin=1":"x&admin=1#y"}}`, "/v3/x?f%5Ba%26admin%3D1%5D=x%26admin%3D1%23y"},
		{deep, `{"f":{"a][b":"x"}}`, ""},
		{deep, `{"f":{"a":{"b":"x"}}}`, "/v3/x?f%5Ba%5D%5Bb%5D=x"},
		{deep, `{"f":{"a":{"b]":"x"}}}`, ""},
		{open, `{"f":"a&admin=1;b=2"}`, "/v3/x?f=a%26admin%3D1%3Bb%3D2"},
		{open, `{"f":{"admin":"1"}}`, ""},
		{open, `{"f":[["a"]]}`, ""},
		{open, `{"f":"` + strings.Repeat("x", 33<<10) + `"}`, ""},
	} {
		if got, refused := asked(t, a, test.document, test.arguments); got != test.want {
			t.Errorf("%.100s: got %s %s, want %q", test.arguments, got, refused, test.want)
		}
	}
}

func TestT3HostileHeaders(t *testing.T) {
	a := newAPI(t)
	document := func(name string) []byte {
		return withParameter(`{"name":"` + name + `","in":"header","schema":{}}`)
	}
	for arguments, want := range map[string]string{
		`{"X-Trace":"a b"}`: "a b", `{"X-Trace":[1,true]}`: "1,true", `{"X-Trace":{"k":"v"}}`: "k,v",
		`{"X-Trace":"a\r\nX-Admin: 1"}`: "", `{"X-Trace":"a\u0000"}`: "", `{"X-Trace":"é"}`: "",
		`{"X-Trace":["a\n"]}`: "",
	} {
		tools, _ := load(t, a.config(document("X-Trace")))
		_, failed := said(t, mustUse(t, tools["op"], arguments))
		if failed != (want == "") {
			t.Errorf("%s: error %v", arguments, failed)
		}
		if failed {
			continue
		}
		if r, _ := a.last(t); r.Header.Get("X-Trace") != want || r.Header.Get("X-Admin") != "" {
			t.Errorf("%s: got %q, want %q", arguments, r.Header, want)
		}
	}
	for _, name := range []string{
		"Authorization", "Cookie", "Host", "Content-Type", "Content-Length", "Accept", "Accept-Encoding",
		"Connection", "Transfer-Encoding",
		"X-Forwarded-For", "X-HTTP-Method-Override", "Proxy-Authorization", "X_Forwarded_Host", "X-Api-Key",
		"Mcp-Session-Id", "a b", "X:",
	} {
		cfg := a.config(document(name))
		cfg.Headers = map[string]string{"x-api-key": "s3cret"}
		tools, refused := load(t, cfg)
		if tools["op"] == nil || strings.Contains(string(tools["op"].Raw), name) {
			t.Errorf("%s: got %v, want a tool without that argument", name, refused)
		}
	}
}

func TestRefusedParameters(t *testing.T) {
	a := newAPI(t)
	for document, want := range map[string]string{
		string(
			withParameter(
				`{"name":"Cookie","in":"header","required":true,"schema":{}}`)): "no argument may set this header",
		string(
			withParameter(
				`{"name":"a","in":"cookie","required":true,"schema":{}}`)): "no argument may set a cookie",
		string(
			withParameter(
				`{"name":"a","in":"query","required":true,"schema":{"type":"object"}}`)): "would become parameters of their own",
		string(
			withParameter(`{"name":"a","in":"query","required":true,"style":"matrix","schema":{}}`)): "style",
		string(
			withParameter(
				`{"name":"a","in":"query","required":true,"content":{"text/plain":{}}}`)): "its content is not JSON",
		string(operation("/x/{a}",
			`"parameters":[]`)): "names a parameter that it does not have",
		string(
			withParameter(`{"name":"a","in":"path","required":true,"schema":{}}`)): "is not in its path",
		string(operation("/x/{a}/{query.a}", `"parameters":[{"name":"a","in":"path","required":true,"schema":{}},
			{"name":"query.a","in":"path","required":true,"schema":{}},
			{"name":"a","in":"query","schema":{}}]`)): "cannot be told from another one by its name",
		string(operation("/x?admin=1",
			`"tags":[]`)): "characters that need encoding",
		string(operation("/x/../y",
			`"tags":[]`)): "dot segments",
		string(operation("/x%2fy",
			`"tags":[]`)): "characters that need encoding",
		string(operation("//evil.example/x",
			`"tags":[]`)): "empty segments",
		string(
			operation(
				"/x", `"requestBody":{"required":true,"content":{"application/json":{}}}`)): "a body with GET",
	} {
		_, refused := load(t, a.config([]byte(document)))
		if len(refused) != 1 || refused[0].Item != "op" || !strings.Contains(refused[0].Err.Error(), want) {
			t.Errorf("%s: got %v, want %q", document, refused, want)
		}
	}
}

func TestNamesThatClash(t *testing.T) {
	a := newAPI(t)
	document := []byte(`{"openapi":"3.0.0","info":{"title":"x","version":"1"},"paths":{"/x/{id}":{"post":{"parameters":[
		{"name":"id","in":"header","schema":{}},{"name":"id","in":"query","schema":{}},{"name":"id","in":"path","required":true,"schema":{}},
		{"name":"body","in":"query","schema":{}},{"name":"filter[a]","in":"query","schema":{}}],
		"requestBody":{"content":{"application/json":{}}},"responses":{"200":{"description":""}}}}}}`)
	tools, refused := load(t, a.config(document, "POST /x/*"))
	if len(refused) > 0 {
		t.Fatal(refused[0].Err)
	}
	mustUse(t, tools["post_x_id"],
		`{"id":"p","query.id":"q","header.id":"h","query.body":"b","filter_a":"f","body":[1]}`)
	r, body := a.last(t)
	if r.RequestURI != "/v3/x/p?id=q&body=b&filter%5Ba%5D=f" || r.Header.Get("id") != "h" || body != "[1]" {
		t.Errorf("got %s, header %q, body %s", r.RequestURI, r.Header.Get("id"), body)
	}
}

// FuzzCall shows that no argument changes where a call goes: host, literal parts of the
// path, count of segments, names in the query and the operator's headers are the
// operation's, and what arrives is what was given.
func FuzzCall(f *testing.F) {
	for _, seed := range []string{
		"a", "..", "a/../b", "%2e%2e%2f", "?x=y", "#", "&b=c",
		"http://evil.example", "\r\nX: y", "é\\..", ";", "",
	} {
		f.Add(seed, seed, seed)
	}
	a := newAPI(f)
	cfg := a.config(operation("/a/{p}/b", `"parameters":[{"name":"p","in":"path","required":true,"schema":{}},{"name":"q","in":"query","schema":{}},
		{"name":"r","in":"query","allowReserved":true,"schema":{}},{"name":"d","in":"query","style":"deepObject","explode":true,"schema":{"type":"object"}},{"name":"X-H","in":"header","schema":{}}]`))
	cfg.Headers = map[string]string{"Authorization": "Bearer operator"}
	tools, _ := load(f, cfg)
	f.Fuzz(func(t *testing.T, path, query, header string) {
		arguments, err := json.Marshal(map[string]any{
			"p": path, "q": []string{query, path}, "r": query,
			"d": map[string]string{"k" + header: query}, "X-H": header,
		})
		if err != nil || !utf8.ValidString(path+query+header) { // no JSON can hold it
			t.Skip()
		}
		a.asked, a.bodies = nil, nil
		if _, err := use(t.Context(), tools["op"], string(arguments)); err != nil || len(a.asked) == 0 {
			return
		}
		r, _ := a.last(t)
		checkArrival(t, r, strings.TrimPrefix(a.URL, "http://"), path, query)
	})
}

func checkArrival(t *testing.T, r *http.Request, host, path, query string) {
	t.Helper()
	segments := strings.Split(r.URL.EscapedPath(), "/")
	if r.Host != host || len(segments) != 5 || segments[1] != "v3" || segments[2] != "a" ||
		segments[4] != "b" {
		t.Fatalf("went to %s %s", r.Host, r.RequestURI)
	}
	if got, err := url.PathUnescape(segments[3]); err != nil || got != path {
		t.Errorf("the path has %q, want %q", got, path)
	}
	if strings.ContainsAny(segments[3], `\;?#&=`) || segments[3] == "." || segments[3] == ".." {
		t.Errorf("the path's segment is %s", segments[3])
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || len(values) != 3 || len(values["q"]) != 2 || values["q"][0] != query ||
		len(values["r"]) != 1 || values.Get("r") != query {
		t.Errorf("the query is %s: %v", r.URL.RawQuery, err)
	}
	for name := range values {
		if name != "q" && name != "r" && !strings.HasPrefix(name, "d[k") {
			t.Errorf("the query has %q", name)
		}
	}
	for name := range r.Header {
		if name != "X-H" && name != "Authorization" && name != "Accept" && name != "User-Agent" &&
			name != "Accept-Encoding" {
			t.Errorf("the header %s was sent", name)
		}
	}
	if r.Header.Get("Authorization") != "Bearer operator" {
		t.Errorf("Authorization is %q", r.Header.Get("Authorization"))
	}
}

// FuzzLoad shows that no document breaks the loader, and that what it offers the
// catalogue can judge.
func FuzzLoad(f *testing.F) {
	for _, name := range []string{
		"issues", "references", "names", "comparisons", "patterns", "large",
		"forms", "reserved", "get-body",
	} {
		f.Add(document(f, name+".yaml"))
	}
	f.Add(operation("/x/{a}",
		`"parameters":[{"name":"a","in":"path","required":true,"schema":{"$ref":"#/components/schemas/A"}}]`))
	f.Add([]byte(recursive))
	a := newAPI(f)
	f.Fuzz(func(t *testing.T, document []byte) {
		if len(document) > 64<<10 {
			t.Skip()
		}
		loaded, err := openapi.Load(a.config(document, "*"))
		if err != nil {
			return
		}
		registry.New().Replace(registry.Source{Name: "tracker", Tools: loaded.Offers})
		if len(a.asked) > 0 {
			t.Errorf("something was asked for: %s", a.asked[0].URL)
		}
	})
}

// recursive is a document of 3.1 with schemas that refer to each other.
const recursive = `{"openapi":"3.1.0","info":{"title":"x","version":"1"},"paths":{"/t":{"post":{"operationId":"op",
	"requestBody":{"required":true,"content":{"application/json":{"schema":{"$ref":"#/components/schemas/Tree","description":"beside"}}}},
	"responses":{"200":{"description":""}}}}},
	"components":{"schemas":{
		"Tree":{"type":["object","null"],"required":["leaf"],"properties":{"leaf":{"const":1},"kids":{"type":"array","items":{"$ref":"#/components/schemas/Tree"}},
			"first":{"$ref":"#/components/schemas/Tree/properties/leaf"},"n":{"type":"number","exclusiveMinimum":0}}}}}}`

func TestSchemasOf31(t *testing.T) {
	a := newAPI(t)
	tools, refused := load(t, a.config([]byte(recursive), "op"))
	if len(refused) > 0 {
		t.Fatal(refused[0].Err)
	}
	if !strings.Contains(string(tools["op"].Raw), `"description":"beside"`) {
		t.Errorf("what stands beside a reference is lost: %s", tools["op"].Raw)
	}
	for arguments, valid := range map[string]bool{
		`{"body":null}`: true, `{"body":{"leaf":1,"kids":[{"leaf":1}],"first":1,"n":0.5}}`: true, `{}`: false,
		`{"body":{"leaf":2}}`:                     false,
		`{"body":{"leaf":1,"kids":[{"leaf":2}]}}`: false, `{"body":{"leaf":1,"n":0}}`: false,
		`{"body":{"leaf":1,"first":2}}`: false,
		`{"body":null,"other":1}`:       false,
	} {
		if err := tools["op"].ValidateWithin(mcp.RawJSON(arguments), nil); (err == nil) != valid {
			t.Errorf("%s: got error %v, want none: %v", arguments, err, valid)
		}
	}
}

func TestSchemasOf30(t *testing.T) {
	tools, _ := load(t, newAPI(t).config(issues(t), "issues/create", "issues/list-for-repo"))
	create := func(body string) string { return `{"owner":"a","repo":"b","body":` + body + `}` }
	for arguments, valid := range map[string]bool{
		create(`{"title":"x","body":null,"kind":null,"author":null}`): true,
		create(`{"title":"x","kind":"bug","token":"t"}`):              true,
		create(`{"title":"x","parent":{"title":"y"}}`):                true,
		create(`{"title":"x","parent":{}}`):                           false,
		create(`{}`):                                                  false,
		create(`{"title":null}`):                                      false,
		create(`{"title":"x","kind":"other"}`):                        false,
		create(`{"title":"x","author":1}`):                            false,
	} {
		if err := tools["issues_create"].ValidateWithin(mcp.RawJSON(arguments), nil); (err == nil) != valid {
			t.Errorf("%s: got error %v, want none: %v", arguments, err, valid)
		}
	}
	for perPage, valid := range map[string]bool{"1": true, "0": false, "100": true, "101": false} {
		err := tools["issues_list-for-repo"].ValidateWithin(mcp.RawJSON(`{"owner":"a","repo":"b","per_page":`+
			perPage+`}`), nil)
		if (err == nil) != valid {
			t.Errorf("per_page %s: got error %v, want none: %v", perPage, err, valid)
		}
	}
}
