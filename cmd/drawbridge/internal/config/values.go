package config

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// into is a row of a table of keys: the value of the key goes where to points, and read
// makes it. Where read needs more than the node, a method of reader returns it: between,
// among, textsOf and the like.
func into[T any](to *T, read func(*node) T) func(*node) {
	return func(n *node) { *to = read(n) }
}

// pointer is read for a value that may be left out, since zero is a value of its own.
func pointer[T any](read func(*node) T) func(*node) *T {
	return func(n *node) *T { return new(read(n)) }
}

// section is a row of a key whose value is a mapping with known keys.
func (r *reader) section(what string, known fields) func(*node) {
	return func(n *node) { r.object(n, what, known) }
}

// faultBroken records why a variable in a text could not be replaced, and tells whether
// that is so.
func (r *reader) faultBroken(n *node) bool {
	if n.broken != "" {
		r.fault(n, "%s", n.broken)
	}
	return n.broken != ""
}

// text returns the text of a scalar. Anything else, and an empty text, is a problem, and
// the result is "".
func (r *reader) text(n *node) string {
	if r.faultBroken(n) || r.faultFirst(
		wrong{n.kind != scalar, n, "a text is wanted here"},
		wrong{n.text == "", n, "a text is wanted here, not an empty one"},
		wrong{strings.ContainsRune(n.text, 0), n, "a text with a NUL character"},
		wrong{
			strings.ContainsAny(n.raw, "\r\n"), n,
			"a text with a line break; write |- or >- if it is only the one at the end",
		},
		// such as that at the end of a file: the text would name something else
		wrong{
			strings.ContainsAny(n.text, "\r\n"), n,
			"the value of a variable brings a line break into " + n.raw + " (at its end?)",
		}) {
		return ""
	}
	return n.text
}

// parsed returns what parse makes of the text of a scalar. If parse fails, or what it
// returns is not valid, that is a problem, and the result is zero; nil for valid takes
// all. The message quotes what the file has and not the error of parse, which might
// repeat the value of a variable. Want says what is expected, as in "a size over zero".
func parsed[T any](
	r *reader, n *node, want string, parse func(string) (T, error), valid func(T) bool,
) T {
	var zero T
	if r.faultBroken(n) || r.faultFirst(wrong{n.kind != scalar, n, want + " is wanted here"}) {
		return zero
	}
	v, err := parse(n.text)
	if err != nil || valid != nil && !valid(v) {
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
	}, nil)
}

// between reads a whole number from low to high.
func (r *reader) between(low, high int) func(*node) int {
	return func(n *node) int {
		want := fmt.Sprintf("a whole number from %d to %d", low, high)
		return parsed(r, n, want, strconv.Atoi, func(v int) bool { return v >= low && v <= high })
	}
}

// rate returns a number that is not negative.
func (r *reader) rate(n *node) float64 {
	return parsed(r, n, "a number of 0 or more",
		func(s string) (float64, error) { return strconv.ParseFloat(s, 64) },
		func(v float64) bool { return v >= 0 && v <= 1e9 }) // which NaN is not
}

// duration returns a duration over zero.
func (r *reader) duration(n *node) time.Duration {
	return parsed(r, n, "a duration over zero, like 500ms, 30s, 5m or 24h", time.ParseDuration,
		func(d time.Duration) bool { return d > 0 })
}

// size returns a count of bytes over zero.
func (r *reader) size(n *node) int64 {
	return parsed(r, n, "a size over zero, like 4096, 512KiB, 4MiB or 1GiB", parseSize, nil)
}

// parseSize returns the bytes that a size such as 4096 or 512KiB stands for. The bound of
// 2 TiB keeps the product of number and unit from overflowing.
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

// sizeFrom reads a size of at least so many bytes; of less it says problem.
func (r *reader) sizeFrom(least int64, problem string) func(*node) int64 {
	return bounded(r, r.size, least, math.MaxInt64, problem)
}

// bounded reads a value from least to most by read, which returns zero after a problem.
// Of any other value it says problem.
func bounded[T ~int64](r *reader, read func(*node) T, least, most T, problem string) func(*node) T {
	return func(n *node) T {
		v := read(n)
		if v != 0 && (v < least || v > most) {
			r.fault(n, "%s: %s", n.raw, problem)
		}
		return v
	}
}

// choice returns the text of a scalar that must be one of those allowed, "" after a
// problem. Programs that read YAML by its older version, such as Helm, pass on and off on
// as true and false.
func (r *reader) choice(n *node, allowed ...string) string {
	text := r.text(n)
	if word := map[string]string{"true": "on", "false": "off"}[text]; slices.Contains(allowed, word) {
		return word
	}
	if text == "" || slices.Contains(allowed, text) {
		return text
	}
	r.faultHint(n, nearest(n.raw, allowed), "%q is not one of %s", n.raw, strings.Join(allowed, ", "))
	return ""
}

// among reads a text that must be one of those allowed.
func (r *reader) among(allowed ...string) func(*node) string {
	return func(n *node) string { return r.choice(n, allowed...) }
}

// is reads one of those allowed, and tells whether it is that one.
func (r *reader) is(value string, allowed ...string) func(*node) bool {
	return func(n *node) bool { return r.choice(n, allowed...) == value }
}

// textsOf reads the texts of a list. A text that is repeated is a problem and is returned
// once.
func (r *reader) textsOf(what string) func(*node) []string {
	return r.checkedTexts(what, func(string) error { return nil })
}

// filled reads a list that must not be empty. Of an empty one it says problem.
func (r *reader) filled(problem string, read func(*node) []string) func(*node) []string {
	return func(n *node) []string {
		r.faultEmpty(n, problem)
		return read(n)
	}
}

// eachText calls read for each text of a list with its node. A text that stands twice in
// the list is a problem, because it is likely a slip for another one; read is not called
// for it again.
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

// checkedTexts reads a list of texts, each of which passes check.
func (r *reader) checkedTexts(what string, check func(string) error) func(*node) []string {
	return func(n *node) (out []string) {
		r.eachText(n, what, func(at *node, text string) {
			if err := check(text); err != nil {
				r.fault(at, "%q: %s", at.raw, err)
				return
			}
			out = append(out, text)
		})
		return out
	}
}

// textsAmong reads a list of texts, each of which is one of those allowed.
func (r *reader) textsAmong(what string, allowed ...string) func(*node) []string {
	return func(n *node) (out []string) {
		r.eachText(n, what, func(at *node, _ string) {
			if text := r.choice(at, allowed...); text != "" {
				out = append(out, text)
			}
		})
		return out
	}
}

// named reads values by names that the operator chooses.
func named[T any](r *reader, what string, read func(*node) T) func(*node) map[string]T {
	return func(n *node) map[string]T {
		out := make(map[string]T, len(n.members))
		r.entries(n, what, func(m member) { out[m.name] = read(m.value) })
		return out
	}
}

// path returns the name of a file. A relative name begins at the directory of the file in
// which it stands, so that an included file can be moved together with the keys beside
// it. "" after a problem.
func (r *reader) path(n *node) string {
	name := r.text(n)
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(n.file), name)
}

// existing reads the path of what must be there and be of a kind, which is tells. Of
// anything else it says problem.
func (r *reader) existing(problem string, is func(os.FileMode) bool) func(*node) string {
	return func(n *node) string {
		path := r.path(n)
		if info, err := os.Stat(path); path != "" && (err != nil || !is(info.Mode())) {
			r.fault(n, problem, n.raw)
			r.await(path)
		}
		return path
	}
}

// read returns the content of a small file that the config names, such as a key; nil
// after a problem.
func (r *reader) read(n *node) []byte {
	path := r.path(n)
	if path == "" {
		return nil
	}
	data, _, err := r.source(path)
	switch {
	case err != nil && n.expanded: // the value of a variable may be no path, but the secret itself
		r.fault(n, "%s", strings.ReplaceAll(err.Error(), path, n.raw))
		return nil
	case err != nil:
		r.fault(n, "%s", err)
		return nil
	}
	return data
}

// fromFile reads a file that the config names, of whose content parse makes the value;
// zero if there is no such file.
func fromFile[T any](r *reader, parse func(data []byte) (T, error)) func(*node) T {
	return func(n *node) (out T) {
		data := r.read(n)
		if data == nil {
			return out
		}
		out, err := parse(data)
		if err != nil {
			r.fault(n, "%s: %s", n.raw, err)
		}
		return out
	}
}

// await adds a path to the sources for which the config is refused, because nothing is
// there or it cannot be used, and which is no source otherwise. When that is mended, the
// config must be read again.
func (r *reader) await(path string) { _, _, _ = r.source(path) } // its content is not wanted here

// source reads a file and adds it to the sources, even if it cannot be read: when it
// appears, the config must be read again. It also says which file it is, nil if there is
// none.
func (r *reader) source(path string) ([]byte, os.FileInfo, error) {
	data, info, err := readFile(path)
	r.cfg.Sources.files = append(r.cfg.Sources.files, path)
	r.cfg.Sources.sum = chain(r.cfg.Sources.sum, data, err)
	return data, info, err
}
