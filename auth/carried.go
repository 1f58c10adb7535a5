package auth

// MaxKept is the longest JSON text of a claim that goes on with a principal, in bytes.
const MaxKept = 4 << 10

// Claim is one claim of a token as its issuer wrote it.
type Claim struct {
	Name  string
	Value []byte // JSON, as it came; shared: do not modify
}

// held is the token of a principal. It is behind a pointer so that whatever prints a
// principal prints an address.
type held struct{ text string }
