package auth

import (
	"sync"
	"time"
)

const (
	claimsEvery = time.Hour // how often it is asked whether any token had a claim
	fewTokens   = 5         // with fewer in that time nothing is said
)

// namedClaim counts which tokens of an issuer have a claim that the configuration names.
// A name that is misspelt is in no token: then callers lack scopes,
// or all are refused, and nothing else says why. The count is per check of a signature,
// which costs more than the mutex; a token that is remembered does not count again.
type namedClaim struct {
	issuer, advice string
	at             claimPath

	mu      sync.Mutex // guards the fields below
	tokens  int        // that were verified since Run looked last
	had     bool       // one of them had the claim
	missing int        // how many tokens of an hour all lacked it; zero: not so, or one had it since
}

// newNamedClaims returns the claims that the configuration of an issuer names. A scope
// claim that it leaves to the default is none of them: many issuers have no scopes. Nor
// are those of this gateway's own tokens, of which machines have no name.
func newNamedClaims(cfg *Issuer, m *mapping) []*namedClaim {
	if cfg.Own != nil {
		return nil
	}
	var named []*namedClaim
	add := func(at claimPath, setting, use string) {
		if at.isSet() {
			named = append(named, &namedClaim{issuer: cfg.Issuer, at: at, advice: "let " + setting +
				" name a claim of the issuer's access tokens, or let the issuer put this one into them; " +
				use})
		}
	}
	add(m.tenantAt, "tenants.claim", "until then these tokens are refused")
	if len(cfg.ScopeClaims) > 0 {
		for _, at := range m.scopesAt {
			add(at, "scopes.claims", "until then their callers lack its scopes")
		}
	}
	add(m.subjectAt, "subject_claim", "until then these tokens are refused")
	add(m.nameAt, "name_claim", "until then log and audit have no names")
	return named
}

// count counts a token of the issuer that is genuine, timely and meant for us.
func (n *namedClaim) count(c *claims) {
	has := n.at.in(c) != nil
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tokens++
	if has {
		n.had, n.missing = true, 0
	}
}

// begin begins another hour. It tells whether enough tokens of the last one all lacked
// the claim, and how many, if that was not told already.
func (n *namedClaim) begin() (tokens int, isNew bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	tokens, had := n.tokens, n.had
	n.tokens, n.had = 0, false
	if had || tokens < fewTokens {
		return 0, false
	}
	isNew = n.missing == 0
	n.missing = tokens
	return tokens, isNew
}

// MissingClaim is a claim that the configuration names and that no token of an hour had.
type MissingClaim struct {
	Issuer, Claim string
	Tokens        int    // how many were verified in that hour
	Advice        string // what the operator should do
}
