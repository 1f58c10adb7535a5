// Package clients answers: which program asks for tokens, and where may the answers go?
// It knows programs that the operator has configured, that have registered themselves,
// and that have a document on the web. It knows nothing of people and of tokens.
//
// redirect.go has the rules for where answers go, registration.go reads what a program
// says of itself when it registers, document.go fetches what it says on the web, and
// registry.go finds a program by the id that it sends.
package clients

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"slices"
)

// ErrUnknown says that nobody has the id. Any other error of a Registry is passing.
var ErrUnknown = errors.New("no such client")

// Kind is how a client came to be known.
type Kind string

// The kinds of clients.
const (
	Configured Kind = "configured" // by the operator
	Registered Kind = "registered" // by itself
	Document   Kind = "document"   // by a document at the address that is its id
)

// Client is a program that asks for tokens.
type Client struct {
	Kind      Kind     `json:"kind"`
	ID        string   `json:"id,omitempty"`       // what it sends as client_id; see Stored
	Digest    string   `json:"digest"`             // of the id
	Name      string   `json:"name,omitempty"`     // by its own word; "": it has none
	Host      string   `json:"host,omitempty"`     // of its document; "": it has none
	Redirects []string `json:"redirects"`          // as registered
	Issued    int64    `json:"issued,omitempty"`   // when it registered itself, in seconds since 1970
	Localhost bool     `json:"loopback,omitempty"` // its document names no server that answers go to
}

// Fixed is a client that the operator has configured, as the reader of the config has
// checked it.
type Fixed struct {
	ID        string
	Secret    string // "": it has none, and is a public client
	Redirects []string
	Grants    []string // that it may use; none: authorization_code and refresh_token
	Tenant    string   // that its own tokens are for, as grants without a person need
	Scopes    []string // that its own tokens may have
}

// client returns the client that is configured.
func (f *Fixed) client() Client {
	return Client{Kind: Configured, ID: f.ID, Digest: DigestOf(f.ID), Name: f.ID, Redirects: f.Redirects}
}

// Has tells whether the client may use a grant.
func (f *Fixed) Has(grant string) bool {
	if len(f.Grants) == 0 {
		return grant == "authorization_code" || grant == "refresh_token"
	}
	return slices.Contains(f.Grants, grant)
}

// Proves tells whether secret is the client's. It takes as long for a wrong one. A client
// without a secret proves nothing by one.
func (f *Fixed) Proves(secret string) bool {
	want, got := sha256.Sum256([]byte(f.Secret)), sha256.Sum256([]byte(secret))
	return f.Secret != "" && subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

// MaxShort is how many bytes an id has at most that stands in tokens as it is; a longer
// one stands there by its digest.
const MaxShort = 200

// DigestOf returns a digest of a client id, or of any other text, that fits the name of a
// record, whatever characters the text has.
func DigestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Stored returns the client as it is kept: without an id that it made by registering.
// Such an id has the whole registration in it, and the digest is enough.
func (c *Client) Stored() Client {
	stored := *c
	if c.Kind == Registered {
		stored.ID = ""
	}
	return stored
}

// Short returns the client's name in tokens and records: its id, or the digest of an id
// that it made by registering.
func (c *Client) Short() string {
	if c.Kind == Registered || len(c.ID) > MaxShort || c.ID == "" {
		return "registered-" + c.Digest[:22]
	}
	return c.ID
}
