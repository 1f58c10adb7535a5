package schema_test

import (
	"testing"
	"unicode/utf8"

	"github.com/drawbridge-mcp/drawbridge/registry/schema"
)

// FuzzCheck feeds schemas and values of any kind. Nothing may panic or hang; what the
// fast path accepts the library accepts; what both this package and the oracle take, they
// judge alike.
func FuzzCheck(f *testing.F) {
	for _, test := range hostileSchemas("http://127.0.0.1:1") {
		if len(test.schema) < 4_000 && len(test.data) < 4_000 {
			f.Add([]byte(test.schema), []byte(test.data))
		}
	}
	f.Add([]byte(smallSchema), []byte(smallData))
	f.Add([]byte(mediumSchema), []byte(mediumData))
	f.Fuzz(func(t *testing.T, text, data []byte) {
		raw, value := compact(t, text), compact(t, data)
		if raw == nil || value == nil {
			return
		}
		s, err := schema.Compile(raw)
		if err != nil {
			return
		}
		verdict := s.CheckWithin(value, "value", nil)
		if verdict != nil && len(verdict.Error()) > 1024 {
			t.Errorf("a text of %d bytes", len(verdict.Error()))
		}
		if err := s.CheckUnambiguousWithin(value, "value", nil); err == nil && verdict != nil {
			t.Errorf("schema %s\nvalue %s\nwith names that are not alike, it became valid", raw, value)
		}
		s.HeaderMarks()
		if inlined, ok := s.Inline(schema.MaxSize); ok && !utf8.Valid(inlined) {
			t.Errorf("schema %s\nbecame %q", raw, inlined)
		}
		if fast, library, err := schema.Verdicts(raw, value); err == nil && fast && !library {
			t.Errorf("schema %s\nvalue %s\nthe fast path accepts, the library does not", raw, value)
		}
		if other, err := oracle(raw); err == nil && len(raw) < 2_000 && len(value) < 2_000 && isTame(raw) {
			decoded, err := decodeForOracle(value)
			if err != nil {
				return
			}
			if want := other.Validate(decoded) == nil; want != (verdict == nil) {
				t.Errorf("schema %s\nvalue %s\nwant valid %v", raw, value, want)
			}
		}
	})
}
