package auth

// Reader says what claims of an issuer mean here, whatever they came in: it is for claims
// that somebody else has verified. It is safe for concurrent use.
type Reader struct{ issuer *issuer }

// NewReader returns a Reader of the claims of an issuer. Of cfg it uses what says what
// claims become: the tenants, scopes and names, and what is required.
func NewReader(cfg Issuer) (*Reader, error) {
	mapping, err := newMapping(&cfg)
	if err != nil {
		return nil, err
	}
	return &Reader{&issuer{name: cfg.Issuer, mapping: mapping}}, nil
}

// Read returns whom the claims, which are a JSON object, speak for. The principal has no
// expiry, and Recheck refuses it, since no token stands behind it. The error is an *Error
// that says which claim is at fault.
func (r *Reader) Read(claims []byte) (Principal, error) {
	c, err := readClaims(claims)
	if err == nil && c.subject == "" {
		err = refuse("claims", "sub is needed")
	}
	var p Principal
	if err == nil {
		p, _, err = r.issuer.principal(&c)
	}
	return p, r.issuer.attributed(err, &c)
}
