package provider

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"golang.org/x/oauth2"

	"github.com/drawbridge-mcp/drawbridge/auth/signin"
	"github.com/drawbridge-mcp/drawbridge/internal/fetch"
)

const (
	maxCode = 64  // bytes of the error code of a provider
	maxSays = 300 // bytes of what it says beside that
)

// Error is an answer of a provider that is not what was asked for. Its text is for
// operators.
type Error struct {
	Doing  string // what was asked for
	Status int    // of HTTP
	Code   string // the error of OAuth, cleaned; "": the answer had none
	Says   string // what the provider says about it, cut and cleaned; may be ""

	anew bool // only a new sign-in helps
}

// Error implements error.
func (e *Error) Error() string {
	text := fmt.Sprintf("%s: status %d", e.Doing, e.Status)
	if e.Code != "" {
		text += ", " + e.Code
	}
	if e.Says != "" {
		text += ": " + e.Says
	}
	return text
}

// Unwrap returns signin.ErrSignInAgain if only a new sign-in helps, and
// signin.ErrClientRefused if the client of the gateway is at fault.
func (e *Error) Unwrap() error {
	switch {
	case e.anew:
		return signin.ErrSignInAgain
	case slices.Contains(refusing, e.Code):
		return signin.ErrClientRefused
	}
	return nil
}

// ending are the errors after which what was kept is worth nothing. A network error is
// none of them, nor is one that a later attempt may not meet.
// https://www.rfc-editor.org/rfc/rfc6749#section-5.2
// https://openid.net/specs/openid-connect-core-1_0.html#AuthError
var ending = []string{
	"invalid_grant", "interaction_required", "login_required", "consent_required",
	"account_selection_required",
	// of GitHub
	"bad_refresh_token", "bad_verification_code",
}

// refusing are the errors by which a provider refuses the client itself, whoever signs
// in.
// https://www.rfc-editor.org/rfc/rfc6749#section-5.2
var refusing = []string{
	"invalid_client", "unauthorized_client",
	"incorrect_client_credentials", // of GitHub
}

// withoutSecrets returns the error of a request to a token endpoint without anything that
// was sent. secrets are the texts that a careless provider could repeat.
func withoutSecrets(doing string, err error, secrets ...string) error {
	answer, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok {
		return bare(doing, err)
	}
	e := &Error{
		Doing: doing, Code: fetch.Clean(answer.ErrorCode, maxCode, secrets),
		Says: fetch.Clean(answer.ErrorDescription, maxSays, secrets),
		anew: slices.Contains(ending, answer.ErrorCode),
	}
	if answer.Response != nil {
		e.Status = answer.Response.StatusCode
	}
	return e
}

// refreshFailed returns the error of a refresh that has failed. It is
// signin.ErrUnanswered unless the provider itself has refused, or nothing was sent to it.
// With most statuses from 500 on, something in front of the provider may have lost its
// answer.
func refreshFailed(failed error) error {
	refused, ok := errors.AsType[*Error](failed)
	if errors.Is(failed, errUnsent) || ok &&
		(refused.Status < http.StatusInternalServerError || refused.Status == http.StatusServiceUnavailable) {
		return failed
	}
	return fmt.Errorf("%w: %w", signin.ErrUnanswered, failed)
}

// bare returns an error without the address that net/http puts in front of it, cut: the
// libraries write whole answers into some.
func bare(doing string, err error) error {
	err = fetch.Bare(err)
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	return &cutError{text: doing + ": " + fetch.Clean(err.Error(), maxSays, nil), err: err}
}

// cutError is an error of which only the beginning is told.
type cutError struct {
	text string
	err  error
}

func (e *cutError) Error() string { return e.text }
func (e *cutError) Unwrap() error { return e.err }
