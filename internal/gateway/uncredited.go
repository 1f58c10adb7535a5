package gateway

import (
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
)

// uncredited explains a call that was not made because its server was not told, or did not
// believe, who calls. The text is for a model, which can mend none of it; what
// the server or an endpoint said is in the log alone.
func uncredited(err *registry.UnavailableError) failure {
	const (
		operator = "; the operator of this gateway must look at it (auth of the server)"
		goOn     = ". The call was not made. Go on without it."
	)
	server := "the server " + err.Server
	code, text, again := "DB-UPSTREAM-CREDENTIAL", "This gateway has no usable credential for "+
		server+operator+goOn,
		downRetryMax
	switch err.Credential {
	case credential.FaultRefused:
		text = "The server " + err.Server + " refused the credential with which this gateway calls it" +
			operator + goOn
	case credential.FaultClock:
		text = "The credential for " + server + " was refused, and the clocks there and here differ" +
			operator + goOn
	case credential.FaultExchange:
		code = "DB-UPSTREAM-TOKEN"
		text = "The service that gives tokens for " + server + " refused one" + operator + goOn
	case credential.FaultAway:
		code, again = "DB-UPSTREAM-TOKEN-DOWN", time.Second
		text = "The service that gives tokens for " + server +
			" does not answer now. The call was not made. Try again later, or go on without it."
	case credential.FaultSignIn:
		code = "DB-UPSTREAM-SIGN-IN"
		text = "The server " + err.Server +
			" wants its user to sign in there, which this gateway cannot offer" + goOn
	case credential.FaultMissing:
	}
	return failure{
		kind: "unavailable", reason: string(err.Credential), inside: true,
		rpcErr: mcp.Stable(mcp.CodeInternal, code, text).After(again),
	}
}
