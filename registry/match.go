package registry

import "strings"

// MatchName tells whether the whole name fits pattern, in which every * stands for any
// number of characters, also none. Case counts. Its time is at most proportional to the
// product of both lengths.
func MatchName(pattern, name string) bool {
	literal, rest, starred := strings.Cut(pattern, "*")
	if !starred {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, literal)
	if !ok {
		return false
	}
	for {
		literal, rest, starred = strings.Cut(rest, "*")
		if !starred {
			return strings.HasSuffix(name, literal)
		}
		i := strings.Index(name, literal)
		if i < 0 {
			return false
		}
		name = name[i+len(literal):]
	}
}

// MayMatch tells whether there can be a name that begins with prefix, goes on after it,
// and fits pattern. With it the config and the gateway warn of a pattern that can match
// no tool of any server.
func MayMatch(pattern, prefix string) bool {
	literal, _, starred := strings.Cut(pattern, "*")
	return len(literal) > len(prefix) && strings.HasPrefix(literal, prefix) || starred &&
		strings.HasPrefix(prefix, literal)
}

// maxNearest bounds the patterns and names that Nearest compares, in bytes. Longer ones
// are near nothing.
const maxNearest = 160

// Nearest returns the name that a mistyped pattern most probably means, for a hint in an
// error message, or "" when none is near. The nearest is the name that fits the pattern
// after the fewest changes of the pattern, and the first one of those that need as many.
// A change inserts, drops or replaces a letter, or swaps two neighbours. A name is not
// near when it needs more changes than a third of the pattern's letters (but one is
// always allowed), or as many as there are letters. Case does not count.
func Nearest(pattern string, names []string) string {
	pattern = strings.ToLower(pattern)
	letters := len(pattern) - strings.Count(pattern, "*")
	best, least := "", min(letters, 1+max(1, letters/3))
	for _, name := range names {
		if d := distance(pattern, strings.ToLower(name), letters, least); d < least {
			best, least = name, d
		}
	}
	return best
}

// distance returns how many letters of the pattern must be changed until name fits, or
// enough when that many or more. A star fits any part of name at no cost. letters is the
// number of the pattern's bytes that are no star.
//
// To give up early matters: after each change of the catalogue the gateway compares up to
// 20 patterns of each tenant with up to 2,000 names, and without it that takes up to
// forty times as long.
//
// It is the usual table of edit distances with swaps (Damerau-Levenshtein, optimal string
// alignment), of which it keeps three rows: row i, column j is the distance between the
// first i bytes of pattern and the first j bytes of name.
func distance(pattern, name string, letters, enough int) int {
	if len(pattern) > maxNearest || len(name) > maxNearest || letters == len(pattern) && len(name) >= letters+
		enough {
		return enough
	}
	var rows [3][maxNearest + 1]int // row i is rows[i%3]
	for j := range len(name) + 1 {
		rows[0][j] = j
	}
	before := 0 // the least number in the row before
	for i := 1; i <= len(pattern); i++ {
		row, last, older := &rows[i%3], &rows[(i+2)%3], &rows[(i+1)%3]
		star := pattern[i-1] == '*'
		row[0] = last[0] + oneUnless(star)
		lowest := row[0]
		for j := 1; j <= len(name); j++ {
			if star {
				row[j] = min(last[j], row[j-1])
			} else {
				cost := last[j-1] + oneUnless(pattern[i-1] == name[j-1])
				if i > 1 && j > 1 && pattern[i-1] == name[j-2] && pattern[i-2] == name[j-1] {
					cost = min(cost, older[j-2]+1)
				}
				row[j] = min(cost, last[j]+1, row[j-1]+1)
			}
			lowest = min(lowest, row[j])
		}
		if min(lowest, before) >= enough {
			return enough // no later row has a number below the least of the two rows before it
		}
		before = lowest
	}
	return rows[len(pattern)%3][len(name)]
}

func oneUnless(condition bool) int {
	if condition {
		return 0
	}
	return 1
}
