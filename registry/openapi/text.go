package openapi

import (
	"mime"
	"strings"
)

// Media types that a body can be written in, beside other kinds of JSON.
const (
	typeJSON = "application/json"
	typeForm = "application/x-www-form-urlencoded"
)

// maxDescription bounds the description of a tool, in bytes. It does not bound
// descriptions within schemas, which are only cut when the tool does not fit otherwise
// (see fitting).
const maxDescription = 8 << 10

// rank orders the media types that a body can be written in: 3 for JSON, 2 for
// application/*+json, 1 for a form, and 0 for all others, which cannot be written.
func rank(mediaType string) int {
	base, _, err := mime.ParseMediaType(mediaType)
	switch {
	case err != nil || strings.Contains(base, "*"):
		return 0
	case base == typeJSON:
		return 3
	case strings.HasPrefix(base, "application/") && strings.HasSuffix(base, "+json"):
		return 2
	case base == typeForm:
		return 1
	}
	return 0
}
