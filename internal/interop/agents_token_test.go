package interop_test

import (
	"os"
	"strings"
	"testing"
	"time"
)

// handedOut is an issuer that no client can ask for tokens.
const handedOut = "local"

// serveHandedOut is serve with the tokens of handedOut.
func serveHandedOut(t testing.TB, sections string) *gateway {
	t.Helper()
	g := settle(t)
	g.configure(t, sections)
	text, err := os.ReadFile(g.config())
	if err != nil {
		t.Fatal(err)
	}
	g.write(t, strings.Replace(string(text), "https://issuer.test/", handedOut, 1))
	g.run(t)
	return g
}

// leeway is how much longer than a token says the gateway takes it, since clocks differ.
const leeway = 30 * time.Second

// outlived has an agent talk until its token of an issuer is no longer good, and then go
// on. A token has to last for the first call and the test should not wait long for its
// end, so that on a busy machine it takes a second attempt.
func outlived(t testing.TB, g *gateway, issuer string, open func(token string) (m *model,
	say func(words string)), after func(m *model, say func(words string)),
) {
	t.Helper()
	for life := 10 * time.Second; life < 2*patient; life *= 2 {
		token := g.mint(who{issuer: issuer, subject: "alice", life: life - leeway})
		m, say := open(token)
		if say(calculation); strings.Contains(m.last().result().text, calculated) {
			g.expired(t, token)
			after(m, say)
			return
		}
	}
	t.Error("no token lasted for a call")
}
