package registry

import "strings"

// MatchName tells whether the whole name fits pattern, in which * stands for any run of characters.
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

// MayMatch tells whether there can be a name that begins with prefix and fits pattern.
func MayMatch(pattern, prefix string) bool {
	literal, _, starred := strings.Cut(pattern, "*")
	return len(literal) > len(prefix) && strings.HasPrefix(literal, prefix) || starred && strings.HasPrefix(prefix, literal)
}

// maxNearest bounds, in bytes, the names that Nearest compares: longer ones are far from everything.
const maxNearest = 160

// Nearest returns the one of names that a pattern most probably means, "" when none looks like a slip of it. It is the
// one that fits the pattern after the fewest letters of the pattern were inserted, dropped, replaced or swapped, of
// equal ones the first; more than a third of the letters, or all of them, are no slip. Capital and small letters are the same here.
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

// distance counts the letters of the pattern to insert, drop, replace or swap until name fits; it stops counting at
// enough. letters is how many the pattern has beside its stars, each of which any run of the name fits for nothing.
func distance(pattern, name string, letters, enough int) int {
	if len(pattern) > maxNearest || len(name) > maxNearest || letters == len(pattern) && len(name) >= letters+enough {
		return enough
	}
	var rows [3][maxNearest + 1]int // for the letter of the pattern at hand and the two before it, in turn
	for j := range len(name) + 1 {
		rows[0][j] = j
	}
	before := 0 // the least of the row before
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
			return enough // a row has nothing below the least of the two before it
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
