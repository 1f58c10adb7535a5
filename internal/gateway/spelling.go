package gateway

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// This file is about URIs with several spellings that a server may take for one. The registry refuses unlisted URIs
// whose scheme, host or path is spelt in an unusual way. What remains are spellings of schemes that are a server's own,
// where each program has its own idea of what a host is. A pattern that denies one of them denies all.

// usualSpelling returns the spelling that stands for all those which some program takes for the same URI:
//
//	memo://Secret/x     memo://secret/x      Python reads hosts in small letters
//	memo://secret?x     memo://secret/?x     an empty path is the path /
//	memo:/x             memo:///x            no host is an empty host
//	memo://secret:/x    memo://secret/x      an empty port is none
//	redis://2130706433/ redis://127.0.0.1/   a number as host may be an address
//
// text is a URI, or a pattern of URIs, with or without the server's name before it. A text without an absolute path or
// a host stays as it is.
func usualSpelling(text string) string {
	scheme, rest, found := strings.Cut(text, ":/")
	if !found {
		return text
	}
	scheme = strings.ToLower(scheme)
	rest, hasAuthority := strings.CutPrefix(rest, "/")
	if !hasAuthority {
		return scheme + ":///" + rest
	}
	authority, path := rest, ""
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority, path = rest[:end], rest[end:]
	}
	if !strings.HasPrefix(path, "/") && !strings.HasSuffix(authority, "*") {
		path = "/" + path
	}
	host, port, hasPort := strings.Cut(strings.ToLower(authority), ":")
	if address, ok := numberedAddress(host); ok {
		host = address.String()
	}
	if hasPort && port != "" {
		host += ":" + port
	}
	return scheme + "://" + host + path
}

// numberedAddress reads a host in the way in which the resolvers of operating systems read addresses: one to four
// numbers with dots between them, decimal, octal (017) or hexadecimal (0x7f), of which the last one fills all bytes
// that are left.
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

// usual returns patterns of URIs and, in addition, the usual spelling of each.
func usual(patterns []string) []string {
	for _, pattern := range slices.Clone(patterns) {
		if spelt := usualSpelling(pattern); spelt != pattern {
			patterns = append(patterns, spelt)
		}
	}
	return patterns
}
