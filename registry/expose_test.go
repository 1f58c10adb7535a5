package registry_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

func parse(t testing.TB, text string) mcp.Object {
	t.Helper()
	o, err := mcp.ParseObject([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return o
}

// resultOf returns what a tool of a server becomes that answers with a result or an
// error.
func resultOf(t testing.TB, prefix string, result mcp.Object, failure error) (mcp.Object, error) {
	t.Helper()
	s := library("box", prefix, []string{"file:///a", "https://listed.example/", "data:,listed"},
		[]string{"https://api.example/{id}"})
	tool := source("box", prefix, "x").Tools[0]
	tool.Call = func(context.Context, *registry.Call) (mcp.Object, error) { return result, failure }
	s.Tools = []registry.Offer{tool}
	r := registry.New()
	mustReplace(t, r, s)
	return r.Catalogue().View([]string{"box"}).Tools[0].Call(t.Context(), &registry.Call{})
}

func TestTrap12_URIsInResultsAreMapped(t *testing.T) {
	for _, test := range []struct{ name, result string }{ // @ is where the form belongs
		{"link", `{"content":[{"type":"resource_link","uri":"@file:///a","name":"n"}]}`},
		{"link that is in no list", `{"content":[{"type":"resource_link","uri":"@mem://x","name":"n"}]}`},
		{"escaped link", `{"content":[{"\u0074ype":"resource_link","\u0075ri":"@file:///a","name":"n"}]}`},
		{"link to the web", `{"content":[{"type":"resource_link","uri":"https://web.example/x","name":"n"},{"type":"resource_link","uri":"HTTP://web.example/x","name":"n"}]}`},
		{
			"link to a listed page",
			`{"content":[{"type":"resource_link","uri":"@https://listed.example/","name":"n"}]}`,
		},
		{
			"link to a page of a template",
			`{"content":[{"type":"resource_link","uri":"@https://api.example/7","name":"n"}]}`,
		},
		{"link that runs", `{"content":[{"type":"resource_link","uri":"javascript:x","name":"n"},{"type":"resource_link","uri":"data:text/html,x","name":"n"}]}`},
		{"link to listed data", `{"content":[{"type":"resource_link","uri":"@data:,listed","name":"n"}]}`},
		{
			"link of another server's form",
			`{"content":[{"type":"resource_link","uri":"@mcp.other+file:///a","name":"n"}]}`,
		},
		{"no absolute URI", `{"content":[{"type":"resource_link","uri":"a/b","name":"n"},{"type":"resource_link","uri":7}]}`},
		{"embedded", `{"content":[{"type":"text","text":"x"},{"type":"resource","resource":{"uri":"@https://web.example/x","text":"\"uri\""},"annotations":{"x":1}}]}`},
		{"contents", `{"contents":[{"uri":"@file:///a","text":"x"},{"uri":"@https://web.example/x","blob":"AAAA"}]}`},
		{"message", `{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"@file:///a","text":"x"}}},{"role":"user","content":[{"type":"resource_link","uri":"@file:///a"}]}]}`},
		{"question", `{"resultType":"input_required","inputRequests":{"q":{"method":"sampling/createMessage","params":{"maxTokens":1,"messages":[{"role":"user","content":{"type":"tool_result","toolUseId":"1","content":[{"type":"resource_link","uri":"@file:///a"}]}}]}},"e":{"method":"elicitation/create","params":{"mode":"url","url":"https://x.example/","uri":"file:///a"}}}}`},
		{"structured content", `{"structuredContent":{"uri":"file:///a","content":[{"type":"resource_link","uri":"file:///a"}]},"content":[]}`},
		{"text", `{"content":[{"type":"text","text":"uri","uri":"file:///a"}]}`},
		{"oddly shaped", `{"content":{"type":"resource","resource":"uri"},"contents":7,"messages":[1,"uri",null,{"content":3}],"inputRequests":["\u0075"]}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			own := parse(t, strings.ReplaceAll(test.result, "@", ""))
			want := strings.ReplaceAll(test.result, "@", "mcp.box+")
			got, err := resultOf(t, "box", own, nil)
			if err != nil || plainly(string(got.JSON())) != plainly(want) {
				t.Errorf("got  %s, %v\nwant %s", got.JSON(), err, want)
			}
			same, err := resultOf(t, "", own, nil)
			if err != nil || string(same.JSON()) != string(own.JSON()) {
				t.Errorf("without prefix: got %s, %v", same.JSON(), err)
			}
		})
	}
}

// TestViewsInResultsAreMapped holds wherever a result can name or hold the view of an
// app, so that a host reads it by the URI that it knows from the list.
func TestViewsInResultsAreMapped(t *testing.T) {
	for name, result := range map[string]string{ // @ is where the name of the server belongs
		"a result":               `{"content":[],"_meta":{"ui":{"resourceUri":"ui://@chart/v","x":1},"ui/resourceUri":"ui://@chart/v"}}`,
		"a link":                 `{"content":[{"type":"resource_link","uri":"ui://@chart/v","name":"n","_meta":{"ui":{"resourceUri":"ui://@chart/w"}}}]}`,
		"an embedded view":       `{"content":[{"type":"resource","resource":{"uri":"ui://@chart/v","mimeType":"text/html;profile=mcp-app","text":"ui://chart/v","_meta":{"ui":{"csp":{"connectDomains":["https://a.example"]}}}}}]}`,
		"contents":               `{"contents":[{"uri":"ui://@chart/v","mimeType":"text/html;profile=mcp-app","blob":"AAAA"}]}`,
		"the result of a task":   `{"taskId":"1","status":"completed","result":{"content":[{"type":"resource","resource":{"uri":"ui://@chart/v","text":"x"}}],"_meta":{"ui/resourceUri":"ui://@chart/v"}}}`,
		"a file of a skill":      `{"content":[{"type":"resource_link","uri":"skill://@a/b/SKILL.md","name":"n"}]}`,
		"a view of no such kind": `{"content":[],"_meta":{"ui":{"resourceUri":"https://web.example/v"}}}`,
	} {
		own := parse(t, strings.ReplaceAll(result, "@", ""))
		got, err := resultOf(t, "box", own, nil)
		if want := strings.ReplaceAll(result, "@", "box/"); err != nil || string(got.JSON()) != want {
			t.Errorf("%s: got %s, %v; want %s", name, got.JSON(), err, want)
		}
	}
}

// plainly writes the escapes of these tests as what they stand for.
func plainly(text string) string {
	return strings.NewReplacer(`\u0074`, "t", `\u0075`, "u").Replace(text)
}

func TestTrap12_URIsInErrorsAreMapped(t *testing.T) {
	told := &mcp.Error{
		Code: mcp.CodeResourceNotFound, Message: "none",
		Data: mcp.RawJSON(`{"uri":"file:///a"}`),
	}
	_, err := resultOf(t, "box", mcp.Object{}, told)
	if got, ok := errors.AsType[*mcp.Error](err); !ok || string(got.Data) != `{"uri":"mcp.box+file:///a"}` ||
		got.Message != "none" || string(told.Data) != `{"uri":"file:///a"}` {
		t.Errorf("got %v, first %s", err, told.Data)
	}
	if _, err = resultOf(t, "", mcp.Object{}, told); !errors.Is(err, told) {
		t.Errorf("without prefix: got %v", err)
	}
	for _, other := range []error{
		&mcp.Error{Code: 1}, &mcp.Error{Code: 1, Data: mcp.RawJSON(`["uri"]`)},
		errors.New("x"),
	} {
		if _, err = resultOf(t, "box", mcp.Object{}, other); !errors.Is(err, other) {
			t.Errorf("got %v, want %v itself", err, other)
		}
	}
}

func TestTrap05_WhatNobodyKnowsPassesUnchanged(t *testing.T) {
	for _, result := range []string{
		`{"content":[ {"type":"hologram", "uri":"file:///a", "x":1.0} ,{"type":"audio","data":"AAAA","mimeType":"audio/wav"},{"text":"\u0061"}]}`,
		`{"future":{"uri":"file:///a"},"content":[{"type":"text","text":"\"uri\""}],"_meta":{"uri":"file:///a"}}`,
		`{"completion":{"values":["file:///a"],"total":1},"uri":"file:///a"}`,
		`{"contents":[{"text":"no URI","x":{"uri":"file:///a"}}]}`,
	} {
		own := parse(t, result)
		got, err := resultOf(t, "box", own, nil)
		if err != nil || string(got.JSON()) != string(own.JSON()) {
			t.Errorf("got  %s, %v\nwant %s", got.JSON(), err, result)
		}
	}
	got, _ := resultOf(t, "box",
		parse(
			t, `{"content":[{"type":"hologram", "x":[1.0,  2]},{"z":1e0,"type":"resource_link","uri":"m:a","new":{"a" : 1}}]}`), nil)
	const want = `{"content":[{"type":"hologram", "x":[1.0,  2]},{"z":1e0,"type":"resource_link","uri":"mcp.box+m:a","new":{"a" : 1}}]}`
	if string(got.JSON()) != want {
		t.Errorf("got  %s\nwant %s", got.JSON(), want)
	}
}

func BenchmarkExposedResult(b *testing.B) {
	text := strings.Repeat("some text of a tool that reads files, ", 100)
	for _, test := range []struct{ name, prefix, result string }{
		{"no prefix", "", `{"content":[{"type":"text","text":"` + text + `"}]}`},
		{"text", "box", `{"content":[{"type":"text","text":"` + text + `"}]}`},
		{"escapes", "box", `{"content":[{"type":"text","text":"\u00e9` + text + `"}]}`},
		{"link", "box", `{"content":[{"type":"text","text":"` + text +
			`"},{"type":"resource_link","uri":"file:///a","name":"a"}]}`},
	} {
		b.Run(test.name, func(b *testing.B) {
			result := parse(b, test.result)
			s := source("box", test.prefix, "x")
			s.Tools[0].Call = func(context.Context, *registry.Call) (mcp.Object, error) { return result, nil }
			r := registry.New()
			r.Replace(s)
			tool := r.Catalogue().View([]string{"box"}).Tools[0]
			call := &registry.Call{}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := tool.Call(b.Context(), call); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func FuzzExposedResult(f *testing.F) {
	for _, seed := range []string{
		`{"content":[{"type":"resource_link","uri":"a:b"}]}`,
		`{"messages":[{"content":{"type":"resource","resource":{"uri":"a:b"}}}]}`,
		`{"inputRequests":{"q":{"params":{"messages":[{"content":[{"type":"tool_result","content":[]}]}]}}},"contents":[{"uri":"\u0061:b"}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		own, err := mcp.ParseObject(data)
		if err != nil {
			return
		}
		got, err := resultOf(t, "box", own, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := mcp.ParseObject(got.JSON()); err != nil {
			t.Fatalf("%s became %s: %v", data, got.JSON(), err)
		}
		if same, _ := resultOf(t, "", own, nil); string(same.JSON()) != string(own.JSON()) {
			t.Errorf("%s became %s without a prefix", data, same.JSON())
		}
	})
}

func TestCompletionOfAServerThatCompletesNothing(t *testing.T) {
	s := registry.Source{
		Name: "s", Prefix: "s", Prompts: []mcp.Object{described("name", "p")},
		Use: answer("s"),
	}
	r := registry.New()
	for completes, want := range map[bool]string{false: `{"completion":{"values":[]}}`, true: `{"by":"s"}`} {
		s.Completes = completes
		mustReplace(t, r, s)
		prompt, err := r.Catalogue().View([]string{"s"}).Prompt("s__p")
		if err != nil {
			t.Fatal(err)
		}
		c := &registry.Call{Method: mcp.MethodComplete}
		if result, err := prompt.Call(t.Context(), c); err != nil || string(result.JSON()) != want {
			t.Errorf("completes %v: got %s, %v, want %s", completes, result.JSON(), err, want)
		}
		if result, err := prompt.Call(t.Context(),
			&registry.Call{Method: mcp.MethodPromptsGet}); err != nil || result.Text("by") != "s" {
			t.Errorf("got %s, %v", result.JSON(), err)
		}
	}
	before, _ := r.Catalogue().View([]string{"s"}).Prompt("s__p")
	s.Use = nil
	mustReplace(t, r, s)
	var gone *registry.UnavailableError
	if _, err := before.Call(t.Context(), &registry.Call{Method: mcp.MethodPromptsGet}); !errors.As(err,
		&gone) {
		t.Errorf("got %v, want an UnavailableError", err)
	}
	if got := fmt.Sprint(r.Catalogue().View([]string{"s"}).Prompts); got != "[]" {
		t.Errorf("got %s without Use", got)
	}
}

// TestManyQuestionsCostNoMoreThanTheirLength holds for questions of which each has a URI
// that is mapped.
func TestManyQuestionsCostNoMoreThanTheirLength(t *testing.T) {
	var questions []mcp.Member
	for i := range 5_000 {
		questions = append(questions, mcp.Member{Name: strconv.Itoa(i), Value: mcp.RawJSON(
			`{"params":{"messages":[{"content":{"type":"resource_link","uri":"file:///a"}}]}}`)})
	}
	all := mcp.NewObject(questions...)
	result := mcp.NewObject(mcp.Member{Name: "inputRequests", Value: all.JSON()})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got, err := resultOf(t, "box", result, nil)
	runtime.ReadMemStats(&after)
	if n := strings.Count(string(got.JSON()), "mcp.box+file:///a"); err != nil || n != all.Len() {
		t.Fatalf("got %d URIs, %v", n, err)
	}
	if spent := after.TotalAlloc - before.TotalAlloc; spent > 200<<20 {
		t.Errorf("mapping %d bytes took %d bytes of memory, want a few times their size", result.Size(), spent)
	}
}
