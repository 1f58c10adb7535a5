package signin

import (
	"cmp"
	"net/http"

	"github.com/drawbridge-mcp/drawbridge/auth/signin/pages"
	"github.com/drawbridge-mcp/drawbridge/internal/audit"
)

// problemError is a problem that a person is told, on a page.
type problemError struct {
	status int
	page   pages.Problem
	line   audit.Record // what is put on record, but for the outcome
	tell   func()       // logs what was at fault, unless there are too many; nil: nothing is logged
	back   string       // where the client learns of it that waits for an answer; "": none does
}

// newProblem returns a problem of which no more is known than its reason.
func newProblem(status int, page pages.Problem, reason string) *problemError {
	return &problemError{status: status, page: page, line: audit.Record{Reason: reason}}
}

// telling returns the problem, of which tell logs what was at fault.
func (p *problemError) telling(tell func()) *problemError {
	p.tell = tell
	return p
}

func (p *problemError) Error() string { return p.line.Reason }

// fault is an error that a client is told, with a word of OAuth.
type fault struct {
	code   string
	says   string // for whoever reads the client's log; constant text
	reason string // one word for metrics and log; "": the code
	status int    // at the token endpoint; zero: 400
	tell   func() // as of problemError
}

func (f *fault) Error() string { return f.code + ": " + f.says }

// label returns the word for metrics and log.
func (f *fault) label() string {
	return cmp.Or(f.reason, f.code)
}

// Faults that several endpoints have.
var (
	errClient = &fault{
		code:   "invalid_client",
		says:   "the client is not known here, or did not prove who it is: register again",
		status: http.StatusUnauthorized,
	}
	errUnauthorized = &fault{code: "unauthorized_client", says: "the client may not use this grant"}
	errGrant        = &fault{
		code: "invalid_grant",
		says: "the code or token is not valid any more: sign in again",
	}
	errResource = &fault{
		code: "invalid_target",
		says: "the resource is not the one of this authorization server",
	}
	errRepeated = &fault{
		code: "invalid_request",
		says: "a parameter is missing, stands there twice or is too long",
	}
	errDenied = &fault{code: "access_denied", says: "the person did not allow it"}
	errScope  = &fault{code: "invalid_scope", says: "none of the scopes is known here"}
)
