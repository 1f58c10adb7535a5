package sanitize

// Kind is a kind of repair; its text is a metric label.
type Kind string

// Kinds. The flagged ones are counted only: what a rule fires in keeps its bytes.
const (
	Hidden     Kind = "hidden"      // a code point that hides from a reader
	Control    Kind = "control"     // a control character
	Escape     Kind = "escape"      // a terminal's escape sequence
	Secret     Kind = "secret"      // a known kind of secret
	Truncated  Kind = "truncated"   // a text cut to the limit
	FlaggedURI Kind = "flagged_uri" // a URI in which a rule fires, or one with a dangerous scheme
	FlaggedKey Kind = "flagged_key" // a name or another word with a meaning in which a rule fires
)

// Report counts repairs by kind. A nil Report is a clean one.
type Report map[Kind]int

// Total returns the sum.
func (r Report) Total() int {
	n := 0
	for _, v := range r {
		n += v
	}
	return n
}

// counts are the counts of a Report, without its map.
type counts struct {
	hidden, control, escape, secret, truncated, flaggedURI, flaggedKey int
}

// report returns c as a Report, nil when nothing was counted.
func (c *counts) report() Report {
	if *c == (counts{}) {
		return nil
	}
	r := make(Report)
	for _, entry := range []struct {
		kind  Kind
		count int
	}{
		{Hidden, c.hidden},
		{Control, c.control},
		{Escape, c.escape},
		{Secret, c.secret},
		{Truncated, c.truncated},
		{FlaggedURI, c.flaggedURI},
		{FlaggedKey, c.flaggedKey},
	} {
		if entry.count > 0 {
			r[entry.kind] = entry.count
		}
	}
	return r
}
