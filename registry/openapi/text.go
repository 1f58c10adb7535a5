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

// leastText is to how many bytes a description within a schema is cut before it is left
// out.
const leastText = 60

// The ranks of media types that a body can be written in.
const (
	rankNone  = iota // cannot be written
	rankRange        // of types, JSON among them
	rankForm
	rankOther // application/*+json
	rankJSON
)

// rank orders the media types that a body can be written in.
func rank(mediaType string) int {
	base, _, err := mime.ParseMediaType(mediaType)
	switch {
	case err != nil:
		return rankNone
	case base == "*/*" || base == "application/*":
		return rankRange
	case strings.Contains(base, "*"):
		return rankNone
	case base == typeJSON:
		return rankJSON
	case strings.HasPrefix(base, "application/") && strings.HasSuffix(base, "+json"):
		return rankOther
	case base == typeForm:
		return rankForm
	}
	return rankNone
}
