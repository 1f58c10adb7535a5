package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// text returns the text of a scalar. Anything else, and an empty text, is a problem, and the result is "". A scalar
// with a broken variable yields "" without another problem, since faultBroken reports it.
func (r *reader) text(n *node) string {
	switch {
	case n.kind != scalar:
		r.fault(n, "a text is wanted here")
	case n.broken != "":
	case n.text == "" && n.expanded:
		r.fault(n, "%s is empty", n.raw)
	case n.text == "":
		r.fault(n, "a text is wanted here, not an empty one")
	case strings.ContainsRune(n.text, 0):
		r.fault(n, "a text with a NUL character")
	default:
		return n.text
	}
	return ""
}

// parsed returns what parse makes of the text of a scalar. If parse fails, that is a problem, and the result is zero.
// The message quotes what the file has and not the error of parse, which might repeat the value of a variable. Want
// says what is expected, as in "a size over zero".
func parsed[T any](r *reader, n *node, want string, parse func(string) (T, error)) T {
	var zero T
	if n.broken != "" {
		return zero
	}
	if n.kind != scalar {
		r.fault(n, "%s is wanted here", want)
		return zero
	}
	v, err := parse(n.text)
	if err != nil {
		r.fault(n, "%q is not %s", n.raw, want)
		return zero
	}
	return v
}

func (r *reader) boolean(n *node) bool {
	return parsed(r, n, "true or false", func(s string) (bool, error) {
		if s != "true" && s != "false" {
			return false, strconv.ErrSyntax
		}
		return s == "true", nil
	})
}

// integer returns a whole number from low to high.
func (r *reader) integer(n *node, low, high int) int {
	want := fmt.Sprintf("a whole number from %d to %d", low, high)
	return parsed(r, n, want, func(s string) (int, error) {
		v, err := strconv.Atoi(s)
		if err == nil && (v < low || v > high) {
			err = strconv.ErrRange
		}
		return v, err
	})
}

// rate returns a number that is not negative.
func (r *reader) rate(n *node) float64 {
	return parsed(r, n, "a number of 0 or more", func(s string) (float64, error) {
		v, err := strconv.ParseFloat(s, 64)
		if err == nil && (math.IsNaN(v) || v < 0 || v > 1e9) {
			err = strconv.ErrRange
		}
		return v, err
	})
}

// duration returns a duration over zero.
func (r *reader) duration(n *node) time.Duration {
	return parsed(r, n, "a duration over zero, like 500ms, 30s, 5m or 24h", func(s string) (time.Duration, error) {
		d, err := time.ParseDuration(s)
		if err == nil && d <= 0 {
			err = strconv.ErrRange
		}
		return d, err
	})
}

// size returns a count of bytes over zero.
func (r *reader) size(n *node) int64 {
	return parsed(r, n, "a size over zero, like 4096, 512KiB, 4MiB or 1GiB", parseSize)
}

// parseSize returns the bytes that a size such as 4096 or 512KiB stands for. The bound of 2 TiB keeps the product of
// number and unit from overflowing.
func parseSize(s string) (int64, error) {
	unit := int64(1)
	for suffix, bytes := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		if rest, ok := strings.CutSuffix(s, suffix); ok {
			s, unit = strings.TrimSpace(rest), bytes
			break
		}
	}
	v, err := strconv.ParseInt(s, 10, 64)
	if err == nil && (v <= 0 || v > math.MaxInt32*1024/unit) {
		err = strconv.ErrRange
	}
	return v * unit, err
}

// choice returns the text of a scalar that must be one of the words, "" after a problem.
func (r *reader) choice(n *node, words ...string) string {
	word := r.text(n)
	if word == "" || slices.Contains(words, word) {
		return word
	}
	r.faultHint(n, nearest(n.raw, words), "%q is not one of %s", n.raw, strings.Join(words, ", "))
	return ""
}

// texts returns the texts of a list. A text that is repeated is a problem and is returned once.
func (r *reader) texts(n *node, what string) []string {
	var out []string
	r.eachText(n, what, func(_ *node, text string) { out = append(out, text) })
	return out
}

// eachText calls read for each text of a list with its node. A text that stands twice in the list is a problem, because
// it is likely a slip for another one; read is not called for it again.
func (r *reader) eachText(n *node, what string, read func(at *node, text string)) {
	seen := make(map[string]bool)
	r.sequence(n, what, func(item *node) {
		text := r.text(item)
		switch {
		case text == "":
		case seen[text]:
			r.fault(item, "%q stands twice in %s", item.raw, what)
		default:
			seen[text] = true
			read(item, text)
		}
	})
}

// orList writes words as a choice: a, b or c.
func orList(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// checkedTexts returns a list of texts, each of which passes check.
func (r *reader) checkedTexts(n *node, what string, check func(string) error) []string {
	var out []string
	r.eachText(n, what, func(at *node, text string) {
		if err := check(text); err != nil {
			r.fault(at, "%q: %s", at.raw, err)
			return
		}
		out = append(out, text)
	})
	return out
}
