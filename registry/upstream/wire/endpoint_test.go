package wire

import (
	"net/url"
	"strings"
	"testing"
)

// FuzzEndpoint gives any address as an endpoint: what is accepted lies on the origin of
// the stream.
func FuzzEndpoint(f *testing.F) {
	for _, seed := range []string{
		"/messages?session=1", "m", "?s=1", "//evil.example/m", "http://server.example:80/m",
		"HTTP://SERVER.example/m", "http://u@server.example/",
		`\\evil.example\m`, `/\evil.example`, "javascript:x", "http:m", "http://server.example@evil.example/",
		"http://[::1]/", "/m#f", "", "/%2f%2fevil", "/\x00",
		"http://server.example:080/", "https://server.example/", "..//evil.example", "http:///m",
		"http://server.example%2eevil/",
	} {
		f.Add(seed)
	}
	source, err := url.Parse("http://server.example/base/sse?key=1")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, address string) {
		target, err := endpoint(source, []byte(address))
		if err != nil {
			return
		}
		again, err := url.Parse(target.String())
		if err != nil || len(address) > maxEndpoint {
			t.Fatalf("%q: accepted as %q: %v", address, target, err)
		}
		host := strings.ToLower(again.Host)
		if again.Scheme != "http" || host != "server.example" && host != "server.example:80" &&
			host != "server.example:" || again.User != nil || again.Fragment != "" {
			t.Errorf("%q: accepted as %q, which is elsewhere", address, target)
		}
	})
}
