package sanitize

import (
	"bytes"
	"unicode/utf8"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// cleaner cleans one decoded text after the other. The passes run in this order: control
// characters and escape sequences, hidden code points, secrets. Each sees what the
// earlier ones left. In the other order, a zero-width space within a secret would hide
// the secret from the rules, and removing it later would put the secret together again.
type cleaner struct {
	counts

	unhides     bool // remove controls, escapes and hidden code points
	redacts     bool // redact secrets
	strict      bool // for definitions: keep no hidden code point but a variation selector with a base
	foundSecret bool // a secret was found

	// Two buffers that change roles: a text that was decoded or changed is in current,
	// and the next pass writes to spare. A cleaned text is therefore only valid until the
	// next one is decoded or repaired.
	current, spare []byte
}

// pass is one step of cleaning. It appends the cleaned text to dst. When changed is
// false, text needs no change, and out is only a buffer to use again.
type pass func(dst, text []byte) (out []byte, changed bool)

// unquoted returns the text of a valid JSON string: a part of raw if that has no escape,
// otherwise the text appended to dst.
func unquoted(dst, raw []byte) []byte {
	if inside := raw[1 : len(raw)-1]; bytes.IndexByte(inside, '\\') < 0 {
		return inside
	}
	return strictjson.AppendUnquote(dst, raw)
}

// decode returns the text of a JSON string, given with its quotation marks. The text may
// share memory with raw, and is valid until the next call of decode or repair.
func (c *cleaner) decode(raw []byte) []byte {
	text := unquoted(c.current[:0], raw)
	if len(text) > 0 && &text[0] != &raw[1] {
		c.current = text
	}
	return text
}

// repair returns text without what rules fire on, or text itself, unchanged, when none
// fires. The result is valid until the next call of decode or repair.
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
	// After a change, inspect's word no longer counts: what was removed may have stood
	// within a secret.
	if c.redacts && (changed || seen&secretive != 0) {
		var beside, redacted bool
		text, beside = c.run(c.redactBeside, text)
		text, redacted = c.run(c.redact, text)
		changed = changed || beside || redacted
	}
	return text, changed
}

// run runs one pass and exchanges the buffers when it changed something.
func (c *cleaner) run(step pass, text []byte) ([]byte, bool) {
	out, changed := step(c.spare[:0], text)
	if !changed {
		c.spare = out
		return text, false
	}
	c.current, c.spare = out, c.current
	return out, true
}

// maxScratch is the size up to which a buffer is kept for the next use, in bytes.
const maxScratch = 64 << 10

// shrink drops large buffers, so that one large result does not occupy memory in the pool
// for good.
func (c *cleaner) shrink() {
	if cap(c.current)+cap(c.spare) > 2*maxScratch {
		c.current, c.spare = nil, nil
	}
}

// findings say which passes a text may need.
type findings uint8

const (
	controls  findings = 1 << iota // removeControls
	hiding                         // removeHidden
	secretive                      // redact
)

// inspect looks once at every byte of a decoded text. It may name a pass that then
// changes nothing, but misses none that would change the text.
func (c *cleaner) inspect(text []byte) (seen findings) {
	for i := 0; i < len(text); {
		b := text[i]
		if b < utf8.RuneSelf {
			if b < ' ' || b == 0x7F {
				if isControl(rune(b)) || c.strict && overwrites(text, i) {
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
