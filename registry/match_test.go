package registry_test

import (
	"strings"
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

func TestMayMatch(t *testing.T) {
	tests := []struct {
		pattern, prefix string
		want            bool
	}{
		{"*", "a__", true},
		{"*_x", "a__", true},
		{"a*", "a__", true},
		{"a__*", "a__", true},
		{"a__b", "a__", true},
		{"a__b*c", "a__", true},
		{"a__", "a__", false},
		{"a_b", "a__", false},
		{"b*", "a__", false},
		{"ab*__c", "a__", false},
		{"", "a__", false},
		{"x", "", true},
		{"*", "", true},
	}
	for _, test := range tests {
		if got := registry.MayMatch(test.pattern, test.prefix); got != test.want {
			t.Errorf("MayMatch(%q, %q) = %v, want %v", test.pattern, test.prefix, got, test.want)
		}
	}
}

func TestNearestTakesStarsAsAnyRun(t *testing.T) {
	names := []string{"github__delete_repository", "github__delete_branch", "github__search"}
	tests := []struct{ pattern, want string }{
		{"github__serach", "github__search"},
		{"github__delet_repo*", "github__delete_repository"},
		{"githb__*_branch", "github__delete_branch"},
		{"GITHUB__SEARCH", "github__search"},
		{"*branhc", "github__delete_branch"},
		{"*x", ""},
		{"*elephant*", ""},
		{"elephant", ""},
		{"", ""},
		{strings.Repeat("github__search", 100), ""},
	}
	for _, test := range tests {
		if got := registry.Nearest(test.pattern, names); got != test.want {
			t.Errorf("Nearest(%.20q) = %q, want %q", test.pattern, got, test.want)
		}
	}
}
