package schema_test

import (
	"fmt"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry/schema"
)

// A schema is compiled once, when its tool enters the catalogue. The text of an error is
// for the model that made the value, so that it can do better.
func Example() {
	s, err := schema.Compile(mcp.RawJSON(
		`{"type":"object","properties":{"city":{"type":"string"},"units":{"enum":["metric","imperial"]}},"required":["city"]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.CheckWithin(mcp.RawJSON(`{"city":"Lisbon"}`), "arguments", nil))
	fmt.Println(s.CheckWithin(mcp.RawJSON(`{"units":"kelvin"}`), "arguments", nil))
	fmt.Println(s.CheckWithin(mcp.RawJSON(`[]`), "arguments", nil))
	// Output:
	// <nil>
	// city: is required; units: must be one of "metric", "imperial"
	// arguments: must be an object, got an array
}

// What leads out of the schema is refused when it is compiled, and so is what would cost
// too much to check.
func ExampleCompile_refused() {
	_, err := schema.Compile(mcp.RawJSON(`{"properties":{"a":{"$ref":"https://example.com/schema"}}}`))
	fmt.Println(err)
	_, err = schema.Compile(
		mcp.RawJSON(`{"anyOf":[{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{"$ref":"#"}}}]}`))
	fmt.Println(err)
	// Output:
	// at #/properties/a: $ref leads out of the schema
	// at #/anyOf/1/properties/a: recursive with branches that overlap
}
