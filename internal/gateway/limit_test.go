package gateway

import (
	"strings"
	"testing"
)

// TestUnderALimitOfZeroNobodyIsToldToTryAgain calls a tool, and opens a stream, where
// limits allow none.
func TestUnderALimitOfZeroNobodyIsToldToTryAgain(t *testing.T) {
	none := 0
	b := newBench(t, TenantConfig{
		ID: "acme", Servers: []string{"box"}, Rules: []Rule{{Allow: []string{"*"}}},
		Limits: Limits{Concurrency: &none, Streams: &none},
	})
	_, _, failure := b.run(t, "box__plain", `{}`)
	_, err := b.OpenStream(t.Context(), b.caller(t, alice), "get")
	for what, got := range map[string]error{
		"DB-LIMIT-CONCURRENCY limits.concurrency": failure,
		"DB-LIMIT-STREAMS limits.streams":         err,
	} {
		code, setting, _ := strings.Cut(what, " ")
		failure := asError(t, got)
		if stable(failure) != code || failure.RetryAfter != 0 ||
			!strings.Contains(failure.Message, setting) || strings.Contains(failure.Message, "try again") {
			t.Errorf("got %v, retry after %v; want %s without a time", failure, failure.RetryAfter, code)
		}
	}
}
