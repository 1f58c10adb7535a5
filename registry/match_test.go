package registry_test

import (
	"slices"
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

// TestDistanceGivesUpEarly: from names that are far, no more is found out than that.
func TestDistanceGivesUpEarly(t *testing.T) {
	for _, test := range []struct {
		pattern, name string
		enough, want  int
	}{
		{"search_isues", "search_issues", 4, 1},
		{"search_isues", strings.Repeat("x", 150), 4, 4}, // its length tells
		{"search_isues", "list_branches", 4, 4},
		{"search_isues", "search_forks_of", 2, 2},
	} {
		if got := registry.Distance(test.pattern, test.name, test.enough); got != test.want {
			t.Errorf("distance(%q, %.20q, …, %d) = %d, want %d", test.pattern, test.name, test.enough, got,
				test.want)
		}
	}
}

// TestMayMatchAsTried compares it with trying all short names, for all short patterns and
// prefixes.
func TestMayMatchAsTried(t *testing.T) {
	suffixes := texts("a_", 4)[1:] // a name goes on after its prefix
	for _, pattern := range texts("a_*", 4) {
		for _, prefix := range texts("a_", 3) {
			want := slices.ContainsFunc(suffixes,
				func(suffix string) bool { return registry.MatchName(pattern, prefix+suffix) })
			if got := registry.MayMatch(pattern, prefix); got != want {
				t.Errorf("MayMatch(%q, %q) = %v, want %v", pattern, prefix, got, want)
			}
		}
	}
}

// TestNearestOfAFitIsTheFit: what a pattern fits already needs no letter changed.
func TestNearestOfAFitIsTheFit(t *testing.T) {
	names := texts("a_", 4)
	for _, pattern := range texts("a_*", 4) {
		fit := slices.IndexFunc(names, func(name string) bool { return registry.MatchName(pattern, name) })
		if fit < 0 || strings.Trim(pattern, "*") == "" {
			continue
		}
		if got := registry.Nearest(pattern, names); got != names[fit] {
			t.Errorf("Nearest(%q) = %q, want %q", pattern, got, names[fit])
		}
	}
}

// texts returns all texts of these letters up to a length, the shortest first.
func texts(letters string, length int) []string {
	all := []string{""}
	for from := 0; length > 0; length-- {
		to := len(all)
		for _, text := range all[from:to] {
			for _, letter := range letters {
				all = append(all, text+string(letter))
			}
		}
		from = to
	}
	return all
}
