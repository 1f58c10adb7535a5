package mcp

import (
	"cmp"
	"fmt"
	"time"
)

// Codes of JSON-RPC and of the protocol.
// https://modelcontextprotocol.io/specification/2026-07-28/basic
const (
	CodeParse              = -32700
	CodeInvalidRequest     = -32600
	CodeMethodNotFound     = -32601
	CodeInvalidParams      = -32602
	CodeInternal           = -32603
	CodeResourceNotFound   = -32002 // before 2026-07-28; since then CodeInvalidParams
	CodeURLElicitation     = -32042 // 2025-11-25 only
	CodeHeaderMismatch     = -32020
	CodeMissingCapability  = -32021
	CodeUnsupportedVersion = -32022
)

// Codes of this gateway. They lie outside -32768 … -32000, which JSON-RPC reserves, and
// read like the HTTP status that goes with them.
const (
	CodeForbidden   = 403
	CodeLimited     = 429
	CodeUnavailable = 503
)

// Error is a JSON-RPC error. Everything in it is told to the client, so nothing internal
// may stand in it. Its methods return changed copies: an Error may be shared and is never
// changed.
type Error struct {
	Code    int
	Message string
	Data    RawJSON // any JSON value; nil: none
	// RetryAfter says when the client may try again; zero: not said. After tells it in
	// data.retryAfterMs as well, and the HTTP server in the header Retry-After.
	RetryAfter time.Duration
}

// Error implements error, for logs.
func (e *Error) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// ErrorIn returns the error that raw is, as Object writes it, nil if raw is no object
// with an integer code.
func ErrorIn(raw RawJSON) *Error {
	detail, _ := ObjectOf(raw)
	code, ok := detail.Value("code").Int()
	if !ok {
		return nil
	}
	return &Error{Code: int(code), Message: detail.Text("message"), Data: detail.Value("data")}
}

// Errorf returns an error whose whole text is told to the client, so no argument may hold
// anything internal.
func Errorf(code int, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Stable returns an error of this gateway with a stable code such as DB-LIMIT-TENANT in
// its data. Programs can go by a stable code: messages may change, and one code stands
// for many reasons.
func Stable(code int, stable, message string) *Error {
	return (&Error{Code: code, Message: message}).With("code", String(stable))
}

// stableCodes are the stable codes of those errors that have a code of the protocol and
// no finer reason. They stand in this file so that whoever adds a code above also sees
// them. The map is never changed.
var stableCodes = map[int]string{
	CodeParse:              "DB-PARSE",
	CodeInvalidRequest:     "DB-REQUEST",
	CodeMethodNotFound:     "DB-METHOD",
	CodeInvalidParams:      "DB-PARAMS",
	CodeHeaderMismatch:     "DB-HEADER",
	CodeMissingCapability:  "DB-CAPABILITY",
	CodeUnsupportedVersion: "DB-REVISION",
}

// WithStable returns e with the stable code that goes with its code, or DB-INTERNAL if
// none does. It takes the place of a stable code that e has.
func (e *Error) WithStable() *Error {
	return e.With("code", String(cmp.Or(stableCodes[e.Code], "DB-INTERNAL")))
}

// With returns e with a member in its data. Data that is no object gives way to one.
func (e *Error) With(name string, value RawJSON) *Error {
	data, _ := ObjectOf(e.Data)
	return &Error{
		Code: e.Code, Message: e.Message, RetryAfter: e.RetryAfter, Data: data.With(name, value).JSON(),
	}
}

// StableCode returns the stable code in the data of e, "" if there is none.
func (e *Error) StableCode() string {
	data, _ := ObjectOf(e.Data)
	return data.Text("code")
}

// After returns e with the time after which the client may try again. It says at least a
// millisecond, since zero would mean that nothing is said.
func (e *Error) After(d time.Duration) *Error {
	d = max(d, time.Millisecond)
	later := e.With("retryAfterMs", Int(d.Milliseconds()))
	later.RetryAfter = d
	return later
}

// OfRequest returns e with the id of the HTTP request that it answers, by which an
// operator finds the request in the records. Data that is no object has no place for the
// id and stays as it is; only an upstream sends such.
func (e *Error) OfRequest(id string) *Error {
	if e.Data != nil && !e.Data.IsObject() {
		return e
	}
	return e.With("requestId", String(id))
}

// Object returns e as the error member of a response. RetryAfter is not part of it: see
// After.
func (e *Error) Object() Object {
	return NewObject(
		Member{Name: "code", Value: Int(int64(e.Code))}, Member{Name: "message", Value: String(e.Message)},
		Member{Name: "data", Value: e.Data},
	)
}
