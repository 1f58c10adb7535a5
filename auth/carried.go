package auth

import (
	"context"
	"errors"
)

// MaxCarried is the longest JSON text of a claim that goes on with a principal, in bytes.
const MaxCarried = 4 << 10

// Claim is one claim of a token as its issuer wrote it.
type Claim struct {
	Name  string
	Value []byte // JSON, as it came; shared: do not modify
}

// ErrSubjectGone says that a principal has no token that could be shown for it, until the
// person signs in again.
var ErrSubjectGone = errors.New("the caller has no token that could be shown for it")

// carriedToken is how to get the token of a principal. It is behind a pointer so that
// whatever prints a principal prints an address.
type carriedToken struct {
	digest digest // of the token, or of the family that it is had for
	text   func(context.Context) (string, error)
}
