package schema

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// repeated returns an array, or with braces an object, of n parts. Each %d in part
// becomes a number of its own.
func repeated(brackets string, n int, part string) []byte {
	var b strings.Builder
	b.WriteByte(brackets[0])
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strings.ReplaceAll(part, "%d", fmt.Sprint(100_000+i)))
	}
	b.WriteByte(brackets[1])
	return []byte(b.String())
}

// TestDecodedSizeFitsTheHeap compares the size that is told with the memory that a
// decoded value takes.
func TestDecodedSizeFitsTheHeap(t *testing.T) {
	for name, value := range map[string][]byte{
		"members of one object": repeated("{}", 20_000, `"key%d":%d`),
		"strings in one object": repeated("{}", 10_000, `"key%d":"some text %d"`),
		"numbers":               repeated("[]", 190_000, `%d`),
		"long numbers":          repeated("[]", 100_000, `0.12345678901%d`),
		"strings":               repeated("[]", 100_000, `"some text that is a little longer %d"`),
		"long strings":          repeated("[]", 1_000, `"`+strings.Repeat("x", 2000)+`%d"`),
		"rows of objects":       repeated("[]", 20_000, `{"id":%d,"name":"row %d","tags":["a","b"]}`),
		"wide rows of objects": repeated("[]", 10_000,
			`{"a":%d,"b":%d,"c":%d,"d":%d,"e":%d,"f":%d,"g":%d,"h":%d}`),
		"small objects":  repeated("[]", 50_000, `{"a":%d}`),
		"nested objects": repeated("[]", 30_000, `{"a":{"b":%d}}`),
		"empty objects":  repeated("[]", 100_000, `{}`),
		"empty arrays":   repeated("[]", 100_000, `[]`),
		"pairs":          repeated("[]", 50_000, `[%d,%d]`),
	} {
		if err := strictjson.Check(value); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		before := heap()
		decoded := decode(value)
		live, told := float64(heap()-before), float64(DecodedSize(value))
		runtime.KeepAlive(decoded)
		if ratio := told / live; ratio < 1/1.5 || ratio > 1.5 {
			t.Errorf("%s: told %.1f MB, in memory %.1f MB", name, told/1e6, live/1e6)
		}
	}
}

// heap returns the bytes of all objects that are in use.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // the first one may leave what pools held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// asked is a budget that grants everything, and adds up the memory that it was asked for.
type asked int64

func (a *asked) Memory(bytes int64) error { *a += asked(bytes); return nil }
func (*asked) Turn(time.Duration) error   { return nil }

// TestMemoryIsAskedForWhatTheLibraryKeeps: of values that are wrong the library keeps
// many times as much as they take themselves. If all are, it is thrice as much as was
// asked for.
func TestMemoryIsAskedForWhatTheLibraryKeeps(t *testing.T) {
	names := string(repeated("[]", 500, `"name %d"`))
	for name, test := range map[string]struct {
		schema string
		value  []byte
	}{
		"a type":   {`{"items":{"type":"string"}}`, repeated("[]", 20_000, `%d`)},
		"members":  {`{"additionalProperties":{"type":"string"}}`, repeated("{}", 20_000, `"name %d":1`)},
		"required": {`{"items":{"required":` + names + `}}`, repeated("[]", 2000, `{}`)},
		"enum":     {`{"items":{"enum":` + names + `}}`, repeated("[]", 500, `%d`)},
		"branches": {
			`{"items":{"anyOf":[{"type":"string"},{"type":"null"},{"enum":[{"a":1}]}]}}`,
			repeated("[]", 5000, `%d`),
		},
	} {
		s, err := Compile(mcp.RawJSON(test.schema))
		if err != nil {
			t.Fatal(err)
		}
		var told asked
		if err := s.CheckWithin(test.value, "value", &told); err == nil {
			t.Fatalf("%s: the value is valid", name)
		}
		decoded := decode(test.value)
		before := heap()
		result := s.library.shared.ValidateStruct(decoded)
		kept := heap() - before
		runtime.KeepAlive(result)
		if asked := int64(told) - DecodedSize(test.value); float64(asked) < 0.25*float64(kept) {
			t.Errorf("%s: asked for %.1f MB, kept %.1f MB", name, float64(asked)/1e6, float64(kept)/1e6)
		}
	}
}

// TestFormsOfTheRootCountOnce: only the value as a whole meets what stands at the root,
// so a choice there does not make large values too large.
func TestFormsOfTheRootCountOnce(t *testing.T) {
	rows := append([]byte(`{"rows":`), repeated("[]", 10_000, `[%d,2,3]`)...)
	rows = append(rows, '}')
	for _, choice := range []string{
		`{"required":["rows"]}`,
		`{"required":["rows"]},{"required":["b"]},{"required":["c"]},{"required":["d"]}`,
	} {
		s, err := Compile(mcp.RawJSON(`{"oneOf":[` + choice +
			`],"properties":{"rows":{"items":{"items":{"type":"number"}}}}}`))
		if err != nil {
			t.Fatal(err)
		}
		var told asked
		if err := s.CheckWithin(rows, "value", &told); err != nil {
			t.Fatal(err)
		}
		if most := DecodedSize(rows) + 40_010*failureSize; int64(told) > most {
			t.Errorf("%s: asked for %d bytes, want at most %d", choice, told, most)
		}
	}
}
