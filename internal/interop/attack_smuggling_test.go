package interop_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/corpus"
)

func TestT1SmugglingBodies(t *testing.T) {
	t.Parallel()
	for _, modern := range []bool{false, true} {
		up := ambush(t, &hostile{tools: tool("ok") + "," + tool("evil"), modern: modern})
		g := besiege(
			t, twoTenants(`{allow: ["*"]}, {subjects: ["https://issuer.test/#narrow"], deny: ["*evil"]}`,
				"  up: "+private(up.URL)+"\n"))
		tried := 0
		for _, revision := range revisions() {
			for _, subject := range []string{"narrow", "wide"} {
				s := g.speak(t, g.mint(who{tenant: "acme", subject: subject}), revision)
				tried += s.smuggle(t, subject, tried)
			}
		}
		g.unhurt(t)
		t.Logf("%d smuggling bodies, %d ran", tried, len(up.executions()))
		t.Attr("bodies", fmt.Sprint(tried))
		sameRecord(t, g, up)
	}
}

// smuggle sends every body, over the modern revision with either name in the header, and
// returns how many those were.
func (s *speaker) smuggle(t *testing.T, subject string, serial int) int {
	t.Helper()
	inside, said := "", []string{""}
	if s.revision == modernRevision {
		inside, said = modernMeta, []string{"up__ok", "up__evil"}
	}
	if s.stream != nil {
		go func() {
			for range s.stream.data { // nobody reads the answers: the audit and the upstream tell
			}
		}()
	}
	count := 0
	for _, body := range corpus.Smuggled(inside) {
		for _, name := range said {
			count++
			kind := "1"
			if subject == "narrow" {
				kind = "2"
			}
			var headers []string
			if name != "" {
				headers = []string{"Mcp-Method", "tools/call", "Mcp-Name", name}
			}
			a := s.post(t, strings.ReplaceAll(body, "SERIAL", fmt.Sprintf("%s%06d", kind, serial+count)),
				headers...)
			if a.status >= http.StatusInternalServerError {
				t.Errorf("%s: status %d for %q", s.revision, a.status, body)
			}
		}
	}
	return count
}

// sameRecord compares what the upstream ran with what the audit says, both by name and
// arguments.
func sameRecord(t *testing.T, g *gateway, up *hostile) {
	t.Helper()
	differences := func() (found []string) {
		balance := make(map[string]int)
		for _, e := range up.executions() {
			balance[e.name+" "+digest("acme", []byte(e.arguments))]++
			if e.name == "evil" && strings.Contains(e.arguments, `"serial":2`) {
				found = append(found, "a denied tool ran: "+e.body)
			}
		}
		for _, line := range g.audited(t) {
			if line.Method == "tools/call" && line.Outcome == "ok" {
				balance[strings.TrimPrefix(line.Item, "up__")+" "+line.Arguments]--
			}
		}
		for what, n := range balance {
			if n != 0 {
				found = append(found, fmt.Sprintf("%s ran %+d times more than the audit says", what, n))
			}
		}
		return found
	}
	if !settles(func() bool { return len(differences()) == 0 }) {
		t.Error(strings.Join(differences(), "\n"))
	}
	if len(up.executions()) < 10 {
		t.Errorf("only %d calls ran: the attack proves nothing", len(up.executions()))
	}
}
