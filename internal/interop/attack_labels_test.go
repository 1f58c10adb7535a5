package interop_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// series counts the lines of /metrics that are values.
func (g *gateway) series(t testing.TB) int {
	t.Helper()
	count := 0
	for line := range strings.Lines(fetch(t, g.operator+"/metrics")) {
		if !strings.HasPrefix(line, "#") {
			count++
		}
	}
	return count
}

func TestT51NoClientMakesSeries(t *testing.T) {
	t.Parallel()
	g := besiege(t, twoTenants(`{allow: ["*"]}`, "  own: {builtin: [calculate]}\n"))
	token := g.mint(who{tenant: "acme", subject: "alice"})
	odd := func(random *rand.Rand) {
		name := fmt.Sprintf("own__%x\u202e\"\n{}", random.Uint64())
		g.call(t, token, fmt.Sprintf("%x", random.Uint64()), `{}`)
		get(t, fmt.Sprintf("M%x", random.Uint32()), fmt.Sprintf("http://%s/%x", g.addr, random.Uint64()),
			"Authorization", "Bearer "+token)
		get(t, http.MethodDelete, fmt.Sprintf("http://%s/t/%x/mcp", g.addr, random.Uint64()), "Authorization",
			"Bearer "+g.mint(who{tenant: fmt.Sprint(random.Uint64()), subject: name}))
		post(t, g.url, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"m%x","params":{%s}}`, random.Uint64(),
			modernMeta), "Authorization", "Bearer "+token, "MCP-Protocol-Version",
			fmt.Sprint(random.Uint32()), "Mcp-Method", name[:8])
		post(t, g.url, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"m%x","params":{%s}}`, random.Uint64(),
			modernMeta), "Authorization", "Bearer "+token, "MCP-Protocol-Version", modernRevision,
			"Mcp-Method", name[:8])
	}
	random := rand.New(rand.NewPCG(1, 2))
	odd(random)
	get(t, http.MethodGet, g.operator+"/metrics")
	before := g.series(t)
	for range 100 {
		odd(random)
	}
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(3, uint64(worker)))
			for range 2500 {
				g.call(t, token, fmt.Sprintf("own__%x", random.Uint64()), `{}`)
			}
		})
	}
	all.Wait()
	if after := g.series(t); after != before {
		t.Errorf("%d series, then %d after 10,000 tools that nobody knows", before, after)
	}
	g.unhurt(t)
}
