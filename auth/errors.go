package auth

import (
	"errors"
	"net/url"
)

// Error says why a token was refused. Its text is for operators, not for the caller. The
// text and the cause hold no part of the token; of the fields, those hold some whose
// comments say so.
type Error struct {
	// Reason is one word for logs and metrics: missing, scheme, malformed, algorithm,
	// key, signature, issuer, audience, expired, early, lifetime, tenant, claims or
	// unavailable.
	Reason string
	Err    error // the cause; may be nil

	// Issuer is the configured name of the issuer whose key signed the token. It is empty
	// if no signature was verified: then nothing in the token is known to be true. A
	// caller who is told anything about such a token could learn by trying what is
	// configured here.
	Issuer string
	// Subject and Name are who the token is about, as in Principal. They are "" unless
	// the signature was verified.
	Subject, Name string
	// Claimed is the issuer that the token names, if Issuer is empty and the token could
	// be read. Anybody may have written it: it is of any length, has any characters, and
	// serves to find out what was sent, nothing else. An issuer that is not configured is
	// named only if it has the form of an address. Any other text may be something that
	// was not meant to be shown, such as a secret in the wrong place.
	Claimed string
	// Audience is set only if Reason is audience: what the token says that it is for. It
	// is the issuer's choice, of any length and with any characters. Expected is what is
	// configured for the issuer. Both are shared: do not modify.
	Audience, Expected []string
	// Claim is the path of the claim that was the fault, if the signature was verified
	// and one claim was; Expected has then what it could have been, the first 16 of
	// these, if that can be listed. Found is the JSON text that stands there, up to 256
	// bytes of it, and "" if nothing does. It is the issuer's choice, with any
	// characters.
	Claim, Found string
}

func (e *Error) Error() string { return "token refused: " + e.Reason }

// Unwrap returns the cause, nil if there is none.
func (e *Error) Unwrap() error { return e.Err }

// address returns an issuer that has the form of an address, and "" for any other text.
// https://openid.net/specs/openid-connect-core-1_0.html#IssuerIdentifier
func address(issuer string) string {
	u, err := url.Parse(issuer)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil ||
		u.RawQuery != "" || u.Fragment != "" {
		return ""
	}
	return issuer
}

// refuse returns an *Error with a cause of constant text.
func refuse(reason, detail string) error {
	return &Error{Reason: reason, Err: errors.New(detail)}
}
