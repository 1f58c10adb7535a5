package openapi_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"
)

// TestAParameterThatIsAnObjectByItsPartsIsLeftOut as any other object is whose properties
// would become parameters: it was offered, and each call with it was refused.
func TestAParameterThatIsAnObjectByItsPartsIsLeftOut(t *testing.T) {
	a := newAPI(t)
	cfg := a.config([]byte(`{"openapi":"3.0.3","info":{"title":"x","version":"1"},
		"paths":{"/a":{"get":{"operationId":"op","parameters":[
			{"name":"filter","in":"query","schema":{"allOf":[{"$ref":"#/components/schemas/Named"}]}},
			{"name":"circle","in":"query","schema":{"$ref":"#/components/schemas/Circle"}},
			{"name":"short","in":"query","schema":{"allOf":[{"type":"string"},{"maxLength":3}]}}],
			"responses":{}}}},
		"components":{"schemas":{
			"Base":{"properties":{"id":{"type":"string"}}},
			"Named":{"allOf":[{"description":"named"},{"$ref":"#/components/schemas/Base"}]},
			"Circle":{"allOf":[{"$ref":"#/components/schemas/Round"},{"$ref":"#/components/schemas/Round"}]},
			"Round":{"allOf":[{"$ref":"#/components/schemas/Circle"},{"$ref":"#/components/schemas/Circle"}]}}}}`))
	want := []string{`operation "op": query parameter "filter" is left out: it is an object whose ` +
		`properties would become parameters of their own`}
	if got := notes(t, cfg); !slices.Equal(got, want) {
		t.Errorf("got notes %q, want %q", got, want)
	}
	cfg.Document = []byte(strings.Replace(string(cfg.Document), `{"$ref":"#/components/schemas/Circle"}},`,
		`{"type":"string"}},`, 1)) // the catalogue takes no schema that refers to itself alone
	tools, refused := load(t, cfg)
	if len(refused) > 0 {
		t.Fatal(refused[0].Err)
	}
	mustUse(t, tools["op"], `{"short":"abc"}`)
	if r, _ := a.last(t); r.RequestURI != "/v3/a?short=abc" {
		t.Errorf("got %s", r.RequestURI)
	}
	if _, err := use(t.Context(), tools["op"], `{"filter":{"id":"1"}}`); err == nil {
		t.Error("the object is still offered")
	}
}

// TestAParameterThatListsObjectsIsLeftOut where no style says how to write them, and
// stays where one does. It was offered, and each call with it was refused.
func TestAParameterThatListsObjectsIsLeftOut(t *testing.T) {
	a := newAPI(t)
	const list = `"schema":{"type":"array","items":{"type":"object","properties":{"id":{"type":"string"}}}}}`
	cfg := a.config([]byte(`{"openapi":"3.0.3","info":{"title":"x","version":"1"},
		"paths":{"/a":{"get":{"operationId":"op","parameters":[
			{"name":"plain","in":"query",` + list + `,
			{"name":"deep","in":"query","style":"deepObject","explode":true,` + list + `,
			{"name":"X-List","in":"header",` + list + `],"responses":{}}},
			"/b":{"get":{"operationId":"needs","parameters":[
			{"name":"plain","in":"query","required":true,` + list + `],"responses":{}}}}}`))
	want := []string{
		`operation "op": query parameter "plain" is left out: it is a list of objects, for which there is no style`,
		`operation "op": header parameter "X-List" is left out: it is a list of objects, for which there is no style`,
	}
	if got := notes(t, cfg); !slices.Equal(got, want) {
		t.Errorf("got notes %q, want %q", got, want)
	}
	tools, refused := load(t, cfg)
	if len(refused) != 1 || !strings.Contains(refused[0].Err.Error(), `"plain" is required, but it is a list of objects`) {
		t.Errorf("got refusals %v, want that of the operation that needs such a list", refused)
	}
	mustUse(t, tools["op"], `{"deep":[{"id":"1"}]}`)
	if r, _ := a.last(t); r.RequestURI != "/v3/a?deep%5B0%5D%5Bid%5D=1" {
		t.Errorf("got %s", r.RequestURI)
	}
}

// TestAParameterThatListsListsIsLeftOut as one that lists objects is: it was offered, and
// each call with it was refused.
func TestAParameterThatListsListsIsLeftOut(t *testing.T) {
	a := newAPI(t)
	const list = `"schema":{"type":"array","items":{"$ref":"#/components/schemas/Range"}}}`
	cfg := a.config([]byte(`{"openapi":"3.0.3","info":{"title":"x","version":"1"},
		"paths":{"/a":{"get":{"operationId":"op","parameters":[
			{"name":"plain","in":"query",` + list + `,
			{"name":"deep","in":"query","style":"deepObject","explode":true,` + list + `],"responses":{}}}},
		"components":{"schemas":{"Range":{"type":"array","items":{"type":"integer"}}}}}`))
	want := []string{
		`operation "op": query parameter "plain" is left out: it is a list of lists, for which there is no style`,
	}
	if got := notes(t, cfg); !slices.Equal(got, want) {
		t.Errorf("got notes %q, want %q", got, want)
	}
	tools, _ := load(t, cfg)
	mustUse(t, tools["op"], `{"deep":[[1,2]]}`)
	if r, _ := a.last(t); r.RequestURI != "/v3/a?deep%5B0%5D%5B0%5D=1&deep%5B0%5D%5B1%5D=2" {
		t.Errorf("got %s", r.RequestURI)
	}
}

// TestAnObjectOfJSONHasItsNameWhateverTheStyle: beside a content, a style means nothing.
func TestAnObjectOfJSONHasItsNameWhateverTheStyle(t *testing.T) {
	a := newAPI(t)
	tools, _ := load(t, a.config([]byte(`{"openapi":"3.0.3","info":{"title":"x","version":"1"},
		"paths":{"/a":{"get":{"operationId":"op","parameters":[{"name":"deep","in":"query","style":"deepObject",
			"content":{"application/json":{"schema":{"type":"object"}}}}],"responses":{}}}}}`)))
	mustUse(t, tools["op"], `{"deep":{"id":1}}`)
	if r, _ := a.last(t); r.RequestURI != "/v3/a?deep=%7B%22id%22%3A1%7D" {
		t.Errorf("got %s", r.RequestURI)
	}
}

// TestServersOfAnOperationAreNoted since its requests go where all go, and the API may
// not have the operation there.
func TestServersOfAnOperationAreNoted(t *testing.T) {
	a := newAPI(t)
	cfg := a.config([]byte(`{"openapi":"3.0.3","info":{"title":"x","version":"1"},
		"servers":[{"url":"https://api.test"}],
		"paths":{
			"/a":{"get":{"operationId":"upload","servers":[{"url":"https://uploads.test"}],"responses":{}}},
			"/b":{"servers":[{"url":"https://other.test"}],"get":{"operationId":"other","responses":{}}},
			"/c":{"get":{"operationId":"same","servers":[{"url":"https://api.test"}],"responses":{}}},
			"/d":{"get":{"operationId":"plain","responses":{}}},
			"/e":{"get":{"operationId":"none","servers":[],"responses":{}}}}}`))
	const text = ": the servers that the document names for it alone are not asked: its requests go where all go"
	want := []string{`operation "upload"` + text, `operation "other"` + text}
	if got := notes(t, cfg); !slices.Equal(got, want) {
		t.Errorf("got notes %q, want %q", got, want)
	}
}

// TestIntegersHaveNoPoint in an address or a form, where the document says that they are
// some. A client that has all numbers as floats writes 7.0, which is an integer to the
// schema and was none to most APIs. A number stays as it is written.
func TestIntegersHaveNoPoint(t *testing.T) {
	a := newAPI(t)
	tools, _ := load(t, a.config([]byte(`{"openapi":"3.1.0","info":{"title":"x","version":"1"},"paths":{
		"/p/{id}":{"post":{"operationId":"op","parameters":[
			{"name":"id","in":"path","required":true,"schema":{"type":"integer"}},
			{"name":"page","in":"query","schema":{"type":["integer","null"]}},
			{"name":"ids","in":"query","schema":{"type":"array","items":{"type":"integer"}}},
			{"name":"limit","in":"query","schema":{"anyOf":[{"type":"integer","minimum":1},{"type":"null"}]}},
			{"name":"either","in":"query","schema":{"oneOf":[{"type":"string"},{"$ref":"#/components/schemas/Whole"}]}},
			{"name":"some","in":"query","schema":{"anyOf":[{"type":"array","items":{"type":"integer"}},{"type":"null"}]}},
			{"name":"version","in":"query","schema":{"type":"number"}}],
		"requestBody":{"content":{"application/x-www-form-urlencoded":{
			"schema":{"properties":{"amount":{"type":"integer"},"rate":{"type":"number"},
				"sizes":{"type":"array","items":{"type":"integer"}}}},
			"encoding":{"sizes":{"style":"pipeDelimited"}}}}},
		"responses":{}}}},
		"components":{"schemas":{"Whole":{"allOf":[{"type":"integer"}]}}}}`), "op"))
	mustUse(t, tools["op"], `{"id":7.0,"page":20.0,"ids":[1.0,30],"limit":5.0,"either":6.0,"some":[8.0],"version":1.0,
		"body":{"amount":2000.0,"rate":1.0,"sizes":[1.0,2.0],"other":3.0}}`)
	r, body := a.last(t)
	if want := "/v3/p/7?page=20&ids=1&ids=30&limit=5&either=6&some=8&version=1.0"; r.RequestURI != want {
		t.Errorf("got %s, want %s", r.RequestURI, want)
	}
	if want := "amount=2000&rate=1.0&sizes=1%7C2&other=3.0"; body != want {
		t.Errorf("got %s, want %s", body, want)
	}
}

// TestIntegersInJSONHaveNoPoint either, in bodies and in parameters. All else of a body
// stays as it is written.
func TestIntegersInJSONHaveNoPoint(t *testing.T) {
	a := newAPI(t)
	tools, _ := load(t, a.config([]byte(`{"openapi":"3.0.3","info":{"title":"x","version":"1"},"paths":{
		"/p":{"post":{"operationId":"op","parameters":[
			{"name":"filter","in":"query","content":{"application/json":{"schema":{
				"type":"object","properties":{"from":{"type":"integer"}}}}}}],
		"requestBody":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/Order"}}}},
		"responses":{}}}},
		"components":{"schemas":{
			"Order":{"allOf":[{"$ref":"#/components/schemas/Base"},{"properties":{
				"lines":{"type":"array","items":{"$ref":"#/components/schemas/Line"}},
				"stock":{"type":"object","additionalProperties":{"type":"integer"}}}}]},
			"Base":{"type":"object","properties":{"id":{"type":"integer","nullable":true},"rate":{"type":"number"}}},
			"Line":{"type":"object","properties":{"count":{"type":"integer"},"note":{"type":"string"},
				"parts":{"type":"array","items":{"$ref":"#/components/schemas/Line"}}}}}}}`), "op"))
	mustUse(t, tools["op"], `{"filter":{"from":1.0,"to":2.0},"body":{"id":3.0,"rate":4.0,
		"lines":[{"count":5.0,"note":"6.0","parts":[{"count":-7.0}, {"count":8}]},{"count":9.0}],
		"stock":{"a.b":10.0},"other":{"count":11.0}}}`)
	r, body := a.last(t)
	if got, _ := url.QueryUnescape(r.URL.RawQuery); got != `filter={"from":1,"to":2.0}` {
		t.Errorf("got the query %s", got)
	}
	want := `{"id":3,"rate":4.0,"lines":[{"count":5,"note":"6.0","parts":[{"count":-7},{"count":8}]},{"count":9}],` +
		`"stock":{"a.b":10},"other":{"count":11.0}}`
	if got := strings.NewReplacer("\n", "", "\t", "", " ", "").Replace(body); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestManyIntegersHaveNoPoint: the schema is looked at once for each place in the values,
// and not for each value, or a bound would be met.
func TestManyIntegersHaveNoPoint(t *testing.T) {
	a := newAPI(t)
	var named []string
	for _, letter := range "abcdefghijklmnopqrstuvwxyz" {
		named = append(named, `"`+strings.Repeat(string(letter), 1000)+`":{"type":"integer"}`)
	}
	tools, _ := load(t, a.config([]byte(`{"openapi":"3.1.0","info":{"title":"x","version":"1"},"paths":{
		"/p":{"post":{"operationId":"op","requestBody":{"content":{"application/json":{"schema":{
			"type":"array","items":{"properties":{"n":{"type":"integer"},`+strings.Join(named, ",")+`}}}}}},
		"responses":{}}}}}`), "op"))
	mustUse(t, tools["op"], `{"body":[`+strings.Repeat(`{"n":1.0},`, 2000)+`{"n":2.0}]}`)
	if _, body := a.last(t); strings.Contains(body, ".") || strings.Count(body, `{"n":1}`) != 2000 {
		t.Errorf("got %.100s …", body)
	}
}

// TestIntegersWithinObjectsHaveNoPoint either, however deep they stand in what is written
// as an address or a form.
func TestIntegersWithinObjectsHaveNoPoint(t *testing.T) {
	a := newAPI(t)
	tools, _ := load(t, a.config([]byte(`{"openapi":"3.1.0","info":{"title":"x","version":"1"},"paths":{
		"/p":{"post":{"operationId":"op","parameters":[
			{"name":"X-Page","in":"header","schema":{"type":"object","properties":{"size":{"type":"integer"}}}},
			{"name":"tree","in":"query","style":"deepObject","schema":{"$ref":"#/components/schemas/Tree"}}],
		"requestBody":{"content":{"application/x-www-form-urlencoded":{
			"schema":{"properties":{"items":{"type":"array","items":{"properties":{
				"quantity":{"type":"integer"},"weight":{"type":"number"}}}}}},
			"encoding":{"items":{"style":"deepObject"}}}}},
		"responses":{}}}},
		"components":{"schemas":{"Tree":{"type":"object","properties":{
			"size":{"anyOf":[{"type":"integer"},{"type":"null"}]},"height":{"type":"number"},
			"trees":{"type":"array","items":{"$ref":"#/components/schemas/Tree"}}}}}}}`), "op"))
	mustUse(t, tools["op"], `{"X-Page":{"size":20.0,"other":1.0},
		"tree":{"size":1.0,"height":2.0,"trees":[{"size":3.0,"trees":[{"size":4.0,"height":5.0}]}]},
		"body":{"items":[{"quantity":6.0,"weight":7.0}]}}`)
	r, body := a.last(t)
	want := "tree[size]=1&tree[height]=2.0&tree[trees][0][size]=3&tree[trees][0][trees][0][size]=4&" +
		"tree[trees][0][trees][0][height]=5.0"
	if got, _ := url.QueryUnescape(r.URL.RawQuery); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := r.Header.Get("X-Page"); got != "size,20,other,1.0" {
		t.Errorf("got the header %s", got)
	}
	if got, _ := url.QueryUnescape(body); got != "items[0][quantity]=6&items[0][weight]=7.0" {
		t.Errorf("got the form %s", got)
	}
}
