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
		if d := distance(pattern, strings.ToLower(name), letters); d < least {
			best, least = name, d
		}
	}
	return best
}

// distance counts the letters of the pattern to insert, drop, replace or swap until name fits. letters is how many it has
// beside its stars, each of which any run of the name fits for nothing.
func distance(pattern, name string, letters int) int {
	if len(pattern) > maxNearest || len(name) > maxNearest {
		return len(pattern) + len(name)
	}
	if letters == len(pattern) && len(name) > 2*letters+1 {
		return len(name) - letters // the least that there can be, and too much
	}
	rows := make([][]int, len(pattern)+1)
	cells := make([]int, (len(pattern)+1)*(len(name)+1))
	for i := range rows {
		rows[i], cells = cells[:len(name)+1], cells[len(name)+1:]
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(pattern); i++ {
		star := pattern[i-1] == '*'
		rows[i][0] = rows[i-1][0] + oneUnless(star)
		for j := 1; j <= len(name); j++ {
			if star {
				rows[i][j] = min(rows[i-1][j], rows[i][j-1])
				continue
			}
			cost := rows[i-1][j-1] + oneUnless(pattern[i-1] == name[j-1])
			if i > 1 && j > 1 && pattern[i-1] == name[j-2] && pattern[i-2] == name[j-1] {
				cost = min(cost, rows[i-2][j-2]+1)
			}
			rows[i][j] = min(cost, rows[i-1][j]+1, rows[i][j-1]+1)
		}
	}
	return rows[len(pattern)][len(name)]
}

func oneUnless(condition bool) int {
	if condition {
		return 0
	}
	return 1
}
