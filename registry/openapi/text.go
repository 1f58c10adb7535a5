package openapi

import "unicode/utf8"

// Media types that a body can be written in, beside other kinds of JSON.
const (
	typeJSON = "application/json"
	typeForm = "application/x-www-form-urlencoded"
)

// maxDescription bounds the description of a tool, in bytes. It does not bound
// descriptions within schemas, which are only cut when the tool does not fit otherwise
// (see fitting).
const maxDescription = 8 << 10

// cut returns text, or when it has more than limit bytes its beginning, cut between
// characters and with … at its end.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end := limit
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}
