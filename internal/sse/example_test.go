package sse_test

import (
	"fmt"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/sse"
)

// Append writes an event as it goes over the wire. Line breaks in the data cannot end the
// event or begin a field.
func ExampleAppend() {
	stream := sse.Append(nil, sse.Event{ID: "7", HasID: true, Data: []byte("{\n}")})
	stream = sse.AppendComment(stream, "still here")
	fmt.Printf("%q\n", stream)
	// Output: "id: 7\ndata: {\ndata: }\n\n: still here\n"
}

// Read yields the events of a body one by one. The bytes of an event are valid until the
// next one is read, so copy what you keep. The second argument bounds one event, in
// bytes.
func ExampleRead() {
	body := strings.NewReader(
		"retry: 500\nid: 1\n\n: a comment\n\nid: 2\ndata: {\"jsonrpc\":\"2.0\"}\n\ndata: cut off")
	for event, err := range sse.Read(body, 1<<20) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("id %s, retry %v, data %q\n", event.ID, event.Retry, event.Data)
	}
	// Output:
	// id 1, retry 500ms, data ""
	// id 2, retry 0s, data "{\"jsonrpc\":\"2.0\"}"
}
