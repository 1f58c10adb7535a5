package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/oauth2"

	"github.com/drawbridge-mcp/drawbridge/auth/signin"
	"github.com/drawbridge-mcp/drawbridge/internal/fetch"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// GitHubIssuer names GitHub in rules and records. It is what GitHub writes into iss when
// it sends a browser back.
const GitHubIssuer = "https://github.com/login/oauth"

const (
	githubAPI     = "https://api.github.com"
	githubVersion = "2022-11-28" // of the API
	orgsPage      = 100          // organisations in one answer; the most that GitHub gives
	maxOrgPages   = 10           // answers that are read
)

// GitHub is github.com, which has no ID tokens: who somebody is, is asked of its API with
// the access token that the code brought. It is safe for concurrent use.
type GitHub struct {
	base

	web string // where the OAuth endpoints are
	api string
}

var _ signin.Provider = (*GitHub)(nil)

// NewGitHub returns GitHub as a provider. The Issuer of the config is not looked at, and
// neither is its ClientKey, which GitHub does not take.
func NewGitHub(cfg Config) *GitHub {
	cfg.Issuer = GitHubIssuer
	p := &GitHub{base: base{cfg: cfg}, web: GitHubIssuer, api: githubAPI}
	p.cfg.Client.Transport = &transport{inner: cfg.Client.Transport}
	return p
}

// AuthURL implements signin.Provider. GitHub has no nonce: what binds the code to the
// browser is PKCE.
func (p *GitHub) AuthURL(_ context.Context, a signin.Attempt) (string, error) {
	return p.oauth(a.Callback).AuthCodeURL(a.State, oauth2.S256ChallengeOption(a.Verifier)), nil
}

// Exchange implements signin.Provider. GitHub sends iss; whoever leaves it out is asked
// for the code anyway, since it did not send it for years.
func (p *GitHub) Exchange(ctx context.Context, a signin.Attempt, code, iss string) (signin.Identity, error) {
	if iss != "" && iss != GitHubIssuer {
		return signin.Identity{}, errors.New("the answer is of another provider")
	}
	token, err := p.oauth(a.Callback).Exchange(p.with(ctx), code, oauth2.VerifierOption(a.Verifier))
	if err := p.answered("redeem the code", err, code, a.Verifier); err != nil {
		return signin.Identity{}, err
	}
	return p.identity(ctx, token, "")
}

// Refresh implements signin.Provider. Apps whose tokens do not expire have no refresh
// token; then the access token itself says who somebody is now, until it is taken back.
// A refresh token is worth nothing once it was used, as is the access token with it.
func (p *GitHub) Refresh(ctx context.Context, refreshToken string) (signin.Identity, error) {
	was, err := remembered(refreshToken, &p.cfg)
	if err != nil {
		return signin.Identity{}, err
	}
	token := &oauth2.Token{AccessToken: was.Token}
	if !was.Access {
		token, err = p.oauth("").TokenSource(p.with(ctx), &oauth2.Token{RefreshToken: was.Token}).Token()
		if err := p.answered("refresh", err, was.Token); err != nil {
			return signin.Identity{}, refreshFailed(err)
		}
	}
	id, err := p.identity(ctx, token, was.Subject)
	if err != nil {
		id = was.next(token.RefreshToken)
	}
	return id, err
}

// Reach implements signin.Provider. Its API answers a stranger sixty times an hour, so
// the page is asked where people sign in. Whatever it says to a request without a client,
// it is there. If it refuses the client it is as good as away.
func (p *GitHub) Reach(ctx context.Context) error {
	answer, err := fetch.Do(ctx, p.cfg.Client,
		fetch.Request{Method: http.MethodHead, Address: p.web + "/authorize"})
	if err != nil {
		return bare("reach GitHub", err)
	}
	if answer.Status >= http.StatusInternalServerError {
		return fmt.Errorf("GitHub answers with status %d", answer.Status)
	}
	return p.takesClient()
}

// Try implements Trier: GitHub is asked whether it is there. Whether the client exists,
// its secret is right and the callback is registered shows only at a sign-in.
func (p *GitHub) Try(ctx context.Context, _ string, _ []string) (notes []string, err error) {
	_, err = p.get(ctx, p.api+"/meta", nil)
	return []string{"GitHub says nothing of a client before somebody signs in"}, err
}

// user is what GitHub says of somebody. The number stays when the login changes, and a
// login that was given up may be somebody else's later.
type user struct {
	ID    int64  `json:"id"`
	Login string `json:"login"`
	Name  string `json:"name"`
}

// org is an organisation that somebody is a member of.
type org struct {
	ID    int64  `json:"id"`
	Login string `json:"login"`
}

// claims are what GitHub's answers become, in the form of an ID token.
type claims struct {
	Issuer  string   `json:"iss"`
	Subject string   `json:"sub"`
	Login   string   `json:"login"`
	Name    string   `json:"name,omitempty"`
	Orgs    []string `json:"orgs"`
	OrgIDs  []string `json:"org_ids"`
}

// GitHubClaims returns the names of what claims hold of a person.
func GitHubClaims() []string { return []string{"sub", "login", "name", "orgs", "org_ids"} }

// identity asks GitHub who the token is of. was is the subject at the sign-in, "" if this
// is one.
func (p *GitHub) identity(ctx context.Context, token *oauth2.Token, was string) (signin.Identity, error) {
	var who user
	if err := p.ask(ctx, "/user", token, &who); err != nil {
		return signin.Identity{}, err
	}
	if who.ID <= 0 || who.Login == "" {
		return signin.Identity{}, errors.New("GitHub did not say who somebody is")
	}
	said := claims{
		Issuer: GitHubIssuer, Subject: strconv.FormatInt(who.ID, 10), Login: who.Login, Name: who.Name,
		Orgs: []string{}, OrgIDs: []string{},
	}
	if was != "" && said.Subject != was {
		return signin.Identity{}, fmt.Errorf("%w: the refreshed token is of somebody else",
			signin.ErrSignInAgain)
	}
	if err := p.orgs(ctx, token, &said); err != nil {
		return signin.Identity{}, err
	}
	data, err := strictjson.Marshal(said)
	if err != nil {
		return signin.Identity{}, err
	}
	return p.signedIn(token, data, refreshState{
		Token: cmp.Or(token.RefreshToken, token.AccessToken), Access: token.RefreshToken == "",
		Subject: said.Subject,
	})
}

// orgs adds the organisations of somebody, page by page. More than are read are an error:
// which of them are missing would be chance.
func (p *GitHub) orgs(ctx context.Context, token *oauth2.Token, said *claims) error {
	for page := 1; ; page++ {
		var list []org
		path := fmt.Sprintf("/user/orgs?per_page=%d&page=%d", orgsPage, page)
		if err := p.ask(ctx, path, token, &list); err != nil {
			return err
		}
		for _, one := range list {
			if one.Login != "" && one.ID > 0 {
				said.Orgs = append(said.Orgs, one.Login)
				said.OrgIDs = append(said.OrgIDs, strconv.FormatInt(one.ID, 10))
			}
		}
		switch {
		case len(list) < orgsPage:
			return nil
		case page == maxOrgPages:
			return fmt.Errorf("somebody of more than %d organisations", maxOrgPages*orgsPage)
		}
	}
}

// ask gets an answer of the API with somebody's token. A token that GitHub does not know
// any more wants a new sign-in.
func (p *GitHub) ask(ctx context.Context, path string, token *oauth2.Token, into any) error {
	answer, err := p.get(ctx, p.api+path, token)
	if refused, ok := errors.AsType[*Error](err); ok && refused.Status == http.StatusUnauthorized {
		refused.anew = true
	}
	if err != nil {
		return err
	}
	if partial := answer.Header.Get("X-Github-Sso"); strings.HasPrefix(partial, "partial-results") {
		p.tellOnce(ctx, "GitHub leaves out organisations whose single sign-on somebody has not passed")
	}
	if strictjson.Unmarshal(answer.Body, into) != nil {
		return errors.New("an answer of GitHub that is not what its documentation says")
	}
	return nil
}

// get sends one request to the API; token may be nil.
func (p *GitHub) get(ctx context.Context, address string, token *oauth2.Token) (*fetch.Answer, error) {
	header := http.Header{
		"Accept": {"application/vnd.github+json"}, "X-Github-Api-Version": {githubVersion},
		"User-Agent": {"drawbridge"}, // GitHub answers nobody without a name
	}
	if token != nil {
		header.Set("Authorization", "Bearer "+token.AccessToken)
	}
	answer, err := fetch.Do(ctx, p.cfg.Client, fetch.Request{Address: address, Header: header, Most: maxBody})
	if err != nil {
		return nil, bare("ask GitHub", err)
	}
	return answer, nil
}

// oauth returns the client as the library wants it.
func (p *GitHub) oauth(callback string) *oauth2.Config {
	return p.oauthAt(callback, oauth2.Endpoint{
		AuthURL: p.web + "/authorize", TokenURL: p.web + "/access_token",
		AuthStyle: oauth2.AuthStyleInParams,
	})
}
