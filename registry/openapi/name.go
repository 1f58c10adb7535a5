package openapi

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxName bounds the name of a tool, before its prefix, and of an argument, in bytes.
const maxName = 64

// nameTools gives every operation of a document the name of its tool: the operationId, else method and path, made of the
// characters that a tool's name may have. Operations that would share a name get a hash of what the document calls them
// at its end, all of them: a name never changes hands because another operation came or was left out.
func nameTools(operations []*operation) {
	holders, ids := map[string]int{}, map[string]int{}
	for _, o := range operations {
		o.name = o.plainName()
		holders[strings.ToLower(o.name)]++
		ids[o.id]++
	}
	for _, o := range operations {
		if holders[strings.ToLower(o.name)] == 1 {
			continue
		}
		full := o.id
		if full == "" || ids[full] > 1 { // no operationId may stand twice, but in some documents one does
			full = o.method + " " + o.path
		}
		o.name = hashed(o.name, full)
	}
}

func (o *operation) plainName() string {
	if name := fit(o.id); name != "" {
		return name
	}
	return fit(strings.ToLower(o.method) + "_" + strings.Trim(o.path, "/"))
}

// fit puts _ in place of every run of characters that names of tools and of their arguments must not have. A name that
// is too long is cut and ends in a hash of the whole.
func fit(text string) string {
	var out strings.Builder
	for _, c := range text {
		if !isAlphanumeric(c) && c != '-' && c != '.' {
			c = '_'
		}
		if c != '_' || !strings.HasSuffix(out.String(), "_") {
			out.WriteRune(c)
		}
	}
	fitted := out.String()
	if fitted != text { // what was put in place of brackets at an end says nothing
		fitted = strings.Trim(fitted, "_")
	}
	if len(fitted) > maxName {
		return hashed(fitted, text)
	}
	return fitted
}

// hashed returns name, cut where it is too long, with the beginning of a hash of full at its end, as registry makes the
// names that its prefixes make too long.
func hashed(name, full string) string {
	sum := sha256.Sum256([]byte(full))
	tail := "-" + hex.EncodeToString(sum[:3])
	return name[:min(len(name), maxName-len(tail))] + tail
}

func isAlphanumeric(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
