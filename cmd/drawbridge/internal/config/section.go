package config

import (
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/token"
)

// This file divides the text of a large config before it is scanned. What is not about tenants is read at once; of each
// tenant only the name is read, and its text, a section, waits in a node of the kind unread until somebody wants to know
// what it says. So the tokens and nodes of one tenant are there at a time, and a reload that finds the text of a tenant
// unchanged need not read it again, see Loader.
//
//	listen: …            \
//	issuers: […]          > head, read at once
//	tenants:             /
//	  acme:              \  a section: the lines from one name in the column of the first
//	    servers: [files] /  to the next, or to the end of the mapping
//	  globex: {…}           another section
//	servers: {…}            tail, read at once
//
// The hazard is a line that looks like the beginning of a section and is none, inside quotes or brackets or a block of
// text. Then the section before it ends too early, and so has a quote or bracket that is not closed, or is no single
// member: that is a problem. A config in which there is any problem is read again as a whole (see load), so nothing that
// is said about a file, and nothing that is refused, depends on sections. What is accepted is the same as without them
// because each section alone must be sound and hold exactly the tenant that it is taken for.

// sectionName is the line with which a section begins, after its indentation: a name that means the same in and without
// quotes.
var sectionName = regexp.MustCompile(`^(?:"([A-Za-z0-9._-]+)"|'([A-Za-z0-9._-]+)'|([A-Za-z0-9._-]+)):(?: |$)`)

// section is the text of one tenant that was not parsed yet.
type section struct {
	text   string // whole lines, the indented name first
	before int    // lines of the file before them
	column int    // of the name, from 1
}

// dividedText is a text that is read in sections.
type dividedText struct {
	head, tail string // of the file; the head ends before the line of the key tenants
	key        int    // lines before that line
	after      int    // lines before the tail
	sections   []section
	names      []string // of the sections
}

// inSections reads a text of which the tenants are to remain unread. It returns nil if the text is not written in the
// way that this file knows, or has problems; then the caller reads it as a whole.
func (r *reader) inSections(text string) *node {
	d, ok := divide(text)
	if !ok {
		return nil
	}
	root := &node{kind: mapping, file: r.file, line: d.key + 1, col: 1}
	tenants := &node{kind: mapping, file: r.file, line: d.sections[0].before + 1, col: d.sections[0].column}
	for i, s := range d.sections {
		at := node{file: r.file, line: s.before + 1, col: s.column}
		value := at
		value.kind, value.section = unread, &d.sections[i]
		tenants.members = append(tenants.members, member{name: d.names[i], key: &at, value: &value})
	}
	head, ok := r.membersOf(d.head, 0)
	if !ok {
		return nil
	}
	tail, ok := r.membersOf(d.tail, d.after)
	if !ok {
		return nil
	}
	key := &node{file: r.file, line: d.key + 1, col: 1}
	root.members = slices.Concat(head, []member{{name: "tenants", key: key, value: tenants}}, tail)
	root.line, root.col = root.members[0].key.line, root.members[0].key.col
	return root
}

// divide finds the sections of a text. It returns false for a text that has none, or is written in another way.
func divide(text string) (*dividedText, bool) {
	if strings.Contains(text, "\r") {
		return nil, false // it breaks lines for the scanner, too
	}
	d := &divider{text: text}
	for line := range strings.Lines(text) {
		if !d.take(line) {
			return nil, false
		}
		d.place += len(line)
		d.line++
	}
	if d.state == inTenants {
		d.end()
	}
	return &d.dividedText, len(d.sections) > 0
}

// divider goes through the lines of a text.
type divider struct {
	dividedText

	text        string
	state       part
	place, line int  // bytes and lines before the present line
	begun       int  // place of the section that is open
	any         bool // a line with content was seen
}

// part is which part of the text the present line is in.
type part int

const (
	inHead part = iota
	inTenants
	inTail
)

// take looks at one line. It returns false if the text cannot be divided.
func (d *divider) take(line string) bool {
	bare := strings.TrimRight(line, " \n")
	content := strings.TrimLeft(bare, " ")
	indent := len(bare) - len(content)
	if content == "" || content[0] == '#' {
		return true // it belongs to what is before it
	}
	first := !d.any
	d.any = true
	switch {
	case strings.HasPrefix(line, "---"), strings.HasPrefix(line, "..."):
		return first && bare == "---"
	case content[0] == '\t':
		return false
	case isTenants(bare):
		d.head, d.key = d.text[:d.place], d.line
		again := d.state != inHead
		d.state = inTenants
		return !again
	case d.state != inTenants:
	case indent == 0:
		d.end()
		d.tail, d.after, d.state = d.text[d.place:], d.line, inTail
	default:
		return d.takeTenant(content, indent)
	}
	return true
}

// takeTenant looks at a line below the key tenants. Those in the column of the first begin a section.
func (d *divider) takeTenant(content string, indent int) bool {
	if len(d.sections) > 0 && indent+1 > d.sections[0].column {
		return true
	}
	found := sectionName.FindStringSubmatch(content)
	if found == nil || len(d.sections) > 0 && indent+1 < d.sections[0].column {
		return false
	}
	d.end()
	d.begun = d.place
	d.sections = append(d.sections, section{before: d.line, column: indent + 1})
	d.names = append(d.names, found[1]+found[2]+found[3])
	return true
}

// end ends the section that is open, if one is.
func (d *divider) end() {
	if n := len(d.sections); n > 0 {
		d.sections[n-1].text = d.text[d.begun:d.place]
	}
}

// isTenants tells whether a line is the key tenants, with its value on the lines below.
func isTenants(line string) bool {
	rest, ok := strings.CutPrefix(line, "tenants:")
	return ok && (strings.TrimLeft(rest, " ") == "" || strings.HasPrefix(strings.TrimLeft(rest, " "), "#") && rest[0] == ' ')
}

// membersOf reads members that stand in the first column, after that many lines of the file. Of a text without any it
// returns none.
func (r *reader) membersOf(text string, before int) ([]member, bool) {
	tokens, ok := r.tokensOf(text, before, nesting{})
	if !ok {
		return nil, false
	}
	if len(tokens) == 0 {
		return nil, true
	}
	if !isKey(tokens, 0) || tokens[0].Position.Column != 1 {
		return nil, false
	}
	n := r.block(tokens, pieceTokens)
	return n.allMembers(), n != nil && n.kind == mapping && len(r.problems) == 0
}

// open returns what a member of the tenants says. Of one that was read with the rest of the file, this is its value.
// Otherwise its section is read now, and nobody keeps the result but the caller.
func (r *reader) open(m member) *node {
	if m.value.kind != unread {
		return m.value
	}
	s, file := m.value.section, r.file
	r.file = m.value.file
	defer func() { r.file = file }()
	// The name stands below the key tenants, so that nothing may be nested deeper than in the whole file.
	tokens, ok := r.tokensOf(s.text, s.before, nesting{levels: []int{1}})
	if !ok || len(tokens) == 0 || !isKey(tokens, 0) || tokens[0].Position.Column != s.column {
		r.fault(m.key, "%s", errUnreadable)
		return &node{}
	}
	n := r.block(tokens, pieceTokens)
	if n == nil || n.kind != mapping || len(n.members) != 1 || n.members[0].name != m.name {
		r.fault(m.key, "%s", errUnreadable)
		return &node{}
	}
	r.faultBroken(n)
	return n.members[0].value
}

// tokensOf returns the sound tokens of a part of a file that begins after so many lines and stands in these levels.
func (r *reader) tokensOf(text string, before int, nest nesting) (tokens token.Tokens, ok bool) {
	tokens, err := scan(text)
	if err != nil {
		return nil, false
	}
	for _, t := range tokens {
		t.Position.Line += before
	}
	if !r.checkTokens(tokens, nest) {
		return nil, false
	}
	return r.oneDocument(tokens), len(r.problems) == 0
}
