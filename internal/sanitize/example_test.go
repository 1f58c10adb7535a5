package sanitize_test

import (
	"fmt"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
)

// The zero Policy repairs: it removes what a human reader would not see and redacts known
// secrets. The report counts what it did by kind.
func ExamplePolicy_Result() {
	key := "AKIA" + "QYLPMN5HFIQR7XYA" // in two parts, so that no scanner of source code finds it
	result := mcp.NewObject(mcp.Member{Name: "content", Value: mcp.RawJSON(
		`[{"type":"text","text":"Sun\u200bny. \u001b[31mKey: ` + key + `"}]`)})

	cleaned, report, err := sanitize.Policy{}.Result(result)
	fmt.Printf("%s\n%v, %v\n", cleaned.JSON(), report, err)
	// Output:
	// {"content":[{"type":"text","text":"Sunny. Key: [REDACTED:aws-access-key]"}]}
	// map[escape:1 hidden:1 secret:1], <nil>
}

// A tenant may rather have no result than a redacted one.
func ExamplePolicy_Result_block() {
	key := "AKIA" + "QYLPMN5HFIQR7XYA"
	result := mcp.NewObject(mcp.Member{
		Name:  "structuredContent",
		Value: mcp.RawJSON(`{"key":"` + key + `"}`),
	})

	_, report, err := sanitize.Policy{Secrets: sanitize.Block}.Result(result)
	fmt.Println(report, err)
	// Output: map[secret:1] output holds a secret
}
