package openapi

// Media types that a body can be written in, beside other kinds of JSON.
const (
	typeJSON = "application/json"
	typeForm = "application/x-www-form-urlencoded"
)

// maxDescription bounds the description of a tool, in bytes. It does not bound
// descriptions within schemas, which are only cut when the tool does not fit otherwise
// (see fitting).
const maxDescription = 8 << 10
