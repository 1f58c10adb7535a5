package mcp_test

import (
	"fmt"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// An Object is a message of somebody else: read what you know, change what is yours, and
// pass on the rest. Members that nobody here knows keep their place and every byte of
// their values, such as the zero in 1.0.
func ExampleObject() {
	tool, err := mcp.ParseObject([]byte(`{"name":"weather","x-vendor":{"scale":1.0},"title":"Weather"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(tool.Text("name"), tool.Has("icons"))

	exposed := tool.With("name", mcp.String("meteo__weather")).Without("title")
	fmt.Printf("%s\n", exposed.JSON())
	fmt.Printf("%s\n", tool.JSON()) // With and Without left it alone
	// Output:
	// weather false
	// {"name":"meteo__weather","x-vendor":{"scale":1.0}}
	// {"name":"weather","x-vendor":{"scale":1.0},"title":"Weather"}
}

// Most objects are made of a few members. A member whose value is nil is left out, which
// saves an if.
func ExampleNewObject() {
	var cursor mcp.RawJSON // nil: this is the last page
	page := mcp.NewObject(
		mcp.Member{Name: "tools", Value: mcp.Array([]mcp.RawJSON{})},
		mcp.Member{Name: "nextCursor", Value: cursor},
		mcp.Member{Name: "ttlMs", Value: mcp.Int(5000)},
	)
	fmt.Printf("%s\n", page.JSON())
	// Output: {"tools":[],"ttlMs":5000}
}
