package credential_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/dial"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
)

// TestMetadataAtInnerAddressesAreNotAsked names issuers and endpoints in networks of
// one's own, of a server that may not be there: nothing is sent to any of them.
func TestMetadataAtInnerAddressesAreNotAsked(t *testing.T) {
	var asked atomic.Int32
	inner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(inner.Close)
	_, port, _ := strings.Cut(strings.TrimPrefix(inner.URL, "http://"), ":")
	file := written(t, "hunter2-hunter2-hunter2")
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "0"} {
		for name, client := range map[string]credential.Client{
			"issuer":   {Issuer: "http://" + host + ":" + port},
			"endpoint": {TokenURL: "http://" + host + ":" + port + "/token"},
		} {
			client.ID, client.SecretFile = "gw", file
			s := source(t, credential.Config{
				Spec: credential.Spec{ClientCredentials: &client}, Client: dial.Client(dial.Config{}),
			})
			_, err := s.For(t.Context(), nil)
			if credential.FaultOf(err) != credential.FaultAway || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s at %s: got %v, want that it is not reached", name, host, err)
			}
			s.Close()
		}
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("got %d requests at an inner address, want none", n)
	}
}
