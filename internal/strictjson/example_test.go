package strictjson_test

import (
	"fmt"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// Check comes before anything else looks at a text from outside. The second text is one
// that parsers read differently: some take the first name, some the last. The error tells
// place and reason, and shows nothing of the values.
func ExampleCheck() {
	fmt.Println(strictjson.Check([]byte(`{"tool":"read","limit":1e3}`)))
	fmt.Println(strictjson.Check([]byte(`{"tool":"read","tool":"delete"}`)))
	// Output:
	// <nil>
	// the same name twice in one object at byte 14, in "/tool"
}

// Members takes a checked object apart without decoding the values. They alias the text:
// 1.0 stays 1.0.
func ExampleMembers() {
	members, err := strictjson.Members(nil, []byte(`{"scale": 1.0, "na\u006de": {"a":[]}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range members {
		fmt.Printf("%s = %s\n", m.Name, m.Value)
	}
	// Output:
	// scale = 1.0
	// name = {"a":[]}
}
