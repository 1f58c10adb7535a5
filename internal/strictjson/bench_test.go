package strictjson_test

import (
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

var request = []byte(`{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"everything__echo","arguments":{"message":"The quick brown fox jumps over the lazy dog, and so on","count":3},"_meta":{"progressToken":17}}}`)

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
