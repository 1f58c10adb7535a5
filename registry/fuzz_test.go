package registry_test

import (
	"testing"

	"github.com/drawbridge-mcp/drawbridge/registry"
)

// FuzzSchemaGuard feeds schemas and values of any kind. Nothing may panic or hang; what the short way accepts the
// library accepts; what both this package and the oracle take, they judge alike.
func FuzzSchemaGuard(f *testing.F) {
	for _, test := range hostileSchemas("http://127.0.0.1:1") {
		if len(test.schema) < 4_000 && len(test.data) < 4_000 {
			f.Add([]byte(test.schema), []byte(test.data))
		}
	}
	f.Add([]byte(smallSchema), []byte(smallData))
	f.Add([]byte(mediumSchema), []byte(mediumData))
	f.Fuzz(func(t *testing.T, schema, data []byte) {
		raw, value := compact(t, schema), compact(t, data)
		if raw == nil || value == nil {
			return
		}
		tool, _ := offerOutput(t, raw)
		if tool != nil {
			if err := tool.ValidateOutput(value); err != nil && len(err.Error()) > 1024 {
				t.Errorf("a text of %d bytes", len(err.Error()))
			}
		}
		if input, _ := offer(t, string(raw), ""); input != nil {
			_ = input.Validate(value)
		}
		if short, library, err := registry.Verdicts(raw, value); err == nil && short && !library {
			t.Errorf("schema %s\nvalue %s\nthe short way accepts, the library does not", raw, value)
		}
		if other, err := oracle(raw); err == nil && tool != nil && len(raw) < 2_000 && len(value) < 2_000 && isTame(raw) {
			decoded, err := decodeForOracle(value)
			if err != nil {
				return
			}
			if want := other.Validate(decoded) == nil; want != (tool.ValidateOutput(value) == nil) {
				t.Errorf("schema %s\nvalue %s\nwant valid %v", raw, value, want)
			}
		}
	})
}
