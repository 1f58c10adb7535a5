package auth_test

import (
	"encoding/hex"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/auth"
)

// TestWhoIsSomebodyElse says for each part of a principal whether another value makes
// another user, and another owner.
func TestWhoIsSomebodyElse(t *testing.T) {
	alice := auth.Principal{TenantID: "acme", Issuer: "https://id.example", Subject: "alice", ClientID: "cli"}
	tests := []struct {
		name                string
		change              func(*auth.Principal)
		sameUser, sameOwner bool
	}{
		{"scopes", func(p *auth.Principal) { p.Scopes = []string{"write"} }, true, true},
		{"client", func(p *auth.Principal) { p.ClientID = "web" }, true, false},
		{"subject", func(p *auth.Principal) { p.Subject = "bob" }, false, false},
		{"issuer", func(p *auth.Principal) { p.Issuer = "https://else.example" }, false, false},
		{"tenant", func(p *auth.Principal) { p.TenantID = "umbrella" }, false, false},
		{
			"what ends one part begins the next",
			func(p *auth.Principal) { p.TenantID, p.Issuer = "acmeh", "ttps://id.example" }, false, false,
		},
		{
			"a subject that looks like more", func(p *auth.Principal) { p.Subject, p.ClientID = "alicecli", "" },
			false, false,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			other := alice
			test.change(&other)
			if got := other.User() == alice.User(); got != test.sameUser {
				t.Errorf("same user: got %v, want %v", got, test.sameUser)
			}
			if got := other.User().Key() == alice.User().Key(); got != test.sameUser {
				t.Errorf("same key: got %v, want %v", got, test.sameUser)
			}
			if got := other.Owner() == alice.Owner(); got != test.sameOwner {
				t.Errorf("same owner: got %v, want %v", got, test.sameOwner)
			}
			if got := other.Owner().Digest() == alice.Owner().Digest(); got != test.sameOwner {
				t.Errorf("same digest: got %v, want %v", got, test.sameOwner)
			}
		})
	}
}

// TestDigestOfAnOwnerStays keeps the digest what it is: clients bring it back in ids of
// sessions and tasks that another version of the gateway made.
func TestDigestOfAnOwnerStays(t *testing.T) {
	owner := auth.Owner{
		User:     auth.User{TenantID: "acme", Issuer: "https://id.example", Subject: "alice"},
		ClientID: "cli",
	}
	digest := owner.Digest()
	if got, want := hex.EncodeToString(digest[:]),
		"81459d6f0cb2dccecfa44fac5ef5e50389490b8a4869ddb03a59077ddab8528e"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
