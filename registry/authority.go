package registry

import (
	"net/netip"
	"strconv"
	"strings"
)

// This file decides whether scheme, host and port of a URI are in the one spelling that
// every program reads alike. A web host has many: capital letters, fullwidth letters, a
// dot at the end, numbers for addresses, a user name before it. Programs fold some of
// them into one and refuse others, each in its own way, so all but one are refused here.
//
//	https://api.example:8443/path?query#fragment
//	        └─── authority ┘└── path ── …
//	        └── host ──┘ └port

// defaultPorts are the ports that URIs of the web's schemes mean when they name none.
// https://url.spec.whatwg.org/#special-scheme
var defaultPorts = map[string]string{"http": "80", "ws": "80", "https": "443", "wss": "443", "ftp": "21"}

// kindFile is the kind of schemes whose URIs name files, so that a host in them means
// nothing to most programs.
const kindFile = "file"

// hasOneOrigin tells whether scheme, host and port are spelt in the one way that all
// programs agree on, in uri and in each URI with // that stands within it, as in
// docs://https://example.com/. That way is
//
//   - schemes: small letters;
//   - http, https, ws, wss and ftp: //, a host of small ASCII letters, digits, "-", "_"
//     and dots or an address in its shortest form, the port only if it is not the
//     scheme's own, and a slash after them;
//   - file: /// and a path. A host in a file URI means another machine to some programs
//     and nothing to others;
//   - other schemes with //: ASCII too, but letters count as they are and a number is a
//     name, because programs read the host as any text: user://17, db://Customers/1,
//     greeting://J%C3%BCrgen. Nobody knows a default port of these;
//   - other schemes without //: anything, but a URI directly behind the colon is looked
//     at like the others, as in jar:https://example.com/x. The scheme url has none: Java
//     takes url:http://intra/ for http://intra/.
//
// No scheme has user names. In a compound scheme such as git+https the part after the
// last plus decides.
func hasOneOrigin(uri string) bool {
	scheme := schemeOf(uri)
	if !hasOneAuthority(scheme, uri[len(scheme)+1:]) {
		return false
	}
	for at := len(scheme) + 1; ; at++ {
		next := strings.Index(uri[at:], "://")
		if next < 0 {
			return true
		}
		at += next
		before := strings.TrimRightFunc(uri[:at], inScheme)
		if !hasOneAuthority(uri[len(before):at], uri[at+1:]) {
			return false
		}
	}
}

// hasOneAuthority tells it for one URI, of which rest is what follows the colon behind
// the scheme.
func hasOneAuthority(scheme, rest string) bool {
	if strings.ToLower(scheme) != scheme {
		return false
	}
	authority, path, hierarchical := cutAuthority(rest)
	kind := kindOf(scheme)
	defaultPort, ofWeb := defaultPorts[kind]
	switch {
	case kind == kindFile:
		return hierarchical && authority == "" && strings.HasPrefix(path, "/") && !hasBarForColon(path)
	case ofWeb:
		host, port, ok := cutPort(authority)
		return ok && strings.HasPrefix(path, "/") && port != defaultPort && isWebHost(host)
	case !hierarchical:
		return wrapsOneOrigin(scheme, rest)
	case authority == "":
		return true
	case isOfEveryProgram(
		schemeOf(authority)): // docs://https://…: what looks like a host is the scheme of a URI
		return schemeOf(authority)+":" == authority && strings.HasPrefix(path, "//")
	}
	host, _, ok := cutPort(authority)
	return ok && isHostOfAnyScheme(host)
}

// wrapsOneOrigin tells it for the URI that begins directly behind the colon of a scheme,
// or behind the colon of that one. A text that is no URI of a scheme which every program
// knows may be anything: mailto:, urn:isbn: and the like.
func wrapsOneOrigin(scheme, rest string) bool {
	for inner := schemeOf(rest); inner != ""; inner = schemeOf(rest) {
		rest = rest[len(inner)+1:]
		if isOfEveryProgram(inner) {
			return scheme != "url" && hasOneAuthority(inner, rest)
		}
		scheme = inner
	}
	return true
}

// kindOf returns the part of a scheme that decides how its URIs are read: https of
// git+https.
func kindOf(scheme string) string { return scheme[strings.LastIndexByte(scheme, '+')+1:] }

// isOfEveryProgram tells whether every program knows the scheme. Only such a scheme is
// told from a host at the beginning of an authority; any other one could be a host with
// an empty port, which is a second spelling.
func isOfEveryProgram(scheme string) bool {
	kind := strings.ToLower(kindOf(scheme))
	return kind == kindFile || defaultPorts[kind] != ""
}

// cutAuthority splits what follows the colon behind a scheme. hierarchical is false when
// there is no authority.
func cutAuthority(rest string) (authority, path string, hierarchical bool) {
	rest, hierarchical = strings.CutPrefix(rest, "//")
	if !hierarchical {
		return "", rest, false
	}
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		return rest[:end], rest[end:], true
	}
	return rest, "", true
}

// cutPort splits an authority into host and port. port is "" if there is none; ok is
// false for a port that is not a number from 1 to 65535 in its shortest form.
func cutPort(authority string) (host, port string, ok bool) {
	end := strings.LastIndexByte(authority, ':')
	if end <= strings.LastIndexByte(authority, ']') { // both are -1, or the colon is of an address
		return authority, "", true
	}
	host, port = authority[:end], authority[end+1:]
	number, err := strconv.ParseUint(port, 10, 16)
	return host, port, err == nil && number > 0 && strconv.FormatUint(number, 10) == port
}

// isWebHost tells whether host is the one spelling of a name or an address.
func isWebHost(host string) bool {
	if strings.HasPrefix(host, "[") {
		return isAddress6(host)
	}
	// A label with a hyphen at its end is no name; as xn--name- it is a second spelling
	// of one.
	if strings.Trim(host, lowercase+digits+"-_.") != "" || hasEmptyLabel(host) ||
		strings.Contains(host+".", "-.") {
		return false
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	if strings.Trim(last, digits) != "" && !strings.HasPrefix(last, "0x") {
		return true
	}
	// Some programs read a host whose last part is a number as an address, in whatever
	// form. https://url.spec.whatwg.org/#ends-in-a-number-checker
	return isAddress4(host)
}

// isAddress4 tells whether host is an IPv4 address in its usual form.
func isAddress4(host string) bool {
	address, err := netip.ParseAddr(host)
	return err == nil && address.Is4() && address.String() == host
}

// isHostOfAnyScheme tells whether host, in a scheme that is not one of the web's, is an
// address or one text to all programs.
func isHostOfAnyScheme(host string) bool {
	if strings.HasPrefix(host, "[") {
		return isAddress6(host)
	}
	if strings.Count(host, ".") == 3 && strings.Trim(host, digits+".") == "" {
		return isAddress4(host)
	}
	return strings.Trim(host, lowercase+uppercase+digits+"-._~!$&'()*+,;=%") == "" && !hasEmptyLabel(host)
}

// hasEmptyLabel tells whether host has nothing before, between or behind its dots.
func hasEmptyLabel(host string) bool { return strings.Contains("."+host+".", "..") }

// isAddress6 tells whether host is an IPv6 address in brackets and in its shortest form.
// One that holds an IPv4 address is a second spelling of that.
func isAddress6(host string) bool {
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && address.Is6() && address.Zone() == "" && !address.Is4In6() && "["+address.String()+
		"]" == host
}

// hasBarForColon tells whether the path of a file URI begins with a drive letter and a
// bar, which is a second spelling of the letter and a colon.
// https://url.spec.whatwg.org/#windows-drive-letter
func hasBarForColon(path string) bool { return len(path) > 2 && path[2] == '|' }

// inScheme tells whether a scheme may have the character.
func inScheme(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '+' || r == '-' ||
		r == '.'
}
