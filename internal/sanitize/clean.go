package sanitize

import "unicode/utf8"

// cleaner cleans one decoded text after the other. The passes run in this order, so that each sees what the earlier
// ones left: controls and escapes, hidden code points, secrets.
type cleaner struct {
	counts

	unhides bool // remove controls and what hides
	redacts bool // redact secrets
	strict  bool // allow what hides nowhere
	held    bool // a secret was found

	current, spare []byte // buffers: a text that was decoded or changed is in current, the next pass writes to spare
}

// pass is a step of cleaning. It appends what becomes of text to dst; changed is false, and out of no meaning, when
// the pass changes nothing.
type pass func(dst, text []byte) (out []byte, changed bool)

// decode returns the text of a JSON string, valid until the next call.
func (c *cleaner) decode(raw []byte) []byte {
	inside := raw[1 : len(raw)-1]
	text := unescape(c.current[:0], inside)
	if len(text) > 0 && &text[0] != &inside[0] {
		c.current = text
	}
	return text
}

// repair returns text without what a rule fires on, valid until the next call of decode or repair; text itself when
// no rule fires.
func (c *cleaner) repair(text []byte) (cleaned []byte, changed bool) {
	seen := c.inspect(text)
	if seen&controls != 0 {
		text, changed = c.run(c.removeControls, text)
	}
	if seen&hiding != 0 {
		var removed bool
		text, removed = c.run(c.removeHidden, text)
		changed = changed || removed
	}
	if c.redacts && (changed || seen&secretive != 0) {
		var redacted bool
		text, redacted = c.run(c.redact, text)
		changed = changed || redacted
	}
	return text, changed
}

func (c *cleaner) run(step pass, text []byte) ([]byte, bool) {
	out, changed := step(c.spare[:0], text)
	if !changed {
		c.spare = out
		return text, false
	}
	c.current, c.spare = out, c.current
	return out, true
}

// maxScratch is the size of a buffer that is kept for the next use.
const maxScratch = 64 << 10

// shrink lets go of large buffers.
func (c *cleaner) shrink() {
	if cap(c.current)+cap(c.spare) > 2*maxScratch {
		c.current, c.spare = nil, nil
	}
}

// findings say which passes a text needs.
type findings uint8

const (
	controls findings = 1 << iota
	hiding
	secretive
)

// inspect looks once at every byte of a decoded text.
func (c *cleaner) inspect(text []byte) (seen findings) {
	for i := 0; i < len(text); {
		b := text[i]
		if b < utf8.RuneSelf {
			if b < ' ' || b == 0x7F {
				if isControl(rune(b)) || c.strict && loneReturn(text, i) {
					seen |= controls
				}
			} else if classes[b] == anchor && secretBegins(text, i) {
				seen |= secretive
			}
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		switch {
		case isControl(r):
			seen |= controls
		case suspect(r) || c.strict && unwanted(r):
			seen |= hiding
		}
		i += size
	}
	if !c.unhides {
		seen &= secretive
	}
	return seen
}
