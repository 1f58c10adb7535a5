package main

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/toylogin"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
)

const (
	toyName = "toy" // of the login, in the address of the callback
	toyTeam = "team"
	toyAll  = "tools.all"
	toyFew  = "tools.few"
)

// toyPeople are those whom visitors of the toy login may choose to be. Each shows another
// outcome of a sign-in.
func toyPeople() []toylogin.Person {
	return []toylogin.Person{
		{
			Subject: "ann", Name: "Ann", Groups: []string{toyTeam}, Roles: []string{toyAll},
			About: "may use all tools",
		},
		{
			Subject: "bob", Name: "Bob", Groups: []string{toyTeam}, Roles: []string{toyFew},
			About: "may use only calculate and current_time",
		},
		{Subject: "eve", Name: "Eve", About: "is in no team, so she gets no access"},
	}
}

// startLogin serves the toy login on an address of its own, and completes the config as
// an operator does who lets people sign in: a provider, what its claims mean, rules by
// scopes, and a place for what is kept. stop ends the login.
func (t *trial) startLogin(ctx context.Context, dir string) (stop func(), err error) {
	door, err := listen(ctx, "login", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	cfg := t.config
	address := door.Addr().String()
	toy := toylogin.New(address, cfg.PublicURL+"/callback/"+toyName, toyPeople())
	server := &http.Server{Handler: toy, ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout}
	serving := startTask(context.WithoutCancel(ctx), func(context.Context) error {
		return serveHTTP(server, door)
	})
	t.login = toy.Issuer()
	cfg.Data.Dir = dir
	cfg.Logins = []config.Login{{
		Issuer: auth.Issuer{
			Issuer: toy.Issuer(), TenantClaim: toylogin.GroupsClaim, TenantMap: map[string]string{
				toyTeam: devTenant,
			},
			ScopeClaims: []string{toylogin.RolesClaim}, NameClaim: "name",
		},
		PrivateAddresses: true, Name: toyName, Title: "the toy login",
		ClientID: toylogin.ClientID, Secret: toy.Secret(), Scopes: []string{"openid", "offline_access"},
	}}
	cfg.Tenants[0].Rules = []gateway.Rule{
		{Scopes: []string{toyAll}, Allow: everything()},
		{
			Scopes: []string{toyFew}, Allow: []string{
				devToolbox + "__calculate", devToolbox + "__current_time",
			},
		},
	}
	return func() {
		closeHTTP(server)
		serving.stop()
	}, nil
}

// signInText writes what to do with a client, for whom the address is enough.
func (t *trial) signInText(w io.Writer, url string) {
	_, _ = fmt.Fprintf(w, `
TOY LOGIN: nobody is checked. Whoever can open a browser here can be anybody. It is for
trying out on this machine; docs/login says how your company's login takes its place.

Claude Code:

claude mcp add --transport http drawbridge %[1]s

Then type /mcp in Claude Code, choose drawbridge and sign in. A browser opens: choose who
you are, and allow it.

Cursor and other clients with an mcpServers file:

`, url) // a write into a buffer cannot fail
	snippet(w, url, "")
	_, _ = fmt.Fprint(w, "\nStop with Ctrl-C.\n") // the same
}
