package strictjson_test

import (
	"bytes"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

var request = []byte(
	`{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"everything__echo","arguments":{"message":"The quick brown fox jumps over the lazy dog, and so on","count":3},"_meta":{"progressToken":17}}}`)

func BenchmarkCheck(b *testing.B) {
	b.SetBytes(int64(len(request)))
	for b.Loop() {
		if err := strictjson.Check(request); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMembers(b *testing.B) {
	b.SetBytes(int64(len(request)))
	for b.Loop() {
		if _, err := strictjson.Members(nil, request); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLargeMembers finds the end of one long string, of which large answers mostly
// consist.
func BenchmarkLargeMembers(b *testing.B) {
	for name, piece := range map[string]string{
		"plain":   "The quick brown fox jumps over the lazy dog and says so. ",
		"escapes": `{\"name\":\"fox\",\"jumps\":true},\n`,
	} {
		b.Run(name, func(b *testing.B) {
			text := append(append([]byte(`{"text":"`), bytes.Repeat([]byte(piece), 15<<20/len(piece))...),
				`"}`...)
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := strictjson.Members(nil, text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
