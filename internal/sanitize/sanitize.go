// Package sanitize answers: is this output clean? It removes what hides from a human reader, terminal escapes and
// known secrets from texts that an upstream sent, and leaves every byte of a value in which no rule fires.
//
// It knows where texts stand in results, notifications, errors and definitions of the protocol. It does not know who
// sent them or who may read them, it does not judge plain language, and it leaves Markdown, HTML and links in texts
// alone: those are content.
package sanitize

import (
	"cmp"
	"errors"
	"math"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// Mode is what to do with a finding.
type Mode int

// Modes. The zero Mode repairs.
const (
	Repair Mode = iota // remove or redact
	Off
	Block // secrets only: the result becomes an error
)

// Policy is how one tenant wants its output.
type Policy struct {
	Secrets    Mode
	HiddenText Mode // Block repairs
	MaxText    int  // bytes of text in one result; zero: 1 MiB
	MaxBinary  int  // bytes of one base64 member; zero: 8 MiB
}

const (
	defaultMaxText   = 1 << 20
	defaultMaxBinary = 8 << 20
)

// ErrBlocked: the output holds a secret and the policy blocks. ErrTooLarge: structured content or binary over its limit.
var (
	ErrBlocked  = errors.New("output holds a secret")
	ErrTooLarge = errors.New("output too large")
)

// Result cleans the result of a call (tools, prompts, resources). The same Object comes back when no rule fires.
// Errors are ErrBlocked and ErrTooLarge; the Report beside one says what was found.
func (p Policy) Result(result mcp.Object) (mcp.Object, Report, error) {
	w := borrow(p)
	defer giveBack(w)
	w.room, w.maxBinary = cmp.Or(p.MaxText, defaultMaxText), cmp.Or(p.MaxBinary, defaultMaxBinary)
	maxStructured := w.room
	cleaned := w.object(result, envelope)
	switch {
	case p.Secrets == Block && w.held:
		return mcp.Object{}, w.report(), ErrBlocked
	case w.tooLarge || len(cleaned.Value("structuredContent")) > maxStructured:
		return mcp.Object{}, w.report(), ErrTooLarge
	}
	return cleaned, w.report(), nil
}

// Notification cleans the params of a notification, and of a request that an upstream sends. It has no limits of size,
// and Block redacts: a notification has no way to fail.
func (p Policy) Notification(params mcp.Object) (mcp.Object, Report) {
	w := borrow(p)
	defer giveBack(w)
	return w.object(params, envelope), w.report()
}

// Error cleans message and data of an upstream's error. It has no limits of size, and Block redacts. The same error
// comes back when no rule fires.
func (p Policy) Error(e *mcp.Error) (*mcp.Error, Report) {
	w := borrow(p)
	defer giveBack(w)
	cleaned := *e
	message, changed := w.rewrite(mcp.String(e.Message), free)
	if changed {
		cleaned.Message, _ = message.Text()
	}
	if e.Data != nil {
		data, differs := w.rewrite(e.Data, envelope)
		cleaned.Data, changed = data, changed || differs
	}
	if !changed {
		return e, w.report()
	}
	return &cleaned, w.report()
}

// unlimited is room for any text.
const unlimited = math.MaxInt
