package registry

import (
	"iter"
	"net/netip"
	"strconv"
	"strings"
)

// This file is about URIs with several spellings that a server may take for one. IsPlain
// refuses unlisted URIs whose scheme, host or path is spelt in an unusual way.
// What remains are spellings of schemes that are a server's own, where each program has
// its own idea of what a host is, and those that lists, results and operators write. A
// pattern that denies one of them denies all.

// UsualSpelling returns the spelling that stands for all those which some program takes
// for the same URI:
//
//	memo://Secret/x     memo://secret/x      Python reads hosts in small letters
//	memo://secret?x     memo://secret/?x     an empty path is the path /
//	memo:/x             memo:///x            no host is an empty host
//	memo://secret:/x    memo://secret/x      an empty port is none
//	redis://2130706433/ redis://127.0.0.1/   a number as host may be an address
//	http://intra.:080/  http://intra/        a default port is none, and a dot at the end means nothing
//	http://u@[::ffff:7f00:1]/ http://127.0.0.1/
//	file://localhost/x  file:///x            most programs ignore a host here
//
// text is a URI, or a pattern of URIs, with or without the server's name before it. A
// text without an absolute path or a host stays as it is, and so does a host or port with
// a star.
func UsualSpelling(text string) string {
	scheme, rest, found := strings.Cut(text, ":/")
	if !found {
		return text
	}
	scheme = strings.ToLower(scheme)
	authority, path, hierarchical := cutAuthority("/" + rest)
	if !hierarchical {
		return scheme + "://" + path
	}
	if !strings.HasPrefix(path, "/") && !strings.HasSuffix(authority, "*") {
		path = "/" + path
	}
	return scheme + "://" +
		usualAuthority(scheme[strings.LastIndexByte(scheme, ':')+1:], strings.ToLower(authority)) + path
}

// Spellings yields a URI, with or without the server's name before it, as servers may
// read it: decoded again and again, without its fragment, its query, its parameters and
// some characters at its end, and in its usual spelling.
func Spellings(uri string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for decoded := range Decodings(uri, mostDecodings) {
			for beginning := range beginnings(decoded) {
				trimmed := strings.TrimRight(beginning, "/. ")
				if !yield(beginning) || !yield(UsualSpelling(beginning)) || trimmed != beginning &&
					(!yield(trimmed) || !yield(UsualSpelling(trimmed))) {
					return
				}
			}
		}
	}
}

// Covers tells whether a change of uri concerns whoever watches a resource: uri is the
// watched one, or lies below it at a boundary of the path. Watching a:/b covers a:/b/c,
// and not a:/bc.
func Covers(watched, uri string) bool {
	rest, ok := strings.CutPrefix(uri, watched)
	if !ok || watched == "" {
		return false
	}
	return rest == "" || strings.HasSuffix(watched, "/") || strings.ContainsRune("/?#", rune(rest[0]))
}

// beginnings yields a URI, and what is left of it without fragment, query and parameters.
func beginnings(uri string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if !yield(uri) {
			return
		}
		for _, end := range []string{"#", "?", ";"} {
			before, _, found := strings.Cut(uri, end)
			if found && !yield(before) {
				return
			}
			uri = before
		}
	}
}

// usualAuthority returns the usual spelling of the host and port in a URI with that
// scheme, in small letters both.
func usualAuthority(scheme, authority string) string {
	host, port, _ := cutPort(authority[strings.LastIndexByte(authority, '@')+1:])
	host = usualHost(host)
	if number, err := strconv.ParseUint(port, 10, 16); err == nil {
		port = strconv.FormatUint(number, 10)
	}
	starred, kind := strings.Contains(host, "*"), kindOf(scheme)
	switch {
	case kind == kindFile && !starred:
		return ""
	case port == "" || port == defaultPorts[kind] && !starred:
		return host
	}
	return host + ":" + port
}

// usualHost returns the usual spelling of a host: that of an address, or without a dot at
// the end.
func usualHost(host string) string {
	if address, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil && strings.HasPrefix(host, "[") {
		if address = address.Unmap(); address.Is4() {
			return address.String()
		}
		return "[" + address.String() + "]"
	}
	host = strings.TrimRight(host, ".")
	if address, ok := numberedAddress(host); ok {
		return address.String()
	}
	return host
}

// numberedAddress reads a host in the way in which the resolvers of operating systems
// read addresses: one to four numbers with dots between them, decimal, octal (017) or
// hexadecimal (0x7f), of which the last one fills all bytes that are left.
func numberedAddress(host string) (address netip.Addr, ok bool) {
	numbers := strings.Split(host, ".")
	if len(numbers) > 4 {
		return netip.Addr{}, false
	}
	var bytes [4]byte
	for i, text := range numbers {
		width := 1
		if i == len(numbers)-1 {
			width = len(bytes) - i
		}
		number, err := strconv.ParseUint(text, 0, 8*width)
		if err != nil {
			return netip.Addr{}, false
		}
		for at := i + width - 1; at >= i; at-- {
			bytes[at] = byte(number) // the lowest one
			number >>= 8
		}
	}
	return netip.AddrFrom4(bytes), true
}
