package openapi_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/dial"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/openapi"
)

// api is an HTTP API that keeps what it was asked last and answers what it is told to.
type api struct {
	*httptest.Server
	mu     sync.Mutex // guards the fields below
	asked  []*http.Request
	bodies []string
	answer http.HandlerFunc
}

func newAPI(t testing.TB) *api {
	a := &api{answer: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		a.mu.Lock()
		a.asked, a.bodies = append(a.asked, r), append(a.bodies, string(body))
		answer := a.answer
		a.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(a.Close)
	return a
}

func (a *api) answers(with http.HandlerFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer = with
}

// last returns what was asked last, and forgets all that was asked.
func (a *api) last(t testing.TB) (*http.Request, string) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.asked) != 1 {
		t.Fatalf("the API was asked %d times, want once", len(a.asked))
	}
	r, body := a.asked[0], a.bodies[0]
	a.asked, a.bodies = nil, nil
	return r, body
}

func (a *api) config(document []byte, include ...string) openapi.Config {
	return openapi.Config{
		Name: "tracker", Document: document, BaseURL: a.URL + "/v3/", Include: include,
		Client: dial.Client(dial.Config{PrivateAddresses: true}).Transport,
	}
}

func issues(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/issues.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// load returns the tools that the catalogue makes of a document, by their own names, and
// what was refused.
func load(t testing.TB, cfg openapi.Config) (map[string]*registry.Tool, []registry.Refusal) {
	t.Helper()
	loaded, err := openapi.Load(cfg)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	catalogue := registry.New()
	refused := slices.Concat(loaded.Refusals,
		catalogue.Replace(registry.Source{Name: cfg.Name, Tools: loaded.Offers}))
	tools := map[string]*registry.Tool{}
	for _, tool := range catalogue.Catalogue().View([]string{cfg.Name}).Tools {
		tools[tool.Name] = tool
	}
	return tools, refused
}

// use validates arguments as the desk does, and calls the tool.
func use(ctx context.Context, tool *registry.Tool, arguments string) (mcp.Object, error) {
	raw, err := mcp.ParseRaw([]byte(arguments))
	if err != nil {
		return mcp.Object{}, err
	}
	if err := tool.ValidateWithin(raw, nil); err != nil {
		return mcp.Object{}, err
	}
	return tool.Call(ctx, &registry.Call{
		Method: mcp.MethodToolsCall, Params: mcp.NewObject(mcp.Member{Name: "arguments", Value: raw}),
		Notify: func(context.Context, mcp.Notification) error { return nil },
	})
}

func mustUse(t testing.TB, tool *registry.Tool, arguments string) mcp.Object {
	t.Helper()
	if tool == nil {
		t.Fatal("there is no such tool")
	}
	result, err := use(t.Context(), tool, arguments)
	if err != nil {
		t.Fatalf("call with %s: %v", arguments, err)
	}
	return result
}

// said returns the one text of a result, and whether it is an error.
func said(t testing.TB, result mcp.Object) (string, bool) {
	t.Helper()
	blocks, _ := result.Value("content").Elements()
	if len(blocks) != 1 {
		t.Fatalf("got %d blocks, want 1: %s", len(blocks), result.JSON())
	}
	block, _ := mcp.ObjectOf(blocks[0])
	return block.Text("text"), string(result.Value("isError")) == "true"
}

func TestOperationsAreChosen(t *testing.T) {
	a := newAPI(t)
	for _, test := range []struct {
		include []string
		want    []string
	}{
		{nil, []string{"issues_get", "issues_list-for-repo"}},
		{[]string{"issues/create"}, []string{"issues_create"}},
		{[]string{"issues/*"}, []string{
			"issues_create", "issues_get", "issues_list-for-repo",
			"issues_update",
		}},
		{[]string{"DELETE /repos/*"}, []string{"delete_repos_owner_repo_issues_number"}},
		{[]string{"* /repos/{owner}/{repo}/issues"}, []string{"issues_create", "issues_list-for-repo"}},
		{[]string{"*/create", "issues/get"}, []string{"comments_create", "issues_create", "issues_get"}},
		{[]string{"*"}, []string{
			"comments_create", "delete_repos_owner_repo_issues_number", "issues_create",
			"issues_get", "issues_list-for-repo", "issues_update",
		}},
	} {
		tools, _ := load(t, a.config(issues(t), test.include...))
		var got []string
		for name := range tools {
			got = append(got, name)
		}
		if slices.Sort(got); !slices.Equal(got, test.want) {
			t.Errorf("include %q: got %q, want %q", test.include, got, test.want)
		}
	}
	_, err := openapi.Load(a.config(issues(t), "issues/get", "issues/gte"))
	if unmatched, ok := errors.AsType[*openapi.IncludeError](err); !ok || unmatched.Pattern != "issues/gte" {
		t.Errorf("a pattern that matches nothing: got error %v", err)
	}
}

// TestAnOperationIDWithSpacesIsIncluded, by the name under which the operator knows it.
func TestAnOperationIDWithSpacesIsIncluded(t *testing.T) {
	cfg := newAPI(t).config([]byte(`{"openapi":"3.0.3","info":{"title":"x","version":"1"},"paths":{
		"/a":{"post":{"operationId":"Create a user","responses":{}}},
		"/b":{"post":{"operationId":"Delete a user","responses":{}}}}}`))
	for pattern, want := range map[string]int{
		"Create a user": 1, "* a user": 2, "POST /a": 1, "post /*": 2, "Create *": 1,
	} {
		cfg.Include = []string{pattern}
		if tools, refused := load(t, cfg); len(tools) != want || len(refused) > 0 {
			t.Errorf("%q: got %d tools and refusals %v, want %d tools", pattern, len(tools), refused, want)
		}
	}
}

// TestTheBaseIsAskedAsItIsWritten, also where it has characters that net/url would
// encode: each call failed, as if its arguments led elsewhere.
func TestTheBaseIsAskedAsItIsWritten(t *testing.T) {
	a := newAPI(t)
	cfg := a.config(operation("/items/{id}",
		`"parameters":[{"name":"id","in":"path","required":true,"schema":{}}]`))
	cfg.BaseURL = a.URL + "/_api/lists('Docs')/v1,2!*"
	tools, _ := load(t, cfg)
	mustUse(t, tools["op"], `{"id":"a b"}`)
	if r, _ := a.last(t); r.RequestURI != "/_api/lists('Docs')/v1,2!*/items/a%20b" {
		t.Errorf("got %s", r.RequestURI)
	}
}

func TestRefusedOperationsCostNoOther(t *testing.T) {
	_, refused := load(t, newAPI(t).config(issues(t), "*"))
	got := map[string]string{}
	for _, r := range refused {
		got[r.Item] = r.Err.Error()
	}
	for item, want := range map[string]string{
		"issues/attach": "neither JSON nor a form",
		"session/get":   "cookie",
	} {
		if !strings.Contains(got[item], want) {
			t.Errorf("%s: got %q, want %q", item, got[item], want)
		}
	}
	if len(got) != 2 {
		t.Errorf("got %v, want two refusals", got)
	}
}

func TestDefinitions(t *testing.T) {
	tools, _ := load(t, newAPI(t).config(issues(t), "*"))
	for name, want := range map[string][]string{
		"issues_create": {
			`"$ref":"#/$defs/Issue"`, `"required":["owner","repo","body"]`,
			`"anyOf":[{"allOf":[{"$ref":"#/$defs/User"}]},{"type":"null"}]`,
			`"enum":["bug","wish",null]`, `"type":["string","null"]`, `"required":["title"]`,
			`"destructiveHint"`, `"description":"The account"`,
		},
		"issues_list-for-repo": {
			`"exclusiveMinimum":0`, `"description":"List the issues of a repository\n\nOpen ones`,
			`"readOnlyHint":true`, `"X-Request-Id"`,
			`"additionalProperties":false`,
		},
		"issues_update": {
			`"destructiveHint":true`,
			`"milestone":{"type":["integer","null"]}`, `"required":["owner","repo","number"]`,
		},
		"delete_repos_owner_repo_issues_number": {`"idempotentHint":true`, `"destructiveHint":true`},
	} {
		text := string(tools[name].Raw)
		for _, part := range want {
			if part == `"destructiveHint"` {
				if strings.Contains(text, part) {
					t.Errorf("%s: %s is said of a POST", name, part)
				}
				continue
			}
			if !strings.Contains(text, part) {
				t.Errorf("%s: %s is not in %s", name, part, text)
			}
		}
		for _, part := range []string{
			"x-mcp-header", `"Accept"`, `"number":{"type":"integer"}`, "nullable",
			"readOnly\":", `"example"`, "somewhere.else", "outputSchema",
		} {
			if strings.Contains(text, part) {
				t.Errorf("%s: %s is in %s", name, part, text)
			}
		}
	}
}

func TestOutputSchemas(t *testing.T) {
	a := newAPI(t)
	cfg := a.config(issues(t), "issues/*")
	cfg.OutputSchemas = true
	tools, _ := load(t, cfg)
	for name, want := range map[string]bool{
		"issues_get": true, "issues_create": true,
		"issues_list-for-repo": false, "issues_update": false,
	} {
		if got := tools[name].HasOutput(); got != want {
			t.Errorf("%s: has an output schema: %v, want %v", name, got, want)
		}
	}
	get := tools["issues_get"]
	for text, valid := range map[string]bool{
		`{"number":1,"title":"x","body":null,"author":null,"parent":{"number":2,"title":"y"}}`: true,
		`{"title":"x"}`: false, `{"number":1,"title":""}`: false,
	} {
		if err := get.ValidateOutputWithin(mcp.RawJSON(text), nil); (err == nil) != valid {
			t.Errorf("%s: got error %v, want none: %v", text, err, valid)
		}
	}
}

func TestRequests(t *testing.T) {
	a := newAPI(t)
	cfg := a.config(issues(t), "*")
	cfg.Headers = map[string]string{"Authorization": "Bearer s3cret-value"}
	tools, _ := load(t, cfg)
	for _, test := range []struct {
		tool, arguments         string
		method, target, content string
		body                    string
	}{
		{"issues_get", `{"owner":"a","repo":"b","number":7}`, "GET", "/v3/repos/a/b/issues/7", "", ""},
		{
			"issues_list-for-repo", `{"owner":"a b","repo":"ü x","state":"all","labels":["bug","a,b"],"assignee":["me","you&x=y"],"since":"2026-01-01T00:00:00+01:00"}`,
			"GET", "/v3/repos/a%20b/%C3%BC%20x/issues?state=all&labels=bug,a%2Cb&assignee=me&assignee=you%26x%3Dy&since=2026-01-01T00%3A00%3A00%2B01%3A00", "", "",
		},
		{
			"issues_create", `{"owner":"a","repo":"b","body":{"title":"T","big":12345678901234567890}}`,
			"POST", "/v3/repos/a/b/issues", "application/json", `{"title":"T","big":12345678901234567890}`,
		},
		{
			"issues_update", `{"owner":"a","repo":"b","number":1,"body":{"milestone":null}}`, "PATCH",
			"/v3/repos/a/b/issues/1", "application/merge-patch+json", `{"milestone":null}`,
		},
		{"issues_update", `{"owner":"a","repo":"b","number":1}`, "PATCH", "/v3/repos/a/b/issues/1", "", ""},
		{
			"comments_create", `{"body":{"text":"a&b=c","mention":["x","y"]}}`, "POST", "/v3/comments",
			"application/x-www-form-urlencoded", "text=a%26b%3Dc&mention=x&mention=y",
		},
		{
			"delete_repos_owner_repo_issues_number", `{"owner":"a","repo":"b","number":1}`, "DELETE",
			"/v3/repos/a/b/issues/1", "", "",
		},
	} {
		if text, failed := said(t, mustUse(t, tools[test.tool], test.arguments)); failed ||
			text != "Done: the API answered 204 No Content." {
			t.Errorf("%s: got %q", test.tool, text)
		}
		r, body := a.last(t)
		if r.Method != test.method || r.RequestURI != test.target || body != test.body ||
			r.Header.Get("Content-Type") != test.content {
			t.Errorf("%s: got %s %s %q %q, want %s %s %q %q", test.tool, r.Method, r.RequestURI,
				r.Header.Get("Content-Type"), body,
				test.method, test.target, test.content, test.body)
		}
		if got := r.Header.Get("Authorization"); got != "Bearer s3cret-value" {
			t.Errorf("%s: Authorization is %q", test.tool, got)
		}
	}
}

// TestCompressedAnswers has an API compress what it answers, though nobody has asked for
// it. What gzip compressed is read, within the same bounds and without credentials.
func TestCompressedAnswers(t *testing.T) {
	a := newAPI(t)
	cfg := a.config(operation("/x", `"parameters":[]`))
	cfg.Headers = map[string]string{"Authorization": "Bearer 0123456789abcdef"}
	tools, _ := load(t, cfg)
	for _, test := range []struct {
		coding, plain string
		status        int
		want          string
	}{
		{"gzip", `{"a":1}`, http.StatusOK, `{"a":1}`},
		{"GZIP", `{"a":"0123456789abcdef"}`, http.StatusOK, `{"a":"[redacted]"}`},
		{"x-gzip", `no 0123456789abcdef`, http.StatusBadRequest, "The API answered 400 Bad Request: no [redacted]"},
		{"gzip", strings.Repeat(" ", 17<<20), http.StatusOK, "The API answered 200 OK with more than 16 MiB, which is too much to pass on."},
		{"identity", `{"a":1}`, http.StatusOK, `{"a":1}`},
		{"none", `{"a":1}`, http.StatusOK, `{"a":1}`},
		{"UTF-8", `{"a":1}`, http.StatusOK, `{"a":1}`},
		{"br", "\x8b\x00", http.StatusOK, "The API answered 200 OK with content compressed by br, which cannot be passed on."},
		{"br", "\x8b\x00", http.StatusBadRequest, "The API answered 400 Bad Request."},
	} {
		a.answers(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Encoding", test.coding)
			w.WriteHeader(test.status)
			if !strings.Contains(strings.ToLower(test.coding), "gzip") {
				_, _ = io.WriteString(w, test.plain)
				return
			}
			zip := gzip.NewWriter(w)
			_, _ = io.WriteString(zip, test.plain)
			_ = zip.Close()
		})
		if got, _ := said(t, mustUse(t, tools["op"], `{}`)); got != test.want {
			t.Errorf("%s %.20q: got %.200q, want %q", test.coding, test.plain, got, test.want)
		}
	}
	a.answers(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(http.StatusNoContent)
	})
	if got, _ := said(t, mustUse(t, tools["op"], `{}`)); got != "Done: the API answered 204 No Content." {
		t.Errorf("without a body: got %q", got)
	}
}

func TestAnswers(t *testing.T) {
	a := newAPI(t)
	cfg := a.config(issues(t), "issues/get")
	cfg.Headers = map[string]string{
		"Authorization": "Bearer s3cret/value", "X-Passphrase": "open sesame", "X-Version": "2022-11-28",
	}
	tools, _ := load(t, cfg)
	for name, test := range map[string]struct {
		status                 int
		contentType, body      string
		want, structured, fail string
	}{
		"object": {
			200, "application/json; charset=utf-8", "{\n \"a\": 12345678901234567890 }",
			`{"a":12345678901234567890}`, `{"a":12345678901234567890}`, "",
		},
		"list":           {200, "application/vnd.x+json", `[1, 2]`, `[1,2]`, `[1,2]`, ""},
		"a text as JSON": {201, "application/json", `"x"`, `"x"`, `"x"`, ""},
		"null":           {200, "application/json", `null`, `null`, ``, ""},
		"text":           {200, "text/plain", "plain", "plain", "", ""},
		"XML":            {200, "application/xml", "<a/>", "<a/>", "", ""},
		"nothing":        {202, "", "", "Done: the API answered 202 Accepted.", "", ""},
		"a line":         {200, "application/json", "\n", "Done: the API answered 200 OK.", "", ""},
		"broken type":    {200, "application/json; charset", `[1]`, `[1]`, `[1]`, ""},
		"bytes": {
			200, "image/png", "\x89PNG", "", "",
			"200 OK with image/png, which cannot be passed on",
		},
		"no type":         {200, "", "\x00\x01", "", "", "which cannot be passed on"},
		"no UTF-8":        {200, "text/plain", "\xff\xfe", "", "", "not UTF-8"},
		"byte order mark": {200, "application/json", "\uFEFF{\"a\":1}", `{"a":1}`, `{"a":1}`, ""},
		"broken JSON":     {200, "application/json", `{"a":`, "", "", "JSON cannot be read"},
		"twice":           {200, "application/json", `{"a":1,"a":2}`, "", "", "JSON cannot be read"},
		"echo": {
			200, "application/json",
			`{"sent":"Bearer s3cret\/value","version":"2022-11-28"}`,
			`{"sent":"[redacted]","version":"2022-11-28"}`, `{"sent":"[redacted]","version":"2022-11-28"}`,
			"",
		},
		"too much": {200, "text/plain", strings.Repeat("x", 16<<20+1), "", "", "more than 16 MiB"},
		"just enough": {
			200, "text/plain", strings.Repeat("x", 16<<20), strings.Repeat("x", 16<<20), "",
			"",
		},
		"not found": {
			404, "application/json", `{"message":"Not Found"}`, "", "",
			`The API answered 404 Not Found: {"message":"Not Found"}`,
		},
		"not allowed": {
			401, "text/plain", "bad token s3cret/value", "", "",
			"401 Unauthorized: bad token [redacted]",
		},
		"not known": {
			401, "text/plain", "who says open sesame?", "", "",
			"401 Unauthorized: who says [redacted]?",
		},
		"an error's bytes": {
			500, "application/octet-stream", "\x00", "", "",
			"The API answered 500 Internal Server Error.",
		},
		"a long error": {422, "text/plain", strings.Repeat("é", 2000), "", "", strings.Repeat("é", 1000) +
			"…"},
		"not modified": {304, "", "", "", "", "The API answered 304 Not Modified."},
		"moved": {
			302, "text/plain", "x", "", "",
			"leads to another address. It was not followed.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			a.answers(func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Content-Type"] = nil
				if test.contentType != "" {
					w.Header().Set("Content-Type", test.contentType)
				}
				if test.status == http.StatusFound {
					w.Header().Set("Location", a.URL+"/elsewhere")
				}
				w.WriteHeader(test.status)
				io.WriteString(w, test.body)
			})
			result := mustUse(t, tools["issues_get"], `{"owner":"a","repo":"b","number":7}`)
			a.last(t) // and once only
			text, failed := said(t, result)
			if failed != (test.fail != "") || !failed && text != test.want ||
				!strings.Contains(text, test.fail) || len(text) > 17<<20 {
				t.Errorf("got %.300q, error %v, want %.100q", text, failed, test.want+test.fail)
			}
			if got := string(result.Value("structuredContent")); got != test.structured {
				t.Errorf("structured content is %q, want %q", got, test.structured)
			}
		})
	}
}

func TestUnavailable(t *testing.T) {
	a := newAPI(t)
	cfg := a.config(issues(t), "issues/get")
	cfg.Headers = map[string]string{"Authorization": "Bearer s3cret-value"}
	tools, _ := load(t, cfg)
	const arguments = `{"owner":"private-owner","repo":"b","number":7}`
	check := func(sent bool) {
		t.Helper()
		_, err := use(t.Context(), tools["issues_get"], arguments)
		unavailable, ok := errors.AsType[*registry.UnavailableError](err)
		if !ok || unavailable.Sent != sent || unavailable.Server != "tracker" {
			t.Fatalf("got error %v, want unavailable, sent %v", err, sent)
		}
		if strings.Contains(err.Error(), "private-owner") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the error tells too much: %v", err)
		}
	}
	a.answers(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	check(true)
	a.answers(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		io.WriteString(w, "x")
	})
	check(true)
	a.Close()
	check(false)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := use(ctx, tools["issues_get"], arguments); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want the context's", err)
	}
}

func TestPrivateAddressesAreGuarded(t *testing.T) {
	a := newAPI(t)
	cfg := a.config(issues(t), "issues/get")
	cfg.Client = dial.Client(dial.Config{}).Transport
	tools, _ := load(t, cfg)
	if _, err := use(t.Context(), tools["issues_get"], `{"owner":"a","repo":"b","number":7}`); !errors.Is(err,
		dial.ErrProhibited) {
		t.Errorf("got error %v, want %v", err, dial.ErrProhibited)
	}
}

func TestUnusableConfigs(t *testing.T) {
	a := newAPI(t)
	good := a.config(issues(t))
	for name, test := range map[string]struct {
		change func(*openapi.Config)
		want   string
	}{
		"no scheme": {
			func(c *openapi.Config) { c.BaseURL = "api.example.com" },
			"http:// or https://",
		},
		"another scheme": {func(c *openapi.Config) { c.BaseURL = "file:///etc/" }, "http:// or https://"},
		"credentials": {
			func(c *openapi.Config) { c.BaseURL = "https://a:secret@x.example" },
			"no user",
		},
		"a query": {
			func(c *openapi.Config) { c.BaseURL = "https://x.example?a=b" },
			"no user, query",
		},
		"dots": {
			func(c *openapi.Config) { c.BaseURL = "https://x.example/a/../b" },
			"dot segments",
		},
		"encoded": {func(c *openapi.Config) { c.BaseURL = "https://x.example/a%2fb" }, "encoded"},
		"Swagger 2.0": {func(c *openapi.Config) {
			c.Document = []byte(`{"swagger":"2.0","info":{"title":"x","version":"1"},"paths":{}}`)
		}, "3.0"},
		"no document": {func(c *openapi.Config) { c.Document = []byte("\x00") }, "document"},
		"too deep":    {func(c *openapi.Config) { c.Document = nested(9000) }, "more than 200 levels deep"},
		"deep YAML": {func(c *openapi.Config) {
			c.Document = append([]byte("x-a:"+strings.Repeat(" [", 20_000)+"\n"), c.Document...)
		}, "depth"},
		"doubling YAML": {
			func(c *openapi.Config) { c.Document = append(doubling(), c.Document...) },
			"excessive aliasing",
		},
		"too large": {
			func(c *openapi.Config) { c.Document = make([]byte, 16<<20+1) },
			"more than 16 MiB",
		},
	} {
		cfg := good
		test.change(&cfg)
		if _, err := openapi.Load(cfg); err == nil || !strings.Contains(err.Error(), test.want) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got error %v, want %q", name, err, test.want)
		}
	}
	if len(a.asked) > 0 {
		t.Errorf("the server was asked for %s", a.asked[0].URL)
	}
}

// nested is a document whose one schema is that deep.
func nested(depth int) []byte {
	return withParameter(`{"name":"x","in":"query","schema":` + strings.Repeat(`{"not":`, depth) + "{}" +
		strings.Repeat("}", depth) + "}")
}

// doubling is YAML whose size grows tenfold with every line when its aliases are
// expanded.
func doubling() []byte {
	text := "x-0: &a0 [x, x]\n"
	for i := range 12 {
		text += fmt.Sprintf("x-%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), i)
	}
	return []byte(text)
}

// References out of the document are not followed without Files, and cost the operation
// that has them.
func TestReferencesToFilesAreNotFollowed(t *testing.T) {
	a := newAPI(t)
	for ref, want := range map[string]string{
		"other.yaml#/x": "bundle the document first", "/etc/passwd": "out of the document's folder",
		"file:///etc/passwd": "leads to an address", a.URL + "/schema.json": "leads to an address",
	} {
		tools, refused := load(t, a.config(external(ref)))
		if len(tools) > 0 || len(refused) != 1 || !strings.Contains(refused[0].Err.Error(), want) {
			t.Errorf("%s: got %d tools and %v, want one refusal: %s", ref, len(tools), refused, want)
		}
	}
	if len(a.asked) > 0 {
		t.Errorf("the server was asked for %s", a.asked[0].URL)
	}
}

func external(ref string) []byte {
	return withParameter(fmt.Sprintf(`{"name":"x","in":"query","schema":{"$ref":%q}}`, ref))
}

// withParameter is a document with one operation, called op, that has the parameter.
func withParameter(parameters string) []byte {
	return operation("/x", `"parameters":[`+parameters+`]`)
}

func operation(path, members string) []byte {
	return fmt.Appendf(
		nil, `{"openapi":"3.1.0","info":{"title":"x","version":"1"},"paths":{%q:{"get":{"operationId":"op",%s,"responses":{"200":{"description":""}}}}}}`, path, members)
}

func TestOffersHaveTheirTime(t *testing.T) {
	cfg := newAPI(t).config(issues(t), "issues/get")
	for configured, want := range map[time.Duration]time.Duration{
		0:           30 * time.Second,
		time.Second: time.Second,
	} {
		cfg.Timeout = configured
		if loaded, err := openapi.Load(cfg); err != nil || loaded.Offers[0].Timeout != want {
			t.Errorf("got %v, error %v, want %v", loaded, err, want)
		}
	}
}

// A schema of a depth that people write, with brackets and quotation marks in its texts,
// is no deep document.
func TestDepthIsThatOfTheStructure(t *testing.T) {
	description := mcp.String(strings.Repeat(`{["\`, 300))
	document := withParameter(`{"name":"x","in":"query","description":` + string(description) +
		`,"schema":{"not":{"not":{"type":"string"}}}}`)
	if tools, refused := load(t, newAPI(t).config(document)); tools["op"] == nil {
		t.Errorf("got %v, want a tool", refused)
	}
}
