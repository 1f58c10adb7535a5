package openapi_test

import (
	"net/url"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// A form may have an encoding, and an object in it.
func TestFormsAreWrittenAsTheirEncodingSays(t *testing.T) {
	a := newAPI(t)
	cfg := a.config(document(t, "forms.yaml"), "*")
	tools, refused := load(t, cfg)
	for body, want := range map[string]string{
		`{"amount":5,"note":"a b"}`:              "amount=5&note=a%20b",
		`{"address":{"city":"Delft & more"}}`:    "address=%7B%22city%22%3A%22Delft%20%26%20more%22%7D",
		`{"lines":[{"a":1},{"b":[2]}]}`:          "lines=%7B%22a%22%3A1%7D&lines=%7B%22b%22%3A%5B2%5D%7D",
		`{"metadata":{"order":"7&x=y","b":"c"}}`: "metadata%5Border%5D=7%26x%3Dy&metadata%5Bb%5D=c",
		`{"items":[{"price":"p","taxes":["t","u"]},{"price":"q"}]}`: "items%5B0%5D%5Bprice%5D=p&items%5B0%5D%5Btaxes%5D%5B0%5D=t" +
			"&items%5B0%5D%5Btaxes%5D%5B1%5D=u&items%5B1%5D%5Bprice%5D=q",
		`{"expand":["a","b"]}`:         "expand%5B0%5D=a&expand%5B1%5D=b",
		`{"tags":["a,b","c"]}`:         "tags=a%2Cb,c",
		`{"sizes":[1,2]}`:              "sizes=1%7C2",
		`{"range":{"from":1,"to":2}}`:  "range=from,1,to,2",
		`{"lists":[1,2]}`:              "lists=%5B1%2C2%5D",
		`{"links":[1,2]}`:              "links=%5B1%2C2%5D",
		`{"link":"http://x/?a=b&c#d"}`: "link=http://x/?a%3Db%26c%23d",
		`{"metadata":{"a[b":"c"}}`:     "",
	} {
		result, err := use(t.Context(), tools["charge"], `{"body":`+body+`}`)
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if text, failed := said(t, result); failed != (want == "") {
			t.Errorf("%s: got %q, want %q", body, text, want)
		}
		if want == "" {
			continue
		}
		if r, got := a.last(t); got != want ||
			r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
			t.Errorf("%s: got %s, want %s", body, got, want)
		}
	}
	for _, body := range []string{`{"spread":{"amount":1}}`, `{"picture":{}}`} {
		if _, err := use(t.Context(), tools["charge"], `{"body":`+body+`}`); err == nil {
			t.Errorf("%s: want it refused, since it is not offered", body)
		}
	}
	want := []string{
		`operation "charge": the input "body.picture" is left out: it is or has an object that would have to be written as "image/svg+xml"`,
		`operation "charge": the input "body.spread" is left out: it is an object whose properties would become fields of their own`,
	}
	if got := notes(t, cfg); !slices.Equal(got, want) {
		t.Errorf("got notes %q, want %q", got, want)
	}
	if len(refused) != 1 || refused[0].Item != "spread" || !strings.Contains(refused[0].Err.Error(),
		`the property "spread" of its body cannot be left out`) {
		t.Errorf("got refusals %v", refused)
	}
}

// allowReserved had no effect on a parameter of the query.
func TestReservedCharactersStayWhereTheyMayAndChangeNothingElse(t *testing.T) {
	a := newAPI(t)
	tools, _ := load(t, a.config(document(t, "reserved.yaml")))
	for arguments, want := range map[string]string{
		`{"url":"https://a.example/b?c=d&admin=1#e"}`: "url=https://a.example/b?c%3Dd%26admin%3D1%23e",
		`{"url":":/?#[]@!$&'()*+,;=% %26\"é"}`:        "url=:/?%23%5B%5D@!$%26'()*%2B,%3B%3D%25%20%2526%22%C3%A9",
		`{"list":["a,b","c/d&e"]}`:                    "list=a%2Cb,c/d%26e",
		`{"each":["a,b","c=d"]}`:                      "each=a,b&each=c%3Dd",
		`{"deep":{"k&x=y":"v/w"}}`:                    "deep%5Bk%26x%3Dy%5D=v/w",
		`{"plain":"a/b"}`:                             "plain=a%2Fb",
	} {
		mustUse(t, tools["go"], arguments)
		r, _ := a.last(t)
		if r.RequestURI != "/v3/go?"+want {
			t.Errorf("%s: got %s, want %s", arguments, r.RequestURI, want)
		}
		if values, err := url.ParseQuery(r.URL.RawQuery); err != nil || len(values) != 1 {
			t.Errorf("%s: arrived as %v, error %v, want one name", arguments, values, err)
		}
	}
}

// Some documents give every GET a body, mostly an empty one, and none of these became a
// tool.
func TestABodyWithGETThatMayBeMissingIsLeftOut(t *testing.T) {
	a := newAPI(t)
	cfg := a.config(document(t, "get-body.yaml"))
	tools, refused := load(t, cfg)
	for _, name := range []string{"empty", "optional"} {
		mustUse(t, tools[name], `{}`)
		if r, body := a.last(t); r.RequestURI != "/v3/"+name || body != "" ||
			r.Header.Get("Content-Type") != "" {
			t.Errorf("got %s with %q", r.RequestURI, body)
		}
	}
	if len(refused) != 1 || refused[0].Item != "required" ||
		refused[0].Err.Error() != "it requires a body with GET" {
		t.Errorf("got refusals %v", refused)
	}
	if got, want := notes(t, cfg),
		[]string{`operation "optional": its body is left out: GET has none`}; !slices.Equal(got, want) {
		t.Errorf("got notes %q, want %q", got, want)
	}
}

// TestABodyOfAnyTypeIsJSON: documents that were converted, and that of Kubernetes, say
// */* of bodies. What is named by itself comes first.
func TestABodyOfAnyTypeIsJSON(t *testing.T) {
	a := newAPI(t)
	for types, want := range map[string]string{
		`"*/*":{"schema":{"type":"object"}}`: "application/json",
		`"application/*":{}`:                 "application/json",
		`"*/*":{},"text/plain":{}`:           "application/json",
		`"*/*":{},"application/x-www-form-urlencoded":{"schema":{"type":"object"}}`: "application/x-www-form-urlencoded",
		`"*/*":{},"application/merge-patch+json":{}`:                                "application/merge-patch+json",
		`"image/*":{}`: "",
	} {
		cfg := a.config([]byte(`{"openapi":"3.0.3","info":{"title":"x","version":"1"},"paths":{"/a":{"post":{"operationId":"op",`+
			`"requestBody":{"content":{`+types+`}},"responses":{}}}}}`), "*")
		tools, refused := load(t, cfg)
		if len(refused) > 0 != (want == "") {
			t.Errorf("%s: left out: %v, want the type %q", types, refused, want)
		}
		if want == "" || tools["op"] == nil {
			continue
		}
		mustUse(t, tools["op"], `{"body":{"a":1}}`)
		if r, _ := a.last(t); r.Header.Get("Content-Type") != want {
			t.Errorf("%s: sent as %q, want %q", types, r.Header.Get("Content-Type"), want)
		}
	}
}

// TestNamesOfArgumentsAreNotRepeatedWithoutEnd sends what would become gigabytes: a long
// name before each element of a list, or before what stands within an object.
func TestNamesOfArgumentsAreNotRepeatedWithoutEnd(t *testing.T) {
	a := newAPI(t)
	form := []byte(`{"openapi":"3.1.0","info":{"title":"x","version":"1"},"paths":{"/p":{"post":{"operationId":"op",
		"requestBody":{"content":{"application/x-www-form-urlencoded":{"schema":{"type":"object"},
			"encoding":{"deep":{"style":"deepObject"}}}}},"responses":{}}}}}`)
	query := withParameter(
		`{"name":"deep","in":"query","style":"deepObject","explode":true,"schema":{"type":"object"}}`)
	name := strings.Repeat("n", 64<<10)
	ones := "[" + strings.Repeat("1,", 10_000) + "1]"
	nulls := "[" + strings.Repeat("null,", 10_000) + "null]"
	for _, test := range []struct {
		document  []byte
		arguments string
	}{
		{form, `{"body":{"` + name + `":` + ones + `}}`},
		{form, `{"body":{"deep":{"` + name + `":` + ones + `}}}`},
		{form, `{"body":{"deep":{"` + name + `":` + nulls + `}}}`},
		{query, `{"deep":{"` + name + `":` + ones + `}}`},
		{query, `{"deep":{"` + name[:4000] + `":` + ones + `}}`},
	} {
		tools, _ := load(t, a.config(test.document, "op"))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		text, failed := said(t, mustUse(t, tools["op"], test.arguments))
		runtime.ReadMemStats(&after)
		if !failed || !strings.Contains(text, "names") {
			t.Errorf("%.30q…: got %.100s, error %v", test.arguments, text, failed)
		}
		if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 100 {
			t.Errorf("%.30q…: it took %d MiB", test.arguments, took)
		}
	}
}
