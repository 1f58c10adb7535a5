package sanitize_test

import (
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
)

// textResult returns the result of a tool that answers with text.
func textResult(text string) mcp.Object {
	block := mcp.NewObject(mcp.Member{Name: "type", Value: mcp.String("text")},
		mcp.Member{Name: "text", Value: mcp.String(text)})
	return mcp.NewObject(mcp.Member{Name: "content", Value: mcp.Array([]mcp.RawJSON{block.JSON()})})
}

// fill repeats text to n bytes or a little less, never cutting it.
func fill(text string, n int) string { return strings.Repeat(text, n/len(text)) }

const prose = "## Results of the run\n\n- the `build-step` took 12.5 s (see https://ci.example.com/run/17?id=4_2), and *all* tests passed;\n- Apply the patch, push, and rebase task-14 before Monday.\n\n"

const source = "func (s *Store) read_all(ctx context.Context, p Params) (map[string]any, error) {\n\tif p.max_size == 0 {\n\t\treturn nil, ErrEmpty // see \"sk-\" and npm_config_x\n\t}\n}\n"

func BenchmarkResult(b *testing.B) {
	for _, c := range []struct{ name, text string }{
		{"Echo", "The quick brown fox jumps over the lazy dog, and so on"},
		{"Prose1KB", fill(prose, 1024)},
		{"Prose1MB", fill(prose, 1<<20)},
		{"Prose15MB", fill(prose, 15<<20)}, // of which 1 MiB is kept
		{"Source1KB", fill(source, 1024)},
		{"Chinese1KB", fill("敏捷的棕色狐狸跳过了懒狗，就这样。", 1024)},
		{"Persian1KB", fill("نمی\u200cخواهم کتاب\u200cها را ببرم، می\u200cدانم. ", 1024)},
		{"Secrets1KB", fill(prose+ghp()+"\n", 1024)},
		{"Coloured1KB", fill("\x1b[32mok\x1b[0m  internal/sanitize\t0.412s\n", 1024)},
		{"Hidden1KB", fill("a\u200bb\U000E0041\u202e", 1024)},
	} {
		b.Run(c.name, func(b *testing.B) {
			result := textResult(c.text)
			b.SetBytes(int64(len(result.JSON())))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := (sanitize.Policy{}).Result(result); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkImage(b *testing.B) {
	result, err := mcp.ParseObject([]byte(`{"content":[{"type":"image","data":"` + fill(chance(word, 1024),
		1<<20) + `","mimeType":"image/png"}]}`))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(1 << 20)
	for b.Loop() {
		if _, _, err := (sanitize.Policy{}).Result(result); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDefinition(b *testing.B) {
	definition, err := mcp.ParseObject(
		[]byte(
			`{"name":"get_label","description":"Get a label of a repository.","inputSchema":{"type":"object",` +
				`"properties":{"name":{"description":"Label name.","type":"string"},"owner":{"description":"Owner of the repository","type":"string"}},"required":["owner","name"]}}`))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		cleanDefinition(definition)
	}
}
