// Package sanitize answers whether what a server sent is clean, and repairs it. A server
// can hide instructions to a model in characters that no human reader sees, can drive the
// terminal of the reader with escape sequences, and can pass on secrets by accident. The
// package removes such characters and sequences, redacts known kinds of secrets, and
// leaves every byte of a value in which no rule fires. Cleaning what was cleaned before
// changes nothing.
//
// The package knows where texts stand in results, notifications, errors and definitions
// of the protocol. It deliberately does not know who sent them or who may read them, does
// not judge plain language, and leaves Markdown, HTML and links within texts alone: those
// are content.
//
//	Policy.Result, Policy.Notification, Policy.Error, Definition
//	   |
//	   v
//	walker   goes through raw JSON; its position says what becomes of the value there, and
//	   |     protocol where its members stand. block.go: content blocks and URIs;
//	   |     file.go and stretch.go: files; budget.go: the limit of text;
//	   |     offence.go: what must not be edited
//	   v
//	scan     looks at the bytes of one JSON string; most strings need nothing more
//	   v
//	cleaner  decodes a string in which a rule may fire, and runs the passes that inspect asks for:
//	         removeControls --> removeHidden --> redact
//
// Reading order: sanitize.go and definition.go (what others call), position.go,
// protocol.go, walk.go, block.go, file.go with stretch.go, budget.go and offence.go (the
// JSON), scan.go and clean.go (one string), control.go, hidden.go with bidi.go,
// script.go, variation.go and invisible.go, and secret.go with credential.go,
// secretrules.go and privatekey.go (the passes), report.go.
package sanitize

import (
	"cmp"
	"errors"
	"math"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// Mode says what to do when a rule fires.
type Mode int

// Modes. The zero Mode repairs.
const (
	Repair Mode = iota // remove hidden text, redact secrets
	Off                // do not look
	Block              // for secrets: the result becomes an error; elsewhere as Repair
)

// Policy is how one tenant wants its output cleaned. The zero Policy repairs everything.
// Its methods are safe for concurrent use.
type Policy struct {
	Secrets    Mode
	HiddenText Mode // of hidden characters, control characters and escape sequences; Block means Repair here
	MaxText    int  // bytes of text in one result, and of its structured content; zero: 1 MiB
	// bytes of one member with Base64, as encoded, and of a file that is never edited;
	// zero: 8 MiB
	MaxBinary int
	// Released are digests of files that the operator of their server lets in although
	// they hide text or hold a secret.
	Released []string
	// Files tells that all contents of resources are files that are never edited.
	Files bool
}

const (
	defaultMaxText   = 1 << 20
	defaultMaxBinary = 8 << 20
)

// Errors of Result.
var (
	// ErrBlocked says that the output holds a secret and Policy.Secrets is Block.
	ErrBlocked = errors.New("output holds a secret")
	// ErrTooLarge says that structured content or a Base64 member is over its limit.
	// Unlike text, neither can be cut: what remained would no longer be valid.
	ErrTooLarge = errors.New("output too large")
)

// SizeError is the ErrTooLarge of one limit.
type SizeError struct {
	Setting string // under output of the tenant: max_text or max_binary
	Limit   int    // bytes
}

func (e *SizeError) Error() string { return ErrTooLarge.Error() + ": " + e.Setting }

// Unwrap returns ErrTooLarge.
func (e *SizeError) Unwrap() error { return ErrTooLarge }

// Result cleans the result of a call: of a tool, a prompt, a resource or a completion,
// and the questions and tasks that may come in the place of one. Text over the limit is
// cut and marked. The same Object comes back when no rule fires. Errors are ErrBlocked,
// *SizeError and *HiddenError; the Report says what was found even beside an error.
func (p Policy) Result(result mcp.Object) (mcp.Object, Report, error) {
	at := completed
	switch result.Text("resultType") {
	case "input_required":
		at = asking
	case "task":
		at = taskMade
		if result.Has("taskId") {
			at = taskState
		}
	}
	return p.result(result, at)
}

// Task cleans what a server says of a task, as in the answer to tasks/get. It is like
// Result.
func (p Policy) Task(state mcp.Object) (mcp.Object, Report, error) { return p.result(state, taskState) }

// Skill cleans what stands beside a skill in the answer to skills/get. The skill itself
// is judged as a definition is, by Definition. It is like Result.
func (p Policy) Skill(result mcp.Object) (mcp.Object, Report, error) {
	return p.result(result, skillGot)
}

// Directory cleans what a server says of the resources in a directory. It is like Result.
func (p Policy) Directory(result mcp.Object) (mcp.Object, Report, error) {
	return p.result(result, directory)
}

func (p Policy) result(result mcp.Object, at position) (mcp.Object, Report, error) {
	w := borrow(p)
	defer giveBack(w)
	w.remaining, w.maxBinary = cmp.Or(p.MaxText, defaultMaxText), cmp.Or(p.MaxBinary, defaultMaxBinary)
	maxStructured := w.remaining
	w.released, w.wholly = p.Released, p.Files
	cleaned := w.object(result, at)
	switch {
	case p.Secrets == Block && w.foundSecret, w.secretFile:
		return mcp.Object{}, w.report(), ErrBlocked
	case w.offences > 0:
		return mcp.Object{}, w.report(), w.refusal()
	case w.tooLarge:
		return mcp.Object{}, w.report(), &SizeError{"max_binary", w.maxBinary}
	case sizeOfStructured(cleaned, at) > maxStructured:
		return mcp.Object{}, w.report(), &SizeError{"max_text", maxStructured}
	}
	return cleaned, w.report(), nil
}

// sizeOfStructured returns how many bytes the structured content of a result has, or that
// of the result within a task.
func sizeOfStructured(result mcp.Object, at position) int {
	if at == taskState {
		result = result.Object("result")
	}
	return len(result.Value("structuredContent"))
}

// Notification cleans the params of a notification. It enforces no limits of size, and
// secrets are redacted even with Block. The error is a *HiddenError: such a notification
// must be dropped.
func (p Policy) Notification(params mcp.Object) (mcp.Object, Report, error) {
	w := borrow(p)
	defer giveBack(w)
	cleaned := w.object(params, notification)
	if w.offences > 0 {
		return mcp.Object{}, w.report(), w.refusal()
	}
	return cleaned, w.report(), nil
}

// Error cleans message and data of an error that a server sent. It enforces no limits of
// size, and secrets are redacted even with Block. Data that hides text where it must not
// be edited is left out. The same error comes back when no rule fires; e itself is not
// modified.
func (p Policy) Error(e *mcp.Error) (*mcp.Error, Report) {
	w := borrow(p)
	defer giveBack(w)
	cleaned := *e
	message, changed := w.rewrite(mcp.String(e.Message), free)
	if changed {
		cleaned.Message, _ = message.Text()
	}
	if e.Data != nil {
		at := free
		if e.Code == mcp.CodeURLElicitation {
			at = failure
		}
		data, differs := w.rewrite(e.Data, at)
		if w.offences > 0 {
			data, differs = nil, true
		}
		cleaned.Data, changed = data, changed || differs
	}
	if !changed {
		return e, w.report()
	}
	return &cleaned, w.report()
}

// unlimited is a limit that nothing exceeds.
const unlimited = math.MaxInt

// Text cleans a text for records, or for an operator: it redacts secrets and removes what
// hides.
func Text(text string) string {
	w := borrow(Policy{})
	defer giveBack(w)
	cleaned, _ := w.repair([]byte(text))
	return string(cleaned)
}
