package gateway

import (
	"fmt"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
)

// uncredited explains a call that was not made because its server was not told, or did
// not believe, who calls. The text is for a model, which can mend none of it; what the
// server or an endpoint said is in the log alone.
func uncredited(err *registry.UnavailableError) failure {
	text, known := faults[err.Credential]
	if !known {
		text = faults[credential.FaultMissing]
	}
	return failure{
		kind: kindUnavailable, reason: string(err.Credential), inside: true,
		rpcErr: mcp.Stable(mcp.CodeInternal, text.code,
			fmt.Sprintf(text.format, err.Server)).After(text.again),
	}
}

// faultText is what the client is told of a fault of a credential; format has a place for
// the name of the server.
type faultText struct {
	code, format string
	again        time.Duration
}

const (
	operator = "; the operator of this gateway must look at it (auth of the server)"
	goOn     = ". The call was not made. Go on without it."
)

var faults = map[credential.Fault]faultText{
	credential.FaultMissing: {
		"DB-UPSTREAM-CREDENTIAL",
		"This gateway has no usable credential for the server %s" + operator + goOn, downRetryMax,
	},
	credential.FaultRefused: {
		"DB-UPSTREAM-CREDENTIAL",
		"The server %s refused the credential with which this gateway calls it" + operator + goOn,
		downRetryMax,
	},
	credential.FaultClock: {
		"DB-UPSTREAM-CREDENTIAL",
		"The credential for the server %s was refused, and the clocks there and here differ" + operator +
			goOn,
		downRetryMax,
	},
	credential.FaultExchange: {
		"DB-UPSTREAM-TOKEN",
		"The service that gives tokens for the server %s refused one" + operator + goOn, downRetryMax,
	},
	credential.FaultAway: {
		"DB-UPSTREAM-TOKEN-DOWN",
		"The service that gives tokens for the server %s does not answer now. The call was not made. Try " +
			"again later, or go on without it.", time.Second,
	},
	credential.FaultSignIn: {
		"DB-UPSTREAM-SIGN-IN",
		"This gateway has no token of its user for the server %s. A new sign-in of the user to this " +
			"gateway may bring one" + goOn, downRetryMax,
	},
}
