package clients

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// maxRedirect is how long a redirect URI may be, in bytes.
const maxRedirect = 1000

// errRedirect is the one error of a redirect URI that cannot be used.
var errRedirect = errors.New("a redirect is a whole address without #fragment and user name: https, " +
	"http on 127.0.0.1, [::1] or localhost, or a scheme of a program's own")

// scripts are schemes that browsers run, open as local files or handle themselves. Codes
// must not go there.
var scripts = []string{
	"about", "blob", "chrome", "chrome-extension", "content", "data", "file", "filesystem", "ftp", "gopher",
	"intent", "jar", "javascript", "livescript", "mailto", "mhtml", "mocha", "resource", "sms", "tel",
	"vbscript", "view-source", "ws", "wss",
}

// redirect is a redirect URI that was parsed. Where codes go is compared after parsing: a
// prefix or a text in another spelling must not pass for the one that was registered.
type redirect struct {
	text     string
	url      *url.URL
	loopback bool
}

// CheckRedirect tells why nobody is sent to an address with a code.
func CheckRedirect(text string) error {
	_, err := parseRedirect(text)
	return err
}

// parseRedirect takes a redirect URI apart, or says that it cannot be used.
// https://www.rfc-editor.org/rfc/rfc9700#section-4.1.3
func parseRedirect(text string) (redirect, error) {
	if text == "" || len(text) > maxRedirect || strings.ContainsFunc(text, isUnfit) {
		return redirect{}, errRedirect
	}
	u, err := url.Parse(text)
	if err != nil || u.User != nil || !strings.HasPrefix(text, u.Scheme+":") {
		return redirect{}, errRedirect // a scheme in capitals is another spelling of it
	}
	r := redirect{text: text, url: u}
	switch u.Scheme {
	case "":
		return redirect{}, errRedirect
	case "https":
		return r, hostOf(u)
	case "http":
		if !isLoopback(u.Hostname()) || strings.HasSuffix(u.Host, ":") {
			return redirect{}, errRedirect
		}
		r.loopback = true
		return r, hostOf(u)
	}
	lacksScheme := u.Opaque != "" && '0' <= u.Opaque[0] && u.Opaque[0] <= '9' // as localhost:80/cb
	if slices.Contains(scripts, u.Scheme) || lacksScheme || u.Opaque == "" && u.Host == "" && u.Path == "" {
		return redirect{}, errRedirect
	}
	return r, nil
}

// isUnfit tells whether a character has no place in a redirect URI. Browsers and this
// program may read those differently: they drop tabs and line breaks, take a backslash
// for a slash, and map other letters to these. A fragment could swallow the code.
func isUnfit(c rune) bool {
	return c <= ' ' || c >= 0x7f || strings.ContainsRune("\\#\"'<>^`{|}", c)
}

// hostOf returns an error unless the URL has a host of plain letters, and a port that is
// one if it has any.
func hostOf(u *url.URL) error {
	name := u.Hostname()
	if name == "" || strings.ContainsAny(name, "%@*") || name != strings.ToLower(name) {
		return errRedirect
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return errRedirect
		}
	}
	return nil
}

// isLoopback tells whether a host is this very machine, in one of the three spellings
// that clients use.
func isLoopback(host string) bool {
	return host == "127.0.0.1" || host == "::1" || host == "localhost"
}

// allows tells whether codes may go to sent, which was asked for. A loopback address has
// any port, also where the registered one names a port: programs take one that is free.
// https://www.rfc-editor.org/rfc/rfc8252#section-7.3
func (r redirect) allows(sent redirect) bool {
	if !r.loopback || !sent.loopback {
		return r.text == sent.text
	}
	a, b := r.url, sent.url
	return a.Hostname() == b.Hostname() && a.EscapedPath() == b.EscapedPath() &&
		a.RawQuery == b.RawQuery && a.ForceQuery == b.ForceQuery
}

// Redirect is where the answer to a client goes.
type Redirect struct {
	URI string
	// Host is what a person is told about it: the host, or the scheme of a program of
	// their own machine.
	Host string
	// Local says that the answer stays on the person's machine: a loopback address or a
	// scheme of a program. Any other goes to a server.
	Local bool
}

// RedirectOf returns where an answer may go that the client wants at uri. It is false if
// the client has not registered that.
func (c *Client) RedirectOf(uri string) (Redirect, bool) {
	sent, err := parseRedirect(uri)
	if err != nil {
		return Redirect{}, false
	}
	for _, text := range c.Redirects {
		if known, err := parseRedirect(text); err == nil && known.allows(sent) {
			return sent.shown(), true
		}
	}
	return Redirect{}, false
}

// shown returns the redirect as it is told to people.
func (r redirect) shown() Redirect {
	made := Redirect{URI: r.text, Host: r.url.Host, Local: r.loopback}
	if r.url.Scheme != "https" && r.url.Scheme != "http" {
		made.Host, made.Local = r.url.Scheme+":", true
	}
	return made
}

// isLocal tells whether all redirects of the client stay on the person's machine.
func (c *Client) isLocal() bool {
	return !slices.ContainsFunc(c.Redirects, func(text string) bool {
		r, err := parseRedirect(text)
		return err != nil || !r.shown().Local
	})
}
