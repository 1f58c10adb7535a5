package signin

import (
	"context"
	"time"
)

// LogoutVerifier is a Provider that tells when somebody has signed out there. It is asked
// for with a type assertion: some providers cannot.
// https://openid.net/specs/openid-connect-backchannel-1_0.html
type LogoutVerifier interface {
	// VerifyLogout returns what a logout token says, or an error if it is not one that
	// the provider made for us just now. It fetches nothing more than once in some
	// seconds, so strangers may call it.
	VerifyLogout(ctx context.Context, token string) (Logout, error)
}

// Logout tells that somebody has signed out. Subject and SessionID are not both empty.
type Logout struct {
	Subject   string // the sub claim: all sign-ins of this person; "": only those of SessionID
	SessionID string // as Identity.SessionID; "": all sign-ins of Subject
	Issued    time.Time
}
