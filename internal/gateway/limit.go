package gateway

import (
	"errors"
	"fmt"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
)

// Stable codes of rates: of a tenant, of one user, and of a tool.
const (
	CodeTenantLimit = "DB-LIMIT-TENANT"
	CodeUserLimit   = "DB-LIMIT-USER"
	codeToolLimit   = "DB-LIMIT-TOOL"
)

// errNoSlots is the error of take where there never is a slot.
var errNoSlots = errors.New("there are no slots")

// rate is one bucket that was asked: the stable code when it is empty, and its setting
// under limits of the tenant.
type rate struct{ code, setting string }

// limitError is an error of the limiter, together with the rates of the buckets that were
// asked, in their order. The last rate stands for all further buckets.
type limitError struct {
	error
	rates []rate
}

func (e limitError) Unwrap() error { return e.error }

// clientError returns what the client is told of what was exceeded: whose limit it is,
// its setting, and when to come back. What one user may take of the tenant's is a limit
// of the user.
func (e limitError) clientError(exceeded *ratelimit.ExceededError) *mcp.Error {
	r := e.rates[min(exceeded.Bucket, len(e.rates)-1)]
	setting := "limits." + r.setting
	if exceeded.Share && r.code == CodeTenantLimit {
		r.code = CodeUserLimit
	}
	if exceeded.RetryAfter <= 0 {
		return mcp.Stable(mcp.CodeLimited, r.code, "This is more than "+setting+
			" of the tenant ever allows: only a higher limit would help")
	}
	what := "This tenant makes more requests than " + setting + " allows"
	switch {
	case exceeded.Share:
		what = "You have used your share of " + setting + ", which for one user is at most half of the burst"
	case r.code == CodeUserLimit:
		what = "You make more requests than " + setting + " allows one user"
	case r.code == codeToolLimit:
		what = "This tool is called more often than " + setting + " allows"
	}
	return mcp.Stable(mcp.CodeLimited, r.code, what+": try again in "+
		inSeconds(exceeded.RetryAfter)).After(exceeded.RetryAfter)
}

// noSlot returns what the client is told when take found no slot: whose slots are
// taken, and by which setting there are no more. Where the setting allows none, no time
// is given. err is the error of take, or wraps it.
func noSlot(err error, code, what, setting string, retry time.Duration) *mcp.Error {
	if errors.Is(err, errNoSlots) {
		return mcp.Stable(mcp.CodeLimited, code, "No "+what+" are allowed to this tenant by "+setting+
			": only a higher limit would help")
	}
	whose := "This tenant has as many " + what + " open as " + setting + " allows"
	if errors.Is(err, share.ErrUser) {
		whose = "You have half of the " + what + " that " + setting +
			" allows this tenant, which is the most for one user"
	}
	return mcp.Stable(mcp.CodeLimited, code, whose+": end some, or try again in "+
		inSeconds(retry)).After(retry)
}

// inSeconds writes a time to wait, rounded up to whole seconds like the header
// Retry-After.
func inSeconds(d time.Duration) string { return fmt.Sprintf("%d s", (d+time.Second-1)/time.Second) }
