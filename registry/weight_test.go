package registry_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/registry"
)

// TestListsOfAUserCountWhatTheirSchemasTake compares what the lists of a user count with
// what they take. A short definition can make a large schema.
func TestListsOfAUserCountWhatTheirSchemasTake(t *testing.T) {
	for name, property := range map[string]string{
		"usual": `{"type":"string","description":"` + strings.Repeat("the path. ", 9) + `"}`, "empty": `{}`,
		"classes": `{"pattern":"\\p{L}%d"}`,
	} {
		var offers []registry.Offer
		for tool := range 10 {
			var properties []string
			for n := range 40 {
				text := strings.ReplaceAll(property, "%d", fmt.Sprint(n))
				properties = append(properties, fmt.Sprintf(`"p%d":%s`, n, text))
			}
			offers = append(offers, registry.Offer{Definition: parse(t, fmt.Sprintf(
				`{"name":"t%d","inputSchema":{"type":"object","properties":{%s}}}`, tool, strings.Join(properties, ",")))})
		}
		before := heap()
		lists, refused := registry.New().NewLists(registry.Source{Name: "own", Tools: offers})
		takes := heap() - before
		runtime.KeepAlive(offers)
		if counts := lists.Bytes(); len(refused) > 0 || counts < takes/2 || counts > 4*takes {
			t.Errorf("%s: got %d bytes counted, and %v refused, for lists that take %d", name, counts, refused, takes)
		}
	}
}

// heap returns how many bytes are in use.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
