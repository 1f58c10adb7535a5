package wire

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
)

// Limits of what is kept of a child's standard error, to be shown when the child fails.
const (
	maxLastLines  = 10      // how many lines are kept, the last ones
	maxStoredLine = 8 << 10 // bytes of a line that is kept: a secret is found before a cut halves it
	maxShownLine  = 300     // bytes of a line that is shown
	minSecret     = 4       // bytes of the shortest value that counts as a secret
	maxCauseAge   = 200     // how many lines after it a line that names an error is still shown
	maxCauseName  = 128     // bytes at the beginning of a line in which it names an error
)

// namesError matches the line in which the common runtimes name what ends a program, such
// as "TypeError: x is not a function", "panic: no such table", "fatal error: out of
// memory" or "thread 'main' panicked at src/main.rs:2:5:".
var namesError = regexp.MustCompile(
	`^\s*(Uncaught )?[\w.$]*(Error|Exception)( \[\w+\])?:|^Exception in thread |^(panic|fatal error|error|fatal): |^thread '.*' panicked at `)

// LastLines are the last lines that a child wrote to its standard error, kept as the
// child wrote them and cleaned when they are shown. Of the lines shortly before them, the
// newest that names an error is kept, too: Node.js and others print the error first and
// then a stack that is longer than what is kept. The zero value has none. It is safe for
// concurrent use.
type LastLines struct {
	mu    sync.Mutex // guards the fields below
	lines [maxLastLines][]byte
	next  int    // how many lines were added; line n is at n % maxLastLines
	cause []byte // the newest line that names an error and is no longer in lines
	since int    // what next was when cause left lines; zero: there is no cause
	// replaces what the child was given in confidence; nil: there was no child, hence no
	// line
	hide *strings.Replacer
}

// begin forgets the lines of the child before. hide replaces what the new child was given
// in confidence.
func (w *LastLines) begin(hide *strings.Replacer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next, w.since, w.hide = 0, 0, hide
}

// add keeps a copy of a line, in the memory of the line whose place it takes.
func (w *LastLines) add(line []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	slot := &w.lines[w.next%maxLastLines]
	// Only the beginning is looked at: to look at all that a child floods this with would
	// keep a processor busy, and the last lines of a child that ends then would not be
	// read in time.
	if w.next >= maxLastLines && namesError.Match((*slot)[:min(len(*slot), maxCauseName)]) {
		w.cause, *slot, w.since = *slot, w.cause, w.next
	}
	*slot = append((*slot)[:0], line[:min(len(line), maxStoredLine)]...)
	w.next++
}

// Shown returns the lines for operators to read, cleaned, the oldest first; nil when
// there are none.
func (w *LastLines) Shown() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	if w.since > 0 && w.next-w.since < maxCauseAge {
		if line := readable(w.cause, w.hide, maxShownLine); line != "" {
			out = append(out, line)
		}
	}
	for i := max(0, w.next-maxLastLines); i < w.next; i++ {
		if line := readable(w.lines[i%maxLastLines], w.hide, maxShownLine); line != "" {
			out = append(out, line)
		}
	}
	return out
}

// readable returns what operators may read of a line that a child wrote, in at most limit
// bytes. It removes the secrets that the child was given, texts that look like secrets,
// and characters that hide text or command a terminal. Known secrets are replaced first:
// a cut or a repair within one would leave the rest of it to be read.
func readable(line []byte, hide *strings.Replacer, limit int) string {
	text := hide.Replace(strings.ToValidUTF8(string(line), "\uFFFD"))
	text = hide.Replace(sanitize.Text(text)) // again, for secrets that hidden characters had split
	text = strings.TrimSpace(strings.ReplaceAll(text, "\r", " "))
	return mcp.Clip(text, limit)
}

// hider returns what replaces the values that a child was given in confidence by the
// names under which it got them. Those values are every line of every configured
// variable, and the value of each command-line flag whose name says that it is secret.
// All variables count, secret or not: a name tells an operator as much as the value.
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
		hidden := sanitize.NamesSecret(name) || strings.Contains(strings.ToLower(name), "header")
		if strings.HasPrefix(name, "-") && hidden {
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
