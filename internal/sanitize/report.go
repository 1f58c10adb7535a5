package sanitize

import "maps"

// Kind is a kind of finding. Its text is a metric label.
type Kind string

// Kinds. Flagged values keep their bytes and are only counted; the others were repaired.
const (
	Hidden    Kind = "hidden"    // a code point that a reader does not see
	Control   Kind = "control"   // a control character that belongs to no escape sequence
	Escape    Kind = "escape"    // a whole escape sequence for a terminal
	Secret    Kind = "secret"    // a secret of a known kind, redacted
	Truncated Kind = "truncated" // a text that was cut to the limit, or emptied behind one that was
	// a URI in which a rule fires, or a dangerous one; a link with one is replaced
	FlaggedURI Kind = "flagged_uri"
	FlaggedKey Kind = "flagged_key" // a name, or a value that programs compare, in which a rule fires
)

// Report counts findings by kind. It is nil when there were none.
type Report map[Kind]int

// Total returns the number of findings of all kinds.
func (r Report) Total() int {
	n := 0
	for _, v := range r {
		n += v
	}
	return n
}

// counts are the numbers of a Report, without the map: clean results need no memory for
// one.
type counts struct {
	hidden, control, escape, secret, truncated, flaggedURI, flaggedKey int
}

// report returns c as a Report, nil when nothing was counted.
func (c *counts) report() Report {
	if *c == (counts{}) {
		return nil
	}
	r := Report{
		Hidden: c.hidden, Control: c.control, Escape: c.escape, Secret: c.secret, Truncated: c.truncated,
		FlaggedURI: c.flaggedURI, FlaggedKey: c.flaggedKey,
	}
	maps.DeleteFunc(r, func(_ Kind, count int) bool { return count == 0 })
	return r
}
