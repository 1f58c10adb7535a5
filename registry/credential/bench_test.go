package credential_test

import (
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
)

// BenchmarkKeptCredential is what it costs to find a credential that is there, and to
// make the lines of a header of it.
func BenchmarkKeptCredential(b *testing.B) {
	specs := map[string]credential.Spec{
		"none":     {},
		"identity": {Identity: &credential.Identity{Audience: server}},
	}
	p := auth.Principal{TenantID: "acme", Issuer: issuer, Subject: "ann", ClientID: "claude", Expiry: time.Now().Add(time.Hour)}
	of := credential.Trace{ID: "REQ1"}
	for _, name := range []string{"none", "identity"} {
		b.Run(name, func(b *testing.B) {
			s := credential.New(credential.Config{
				Server: "crm", Issuer: own, Spec: specs[name], Signer: credential.NewSigner(time.Now),
			})
			defer s.Close()
			b.ReportAllocs()
			for b.Loop() {
				g, err := s.For(b.Context(), &p)
				if err != nil {
					b.Fatal(err)
				}
				g.Lines(of)
			}
		})
	}
}
