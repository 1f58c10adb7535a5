package mcp_test

import (
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

const modernCall = `{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"everything__echo","arguments":{"message":"The quick brown fox","count":3},` +
	`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`

func BenchmarkDecode(b *testing.B) {
	data := []byte(modernCall)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := mcp.Decode(data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendRequest(b *testing.B) {
	message, err := mcp.Decode([]byte(modernCall))
	if err != nil {
		b.Fatal(err)
	}
	var buffer []byte
	b.ReportAllocs()
	for b.Loop() {
		buffer = mcp.AppendRequest(buffer[:0], message.ID, message.Method, message.Params)
	}
}
