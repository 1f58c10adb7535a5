package server_test

import (
	"net/http"
	"regexp"
	"strconv"
	"testing"
)

// hostForm is the whole grammar of a Host that may pass an entry without a port; the port
// is checked beside it.
var hostForm = regexp.MustCompile(`^(?i:127\.0\.0\.1|mcp\.test|\[::1\])(?::([0-9]+))?$`)

// mayPass decides from the text alone whether a Host is one of the allowed ones, with a
// possible port or none.
func mayPass(host string) bool {
	found := hostForm.FindStringSubmatch(host)
	if found == nil {
		return false
	}
	if found[1] == "" {
		return true
	}
	port, err := strconv.Atoi(found[1])
	return err == nil && port > 0 && port <= 65535
}

// What follows the colon behind an allowed host was not looked at, so 127.0.0.1:80.evil,
// a name that a stranger can own, passed an entry without a port.
func TestHostWithSomethingOtherThanAPortIsForeign(t *testing.T) {
	names := []string{
		"127.0.0.1", "MCP.test", "mcp.test", "[::1]", "::1", "[::1", "::1]", "[::1%25lo]", "[mcp.test]",
		"[127.0.0.1]", "u@mcp.test", "mcp.test.", "127.1",
		"2130706433", "0x7f000001", "evil.mcp.test", "mcp.test.evil", "[::1].evil", "",
	}
	ports := []string{
		"", ":", ":0", ":1", ":80", ":080", ":8080", ":57917", ":65535", ":65536", ":99999",
		":18446744073709551696", ":-1", ":+80", ":8o", ":80.", ":http", ":0x50", ":8_0",
	}
	tails := []string{
		"", ".evil", ".evil.test:80", ":80", "@evil", "/", "/.evil", "#evil", "?evil", `\evil`,
		"%20", "]", "[", ",mcp.test",
	}
	passed, refused := 0, 0
	bubble(t, func(t *testing.T, w *world) { // because refusals come late after a hundred
		for _, name := range names {
			for _, port := range ports {
				for _, tail := range tails {
					host := name + port + tail
					want := http.StatusForbidden
					if mayPass(host) {
						want = http.StatusOK
						passed++
					} else {
						refused++
					}
					if got := w.do(t, modernCall("echo").with("Host", host)); got.Code != want {
						t.Errorf("Host %q: got %d, want %d", host, got.Code, want)
					}
				}
			}
		}
	}, func(w *world) {
		w.settings.AllowedHosts = []string{"127.0.0.1", "mcp.test", "[::1]"}
	})
	if passed < 20 || refused < 4000 {
		t.Errorf("%d hosts may pass and %d may not: the cases have become too few", passed, refused)
	}
}
