package mcp

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

// An encoded header value stands between these.
const (
	sentinelStart = "=?base64?"
	sentinelEnd   = "?="
)

// EncodeHeader returns text as the value of an Mcp-* header: unchanged if it gets through
// a header unchanged, otherwise encoded as Base64 between sentinels. Text that looks
// encoded itself is encoded, or it would be decoded by its reader.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
func EncodeHeader(text string) string {
	if plainHeader(text) && !isSentinel(text) {
		return text
	}
	return sentinelStart + base64.StdEncoding.EncodeToString([]byte(text)) + sentinelEnd
}

// DecodeHeader returns the text that an Mcp-* header carries. ok is false if the value is
// not valid.
func DecodeHeader(value string) (text string, ok bool) {
	value = strings.Trim(value, " \t")
	if !plainHeader(value) {
		return "", false
	}
	if !isSentinel(value) {
		return value, true
	}
	decoded, err := base64.StdEncoding.Strict().DecodeString(
		value[len(sentinelStart) : len(value)-len(sentinelEnd)])
	return string(decoded), err == nil && utf8.Valid(decoded)
}

// isSentinel tells whether value has the form of an encoded one.
func isSentinel(value string) bool {
	return len(value) >= len(sentinelStart)+len(sentinelEnd) &&
		strings.HasPrefix(value, sentinelStart) && strings.HasSuffix(value, sentinelEnd)
}

// plainHeader tells whether text gets through a header unchanged: visible ASCII, with
// spaces only inside.
func plainHeader(text string) bool {
	return text == strings.Trim(text, " \t") &&
		!strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c > '~' })
}
