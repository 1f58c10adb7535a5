package schema_test

import (
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry/schema"
)

const (
	smallSchema = `{"type":"object","properties":{"city":{"type":"string","minLength":1},"units":{"type":"string","enum":["metric","imperial"]}},"required":["city"],"additionalProperties":false}`
	smallData   = `{"city":"Lisbon","units":"metric"}`

	mediumSchema = `{"type":"object","properties":{
		"owner":{"type":"string","description":"Owner"},"repo":{"type":"string","maxLength":100},
		"state":{"type":"string","enum":["open","closed","all"]},"labels":{"type":"array","items":{"type":"string"},"maxItems":20},
		"page":{"type":"integer","minimum":1},"perPage":{"type":"integer","minimum":1,"maximum":100},
		"since":{"type":"string","format":"date-time"},"draft":{"type":"boolean"},
		"filter":{"type":"object","properties":{"field":{"type":"string"},"value":{"type":["string","number","null"]}},"required":["field"]},
		"assignee":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["owner","repo"]}`
	mediumData = `{"owner":"octocat","repo":"hello-world","state":"open","labels":["bug","help wanted","good first issue"],"page":2,"perPage":50,"since":"2026-01-01T00:00:00Z","draft":false,"filter":{"field":"Priority","value":"P1"},"assignee":null}`

	patternSchema = `{"type":"object","properties":{"id":{"type":"string","pattern":"^[a-z]{2}-[0-9]+$"}},"required":["id"]}`
)

func BenchmarkCheck(b *testing.B) {
	for _, test := range []struct{ name, schema, data string }{
		{"small", smallSchema, smallData},
		{"medium", mediumSchema, mediumData},
		{"pattern", patternSchema, `{"id":"ab-1234"}`},
		{"small library", `{"type":"object","properties":{"city":{"type":"string","not":{"const":""}},"units":{"type":"string","enum":["metric","imperial"]}},"required":["city"]}`, smallData},
		{"small invalid", smallSchema, `{"units":"kelvin"}`},
		{"medium invalid", mediumSchema, `{"owner":1,"state":"x"}`},
	} {
		b.Run(test.name, func(b *testing.B) {
			s := compile(b, test.schema)
			b.ReportAllocs()
			data := mcp.RawJSON(test.data)
			for b.Loop() {
				_ = s.CheckUnambiguousWithin(data, "arguments", nil)
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	for _, test := range []struct{ name, schema string }{{"small", smallSchema}, {"medium", mediumSchema}} {
		b.Run(test.name, func(b *testing.B) {
			raw := compact(b, []byte(test.schema))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := schema.Compile(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
