package registry_test

import (
	"testing"

	"github.com/drawbridge-mcp/drawbridge/registry"
)

func TestMatchName(t *testing.T) {
	tests := []struct {
		pattern, name string
		want          bool
	}{
		{"*", "anything", true},
		{"a", "a", true},
		{"a", "ab", false},
		{"a*", "ab", true},
		{"*b", "ab", true},
		{"*b", "abc", false},
		{"a*c", "abc", true},
		{"a*c", "ac", true},
		{"a*a", "a", false},
		{"a**c", "ac", true},
		{"*x*y*", "axbyc", true},
		{"*x*y*", "aybxc", false},
		{"", "", true},
		{"", "a", false},
	}
	for _, test := range tests {
		if got := registry.MatchName(test.pattern, test.name); got != test.want {
			t.Errorf("MatchName(%q, %q) = %v, want %v", test.pattern, test.name, got, test.want)
		}
	}
}
