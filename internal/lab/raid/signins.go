package raid

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"regexp"
)

var clientID = regexp.MustCompile(`"client_id":"([^"]+)"`)

// signIns floods the addresses at which people and clients sign in. Each raider registers
// a client and begins a sign-in with it. Then it brings codes, refresh tokens and
// consents that nobody was given, for which the gateway asks its store.
var signIns = Attack{
	Name: "registrations and guessed tokens", Stranger: true,
	Does: "64 connections register clients, begin sign-ins, and bring codes, refresh tokens and " +
		"consents that nobody was given",
	Raiders: 64, Few: 8,
	Begin: func(_ context.Context, r *Raider) func() {
		form := func(path, cookie, body string) []byte {
			return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/x-www-form-urlencoded\r\n%s"+
				"Content-Length: %d\r\n\r\n%s", path, r.mission.Addr, cookie, len(body), body)
		}
		const back, challenge = "http://127.0.0.1/cb", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
		body := `{"redirect_uris":["` + back + `"]}`
		register := fmt.Appendf(nil, "POST /register HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"+
			"Content-Length: %d\r\n\r\n%s", r.mission.Addr, len(body), body)
		turn, client := 0, "nobody"
		return func() {
			family := rand.Text() // as long as the id of a family
			code := family + "." + rand.Text()
			refresh := "dbr_" + base64.RawURLEncoding.EncodeToString(append([]byte(family), make([]byte, 4+20)...))
			requests := [][]byte{
				register,
				fmt.Appendf(nil, "GET /authorize?response_type=code&client_id=%s&redirect_uri=%s&code_challenge=%s&"+
					"code_challenge_method=S256 HTTP/1.1\r\nHost: %s\r\n\r\n", client, back, challenge, r.mission.Addr),
				form("/token", "", "grant_type=authorization_code&code="+code+"&client_id="+client+"&redirect_uri="+back+
					"&code_verifier="+challenge),
				form("/token", "", "grant_type=refresh_token&refresh_token="+refresh+"&client_id="+client),
				form("/revoke", "", "token="+refresh+"&client_id="+client),
				form("/consent", "Cookie: __Host-drawbridge-"+family+"=x\r\n", "id="+family+"&proof=x&decision=allow"),
			}
			defer func() { turn++ }()
			answer := r.exchange(requests[turn%len(requests)])
			if found := clientID.FindSubmatch(answer.Body); answer.Status == http.StatusCreated && found != nil {
				client = string(found[1])
			}
		}
	},
	Signs: Signs{Instead: []string{"201", "303"}},
}
