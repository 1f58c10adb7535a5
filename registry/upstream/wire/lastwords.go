package wire

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
)

// Limits of what is kept of a child's standard error, to be shown when the child fails.
const (
	maxLastLines = 10      // of all that it wrote, the last ones
	maxKeptLine  = 8 << 10 // bytes of a line, so that a long secret is known as one before the line is cut
	maxShownLine = 300     // bytes of a line that is shown
	minSecret    = 4       // bytes of a value that is looked for
)

// LastWords are the last lines that a child wrote to its standard error, as it wrote them. The zero value has none. It is
// safe for concurrent use.
type LastWords struct {
	mu    sync.Mutex // guards the fields below
	lines [maxLastLines][]byte
	next  int               // counts all that were added; the place of the next is its remainder
	hide  *strings.Replacer // of what the child was given in confidence; nil: there was no child
}

// begin begins anew, for another child, of which hide replaces what it was given in confidence.
func (w *LastWords) begin(hide *strings.Replacer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next, w.hide = 0, hide
}

// add keeps a copy of a line, in the memory of the one that it takes the place of.
func (w *LastWords) add(line []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	place := &w.lines[w.next%maxLastLines]
	*place = append((*place)[:0], line[:min(len(line), maxKeptLine)]...)
	w.next++
}

// Shown returns the lines for operators to read, the oldest first.
func (w *LastWords) Shown() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for i := max(0, w.next-maxLastLines); i < w.next; i++ {
		if line := readable(w.lines[i%maxLastLines], w.hide, maxShownLine); line != "" {
			out = append(out, line)
		}
	}
	return out
}

// readable returns what operators may read of a line that the present child wrote, in limit bytes.
func (w *LastWords) readable(line []byte, limit int) string {
	w.mu.Lock()
	hide := w.hide
	w.mu.Unlock()
	return readable(line, hide, limit)
}

// readable returns what operators may read of a line that a child wrote: no secret that the child was given, no known form
// of others, nothing that hides or commands a terminal, in limit bytes. Secrets go first, because a cut or a repair would
// leave parts of them.
func readable(line []byte, hide *strings.Replacer, limit int) string {
	text := hide.Replace(strings.ToValidUTF8(string(line), "\uFFFD"))
	cleaned, _ := sanitize.Policy{}.Error(&mcp.Error{Message: text})
	text = hide.Replace(cleaned.Message) // what control characters stood within
	text = strings.TrimSpace(strings.ReplaceAll(text, "\r", " "))
	if len(text) <= limit {
		return text
	}
	end := limit
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// hider replaces the values that a child was given in confidence by the names under which it got them: every line of every
// configured variable, and what a command line says after the name of a secret. Whether a variable is secret is not judged:
// its name says as much as its value.
func hider(env map[string]string, args []string) *strings.Replacer {
	type secret struct{ value, name string }
	var secrets []secret
	note := func(name, value string) {
		for line := range strings.Lines(value) {
			if line = strings.TrimSpace(line); len(line) >= minSecret {
				secrets = append(secrets, secret{line, name})
			}
		}
	}
	for name, value := range env {
		note(name, value)
	}
	for i, argument := range args {
		name, value, joined := strings.Cut(argument, "=")
		if !joined && i+1 < len(args) {
			value = args[i+1]
		}
		if strings.HasPrefix(name, "-") && secretFlag(name) {
			note(name, value)
		}
	}
	// Where one value is the beginning of another, the longer one is replaced as a whole.
	slices.SortFunc(secrets, func(a, b secret) int {
		return cmp.Or(cmp.Compare(len(b.value), len(a.value)), strings.Compare(a.name, b.name))
	})
	pairs := make([]string, 0, 2*len(secrets))
	for _, s := range secrets {
		pairs = append(pairs, s.value, "[REDACTED:"+s.name+"]")
	}
	return strings.NewReplacer(pairs...)
}

// secretFlag tells whether the name of a command-line flag is one of a secret.
func secretFlag(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"auth", "token", "secret", "key", "pass", "pwd", "cookie", "credential", "header"}, func(word string) bool {
		return strings.Contains(name, word)
	})
}
