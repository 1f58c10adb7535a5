package mcp_test

import (
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

func capabilities(t testing.TB, text string) mcp.Object {
	t.Helper()
	o, err := mcp.ParseObject([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return o
}

func TestCapabilitiesInOneForm(t *testing.T) {
	const all = `{"sampling":{"tools":{},"context":{"x":1}},"roots":{"listChanged":true},"elicitation":{"url":{},"form":{}},"tasks":{},"experimental":{"x":{}}}`
	for _, test := range []struct{ name, revision, declared, want string }{
		{"nothing", mcp.Revision2607, `{}`, `{}`},
		{
			"all", mcp.Revision2607, all,
			`{"elicitation":{"form":{},"url":{}},"roots":{},"sampling":{"context":{},"tools":{}}}`,
		},
		{
			"all of 2025-11-25", mcp.Revision2511, all,
			`{"elicitation":{"form":{},"url":{}},"roots":{},"sampling":{"context":{},"tools":{}}}`,
		},
		{
			"before modes of elicitation", mcp.Revision2506, all,
			`{"elicitation":{"form":{}},"roots":{},"sampling":{}}`,
		},
		{"before elicitation", mcp.Revision2503, all, `{"roots":{},"sampling":{}}`},
		{"the oldest", mcp.Revision2024, all, `{"roots":{},"sampling":{}}`},
		{"elicitation without modes", mcp.Revision2607, `{"elicitation":{}}`, `{"elicitation":{"form":{}}}`},
		{"elicitation of 2025-06-18", mcp.Revision2506, `{"elicitation":{}}`, `{"elicitation":{"form":{}}}`},
		{
			"a mode before there were modes", mcp.Revision2506, `{"elicitation":{"url":{}}}`,
			`{"elicitation":{"form":{}}}`,
		},
		{"url only", mcp.Revision2511, `{"elicitation":{"url":{}}}`, `{"elicitation":{"url":{}}}`},
		{"unknown mode", mcp.Revision2607, `{"elicitation":{"voice":{}}}`, `{"elicitation":{"form":{}}}`},
		{"sampling alone", mcp.Revision2607, `{"sampling":{}}`, `{"sampling":{}}`},
		{"no objects", mcp.Revision2607, `{"elicitation":true,"sampling":null,"roots":[]}`, `{}`},
		{
			"members that are no objects", mcp.Revision2607,
			`{"elicitation":{"form":true,"url":false},"sampling":{"tools":true}}`,
			`{"elicitation":{"form":{}},"sampling":{}}`,
		},
		{"other names", mcp.Revision2607, `{"Elicitation":{},"SAMPLING":{}}`, `{}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := string(mcp.CapabilitiesOf(test.revision,
				capabilities(t, test.declared)).JSON()); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestWhoCanBeAskedWhat(t *testing.T) {
	for _, test := range []struct {
		capabilities, method, params string
		want                         bool
	}{
		{`{"elicitation":{"form":{}}}`, mcp.MethodElicit, `{"message":"x"}`, true},
		{`{"elicitation":{"form":{}}}`, mcp.MethodElicit, `{"mode":"form"}`, true},
		{`{"elicitation":{"form":{}}}`, mcp.MethodElicit, `{"mode":"url"}`, false},
		{`{"elicitation":{"url":{}}}`, mcp.MethodElicit, `{"mode":"url"}`, true},
		{`{"elicitation":{"url":{}}}`, mcp.MethodElicit, `{}`, false},
		{`{"elicitation":{"form":{}}}`, mcp.MethodElicit, `{"mode":"voice"}`, false},
		{`{"elicitation":{"form":{}}}`, mcp.MethodSample, `{}`, false},
		{`{"sampling":{}}`, mcp.MethodSample, `{}`, true},
		{`{"sampling":{}}`, mcp.MethodSample, `{"tools":[]}`, false},
		{`{"sampling":{"context":{}}}`, mcp.MethodSample, `{"toolChoice":{}}`, false},
		{`{"sampling":{"tools":{}}}`, mcp.MethodSample, `{"tools":[],"toolChoice":{}}`, true},
		{`{"roots":{}}`, mcp.MethodRoots, `{}`, true},
		{`{}`, mcp.MethodRoots, `{}`, false},
		{`{"tools":{}}`, mcp.MethodToolsCall, `{}`, false},
		{`{"elicitation":{"form":{}},"roots":{},"sampling":{}}`, "", `{}`, false},
	} {
		if got := mcp.CanBeAsked(capabilities(t, test.capabilities), test.method,
			capabilities(t, test.params)); got != test.want {
			t.Errorf("%s asked %s %s: got %v, want %v", test.capabilities, test.method, test.params, got,
				test.want)
		}
	}
}

// TestBitsOfCapabilities fixes which bit says what, because tickets of sessions have
// them.
func TestBitsOfCapabilities(t *testing.T) {
	for text, bits := range map[string]byte{
		`{}`:                          0,
		`{"elicitation":{"form":{}}}`: 3,
		`{"elicitation":{"url":{}}}`:  5,
		`{"roots":{}}`:                8,
		`{"sampling":{}}`:             16,
		`{"sampling":{"context":{}}}`: 48,
		`{"elicitation":{"form":{},"url":{}},"roots":{},"sampling":{"context":{},"tools":{}}}`: 127,
	} {
		if got := mcp.CapabilityBits(capabilities(t, text)); got != bits {
			t.Errorf("%s: got %d, want %d", text, got, bits)
		}
		for _, read := range []byte{bits, bits | 128} {
			if got := string(mcp.CapabilitiesIn(read).JSON()); got != text {
				t.Errorf("%d: got %s, want %s", read, got, text)
			}
		}
	}
}

func FuzzCapabilitiesOf(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"elicitation":{"url":{}},"sampling":{"tools":{}},"roots":{}}`,
		`{"elicitation":[],"roots":{"listChanged":true}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		declared, err := mcp.ParseObject(data)
		if err != nil {
			return
		}
		for _, revision := range mcp.Revisions() {
			asks := mcp.CapabilitiesOf(revision, declared)
			if len(asks.JSON()) > 100 {
				t.Errorf("%s of %s: %s", data, revision, asks.JSON())
			}
			// The canonical form is modern: read as such, or as it was declared, it stays
			// what it is.
			for _, again := range []string{revision, mcp.Revision2607} {
				if got := mcp.CapabilitiesOf(again, asks); string(got.JSON()) != string(asks.JSON()) {
					t.Errorf("%s of %s: %s became %s in %s", data, revision, asks.JSON(), got.JSON(), again)
				}
			}
			for name := range asks.Members {
				if !declared.Value(name).IsObject() {
					t.Errorf("%s of %s: has %s", data, revision, name)
				}
			}
		}
	})
}
