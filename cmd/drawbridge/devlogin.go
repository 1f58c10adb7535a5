package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/auth/signin"
	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

const (
	toyName = "toy" // of the login, in the address of the callback
	toyTeam = "team"
	toyAll  = "tools.all"
	toyFew  = "tools.few"
)

// toyPerson is somebody whom visitors of the toy login may choose to be, as the claims of
// its provider say it.
type toyPerson struct {
	Issuer  string   `json:"iss"`
	Subject string   `json:"sub"`
	Name    string   `json:"name"`
	Groups  []string `json:"groups"`
	Roles   []string `json:"roles"`
	About   string   `json:"-"` // for who chooses; plain text
}

// toyPeople are those whom visitors may choose to be. Each shows another outcome of a
// sign-in.
func toyPeople() []toyPerson {
	return []toyPerson{
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

// toyLogin is an identity provider for trying things out: it checks nobody. Who opens its
// page chooses who they are. A browser goes to it and comes back as it does with any
// other; what other providers are asked over the network, this one says here.
type toyLogin struct {
	address  string // host and port of its page
	callback string // where it sends people back to
}

var _ signin.Provider = (*toyLogin)(nil)

// Name implements signin.Provider.
func (l *toyLogin) Name() string { return toyName }

// Issuer implements signin.Provider.
func (l *toyLogin) Issuer() string { return "http://" + l.address }

// AuthURL implements signin.Provider.
func (l *toyLogin) AuthURL(_ context.Context, a signin.Attempt) (string, error) {
	return l.Issuer() + "/?state=" + url.QueryEscape(a.State), nil
}

// Exchange implements signin.Provider. The code is whom somebody has chosen to be.
func (l *toyLogin) Exchange(ctx context.Context, _ signin.Attempt, code, _ string) (signin.Identity, error) {
	return l.Refresh(ctx, code)
}

// Refresh implements signin.Provider. The refresh token is the subject.
func (l *toyLogin) Refresh(_ context.Context, subject string) (signin.Identity, error) {
	for _, person := range toyPeople() {
		if person.Subject == subject {
			person.Issuer = l.Issuer()
			claims, err := strictjson.Marshal(person)
			return signin.Identity{Claims: claims, RefreshToken: subject}, err
		}
	}
	return signin.Identity{}, signin.ErrSignInAgain
}

// Reach implements signin.Provider. It is in this process.
func (*toyLogin) Reach(context.Context) error { return nil }

// ServeHTTP shows the page on which a visitor chooses who to be. A page that another name
// leads here is of somebody else, who wants a browser of this machine to come.
func (l *toyLogin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	switch {
	case r.Host != l.address:
		http.Error(w, "this is "+l.Issuer(), http.StatusMisdirectedRequest)
	case r.URL.Path != "/":
		http.NotFound(w, r)
	default:
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'")
		state := url.QueryEscape(r.URL.Query().Get("state"))
		var list strings.Builder
		for _, person := range toyPeople() {
			fmt.Fprintf(&list, "<li><a href=\"%s?code=%s&amp;state=%s\">%s</a>: %s</li>\n", l.callback,
				person.Subject, state, person.Name, person.About)
		}
		_, _ = fmt.Fprintf(w, toyPage, list.String()) // the browser is gone
	}
}

// toyPage is the one page of the login. Its list is made of constants, and of a state
// that is escaped.
const toyPage = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Toy login: nobody is checked here</title>
</head>
<body>
<main>
<h1>Toy login</h1>
<p><strong>This is no real login. Nobody is checked, and there are no passwords.</strong>
It stands in for your company&#39;s identity provider while you try drawbridge on this machine.</p>
<p>Who do you want to be?</p>
<ul>
%s</ul>
</main>
</body>
</html>
`

// startLogin serves the toy login on an address of its own, and completes the config as
// an operator does who lets people sign in: a provider, what its claims mean, rules by
// scopes, and a place for what is kept. stop ends the login.
func (t *trial) startLogin(ctx context.Context, dir string) (stop func(), err error) {
	l, err := listen(ctx, "login", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	cfg := t.config
	toy := &toyLogin{l.Addr().String(), cfg.PublicURL + signin.CallbackPath + toyName}
	server := &http.Server{Handler: toy, ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout}
	serving := startTask(context.WithoutCancel(ctx), func(context.Context) error {
		return serveHTTP(server, l)
	})
	t.login = toy.Issuer()
	cfg.Data.Dir = dir
	cfg.Logins = []config.Login{{
		Issuer: auth.Issuer{
			Issuer: toy.Issuer(), TenantClaim: "groups", TenantMap: map[string]string{toyTeam: devTenant},
			ScopeClaims: []string{"roles"}, NameClaim: "name",
		},
		Name: toyName, Title: "the toy login", Toy: toy,
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
