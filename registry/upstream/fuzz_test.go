package upstream

import (
	"bytes"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// FuzzComplete brings results of all forms into the form that is passed on. What passes
// is of a type that was asked for, that of a tool has content, and it passes again
// unchanged.
func FuzzComplete(f *testing.F) {
	for _, seed := range []string{
		`{"content":[]}`, `{"toolResult":{"a":1}}`, `{"messages":[]}`, `{"contents":[{"uri":"a:b"}]}`,
		`{"completion":{"values":["a"],"total":1}}`,
		`{"resultType":"input_required","inputRequests":{},"requestState":"s"}`,
		`{"resultType":"task"}`, `{"_meta":{"io.modelcontextprotocol/serverInfo":{}}}`,
		`{"resultType":"compl\u0065te","content":null}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		result, err := mcp.ParseObject(data)
		if err != nil {
			return
		}
		for _, method := range []string{
			mcp.MethodToolsCall, mcp.MethodPromptsGet, mcp.MethodResourcesRead,
			mcp.MethodComplete,
		} {
			for _, revision := range []string{mcp.LatestLegacy, mcp.LatestModern} {
				once, err := fault("s").complete(method, revision, result)
				if err != nil {
					continue
				}
				twice, err := fault("s").complete(method, revision, once)
				if err != nil || !bytes.Equal(once.JSON(), twice.JSON()) {
					t.Errorf("%s: %s became %s, then %s (%v)", method, data, once.JSON(), twice.JSON(), err)
				}
				switch kind := once.Value("resultType"); {
				case kind.Says("input_required") && revision == mcp.LatestModern:
				case kind != nil && !kind.Says("complete"):
					t.Errorf("%s, %s: %s passed as %s", method, revision, data, kind)
				case method == mcp.MethodToolsCall && !once.Value("content").IsArray():
					t.Errorf("%s passed without content", data)
				}
			}
		}
	})
}

// FuzzTake reads lists of all forms. Whatever comes, each definition is kept or refused.
func FuzzTake(f *testing.F) {
	f.Add([]byte(`[{"name":"a"},{"uri":"a:b","name":"c"},{"uriTemplate":"a:{b}","name":"d"},1,null,{}]`))
	f.Add([]byte(`[{"uri":"skill://a/SKILL.md"},{"uri":"skill://a\u202eb/SKILL.md"}]`))
	f.Add([]byte(`[{"name":"a\u200bb"},{"name":"a\u0007"},{"uri":"a:\u202eb","name":"c"}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		raw, err := mcp.ParseRaw(data)
		if err != nil {
			return
		}
		elements, _ := raw.Elements()
		for _, one := range newLists(nil, nil).all() {
			one.take(&Config{Name: "s"}, reading{of: one, raw: elements})
			if len(one.items)+len(one.refused) != len(elements) {
				t.Errorf("%s: %d kept and %d refused of %d", one.kind, len(one.items), len(one.refused),
					len(elements))
			}
			for _, refused := range one.refused {
				if refused.Err == nil || len(refused.Item) > 200 {
					t.Errorf("%s: refused %+v", one.kind, refused)
				}
			}
		}
	})
}
