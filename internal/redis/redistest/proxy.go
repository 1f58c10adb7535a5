package redistest

import (
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/fatal"
	"github.com/drawbridge-mcp/drawbridge/internal/netfault"
)

// NewProxy starts a proxy before a server, host:port, that passes everything on, and ends
// it with the test.
func NewProxy(t testing.TB, server string) *netfault.Proxy {
	t.Helper()
	p := fatal.Have(netfault.Start(server))(t)
	t.Cleanup(p.Close)
	return p
}
