package main

import (
	"errors"
	"flag"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sources"
)

func open(t *testing.T) *world {
	t.Helper()
	w := newWorld()
	t.Cleanup(w.close)
	return w
}

// quietly tells nobody.
func quietly(string, ...any) {}

// TestNoInputHurts is the short form of what the program does with a million inputs.
func TestNoInputHurts(t *testing.T) {
	const tried = 10_000
	got := open(t).tryInputs(tried, 7, quietly)
	if n := got.all; n < tried-shards || len(got.tried) < 9 {
		t.Errorf("%d inputs of %v, want %d of all classes", n, slices.Sorted(maps.Keys(got.tried)), tried)
	}
	for _, example := range got.examples {
		t.Error(example)
	}
}

// TestNobodyUsesWhatIsAnothers is the short form of what the program does a hundred
// thousand times.
func TestNobodyUsesWhatIsAnothers(t *testing.T) {
	got := open(t).cross(1, []string{mcp.Revision2511, mcp.Revision2607}, quietly)
	if n := got.all; n < 10_000 || len(got.kinds) < 8 {
		t.Errorf("%d attempts with %v, want 10,000 with all kinds", n, got.kinds)
	}
	for _, example := range append(got.examples, got.vain...) {
		t.Error(example)
	}
}

// TestJudgeSeesWhatIsWrong gives the judge an answer of each kind that must not be.
func TestJudgeSeesWhatIsWrong(t *testing.T) {
	const result, failure = `{"jsonrpc":"2.0","id":1,"result":{}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}`
	for _, test := range []struct {
		name   string
		input  wanted
		status int
		body   string
		want   verdict
	}{
		{"served", serve, 200, result, fine},
		{"refused", refuse, 200, failure, fine},
		{
			"refused as an error for the model", refuse, 200,
			`{"jsonrpc":"2.0","id":1,"result":{"isError":true}}`, fine,
		},
		{"no token", deny, 401, failure, fine},
		{"good but refused", serve, 200, failure, wronglyRefused},
		{"good but refused on the stream of its session", serve, 202, failure, wronglyRefused},
		{"bad but served", refuse, 200, result, wronglyServed},
		{"bad but served in a batch", refuse, 200, "[" + failure + "," + result + "]", wronglyServed},
		{"no token, but served", deny, 200, result, wronglyServed},
		{"no token, but taken", deny, 202, "", wronglyServed},
		{"fault of ours", refuse, 500, failure, ownFault},
		{"another's id", behave, 200, strings.Replace(result, "1", "2", 1), malformed},
		{"no message", behave, 200, `{}`, malformed},
		{
			"result and error", behave, 200,
			`{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"x"}}`, malformed,
		},
		{"error without a code", behave, 200, `{"jsonrpc":"2.0","id":1,"error":{"message":"x"}}`, malformed},
		{"two members of one name", behave, 200, `{"jsonrpc":"2.0","id":1,"id":1,"result":{}}`, malformed},
	} {
		header := http.Header{"Content-Type": {"application/json"}}
		if got := judge(&input{want: test.input, id: "1"}, &answer{
			status: test.status, header: header,
			body: test.body,
		}); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
		header = http.Header{"Content-Type": {"text/event-stream"}}
		if test.body == "" {
			continue
		}
		if got := judge(&input{want: test.input, id: "1"}, &answer{
			status: test.status, header: header,
			body: "id: p1-1\ndata: " + test.body + "\n\n",
		}); got != test.want {
			t.Errorf("%s in a stream: got %q, want %q", test.name, got, test.want)
		}
	}
	if got := judge(&input{}, &answer{panics: "x"}); got != crashed {
		t.Errorf("a panic: got %q, want %q", got, crashed)
	}
	if got := judge(&input{}, &answer{hung: true}); got != lost {
		t.Errorf("no answer: got %q, want %q", got, lost)
	}
}

// TestWhatGoesWrongInsideIsAddedOnce adds it whenever it was, after other inputs too.
func TestWhatGoesWrongInsideIsAddedOnce(t *testing.T) {
	w := open(t)
	got := w.tryInputs(shards, 1, quietly)
	w.denied.Add(2)
	w.addFaults(got)
	w.addFaults(got)
	if n := got.wrong[wronglyServed]; n != 2 {
		t.Errorf("2 uses of what is denied are added as %d", n)
	}
}

// TestForeignAnswersAreSeen shows that what was said to another person is found in an
// answer, and nothing else.
func TestForeignAnswersAreSeen(t *testing.T) {
	all := people
	for i, p := range all {
		for j, other := range all {
			if got := holdsForeign("text "+other.marker()+" text", p); got != (i != j) {
				t.Errorf("what was said to %v, in the hands of %v: got %v", other, p, got)
			}
		}
	}
}

// TestSecretIsReadInEverySpelling shows that each URI of what is denied is one for a
// careless server, so that a use of it would be counted.
func TestSecretIsReadInEverySpelling(t *testing.T) {
	for _, uri := range []string{
		"file:///secret", "file:///secret/x", "file:///%73ecret/x",
		"file:///open/../secret/x", "file:////secret", "FILE://localhost/secret?x", "file:secret",
		"file:///%2573ecret",
	} {
		if !isSecret(uri) {
			t.Errorf("%s is not seen", uri)
		}
	}
	for _, uri := range []string{"file:///open/a", "file:///secrets", "file:///x/secret"} {
		if isSecret(uri) {
			t.Errorf("%s is taken for the secret", uri)
		}
	}
}

// TestEachAdvisoryHasATest reads docs/evidence/advisories.md as the program does.
func TestEachAdvisoryHasATest(t *testing.T) {
	root, err := sources.Root()
	if err != nil {
		t.Fatal(err)
	}
	tested, without := advisories(root)
	if len(tested) < 50 || len(without) == 0 {
		t.Errorf("%d advisories with a test and %d without, want more", len(tested), len(without))
	}
	for _, one := range without {
		if !strings.Contains(one.tests, "none: ") {
			t.Errorf("%s names no test, and not why: %s", one.id, one.tests)
		}
	}
	gone, err := must.Got(func() []string { return missing(root, append(tested, advisory{"x", "`TestOfNobody`"})) })
	if err != nil || len(gone) != 1 || gone[0] != "TestOfNobody" {
		t.Errorf("got %v, %v, want that one test alone is missing", gone, err)
	}
}

// TestEachPatternAndPackageOfAGroupHasATest: a test that has another name now would leave
// its group, which could hold without it.
func TestEachPatternAndPackageOfAGroupHasATest(t *testing.T) {
	root, err := sources.Root()
	if err != nil {
		t.Fatal(err)
	}
	all := declared(root)
	has := func(folder, pattern string) bool {
		names := regexp.MustCompile(pattern)
		return slices.ContainsFunc(all, func(o target) bool { return o.folder == folder && names.MatchString(o.name) })
	}
	for _, g := range groups {
		for pattern := range strings.SplitSeq(g.run, "|") {
			if !slices.ContainsFunc(g.packages, func(folder string) bool { return has(folder, pattern) }) {
				t.Errorf("%s: no test of %v is called %s", g.figure, g.packages, pattern)
			}
		}
		for _, folder := range g.packages {
			if !has(folder, g.run) {
				t.Errorf("%s: %s has no test of it", g.figure, folder)
			}
		}
	}
}

// TestReportIsReadFromTests counts a made-up run of tests.
func TestReportIsReadFromTests(t *testing.T) {
	const out = `{"Action":"run","Test":"TestA"}
{"Action":"attr","Test":"TestA","Key":"cells","Value":"41"}
{"Action":"attr","Test":"TestA/sub","Key":"cells","Value":"1"}
{"Action":"attr","Test":"TestA","Key":"others","Value":"9"}
{"Action":"pass","Test":"TestA"}
{"Action":"fail","Test":"TestB"}
{"Action":"skip","Test":"TestC"}
{"Action":"pass","Package":"x"}
`
	got := group{what: "cells"}.read([]byte(out))
	if want := (ran{passed: 1, failed: 1, skipped: 1, tried: 42, faults: "TestB "}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestHelpIsNoFailure asks for the flags. That ended in an error.
func TestHelpIsNoFailure(t *testing.T) {
	if err := run(t.Context(), []string{"-h"}, t.Output()); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("got %v", err)
	}
}

// TestARefusalIsTheSameOnAStream compares refusals that differ in their form alone, which
// time decides, and such that differ in what they say.
func TestARefusalIsTheSameOnAStream(t *testing.T) {
	plain := &answer{
		status: 200, header: http.Header{"Content-Type": {"application/json"}},
		body: `{"jsonrpc":"2.0","id":"r","error":{"code":-32602,"message":"no"}}`,
	}
	streamed := func(body string) *answer {
		return &answer{
			status: 200, body: "id: p1-0\nretry: 1000\ndata: \n\nid: p1-1\ndata: " + body + "\n\n",
			header: http.Header{
				"Content-Type": {"text/event-stream"}, "Cache-Control": {"no-store"},
				"X-Accel-Buffering": {"no"},
			},
		}
	}
	want := nameless(plain, "secret")
	if got := nameless(streamed(plain.body), "secret"); got != want {
		t.Errorf("on a stream it is %s, want %s", got, want)
	}
	for _, body := range []string{
		strings.Replace(plain.body, "no", "yes", 1), plain.body + "\n\ndata: " + plain.body,
		`{"jsonrpc":"2.0","method":"notifications/progress"}`,
	} {
		if got := nameless(streamed(body), "secret"); got == want {
			t.Errorf("a stream with %s is the same as a refusal", body)
		}
	}
}
