package mcp

import (
	"slices"
	"strconv"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// MaxID is the longest id of a request, in bytes of JSON text.
const MaxID = 130

// ID is the exact JSON text of a request's id, a string or an integer. "" is none: a notification, or an id that could
// not be read.
type ID string

// Message is one JSON-RPC message of either direction. Exactly one of these is true: it is a request (ID and Method), a
// notification (Method alone), a response (ID, and Result or Err).
type Message struct {
	ID     ID
	Method string
	Params Object // of requests and notifications; {} when absent
	Result Object // of a response without Err
	Err    *Error
}

// Notification is a message that wants no answer.
type Notification struct {
	Method string
	Params Object
}

// IsRequest tells whether m wants an answer.
func (m *Message) IsRequest() bool { return m.Method != "" && m.ID != "" }

// IsNotification tells whether m wants none.
func (m *Message) IsNotification() bool { return m.Method != "" && m.ID == "" }

// IsResponse tells whether m is an answer.
func (m *Message) IsResponse() bool { return m.Method == "" }

// Decode reads one message that came from anyone. Errors are *Error with CodeParse or CodeInvalidRequest; the message
// returned beside one holds the id as far as it could be read. The message aliases data.
func Decode(data []byte) (*Message, error) {
	raw, err := ParseRaw(data)
	if err != nil {
		return &Message{}, Errorf(CodeParse, "Parse error: %v", err)
	}
	return DecodeRaw(raw)
}

// DecodeRaw is Decode for text that was checked already, as an element of a batch.
func DecodeRaw(raw RawJSON) (*Message, error) {
	m := &Message{}
	envelope, ok := ObjectOf(raw)
	if !ok {
		return m, Errorf(CodeInvalidRequest, "Invalid request: a message is a JSON object")
	}
	id := envelope.Value("id")
	if id.IsNull() && envelope.Has("error") && !envelope.Has("method") {
		id = nil // how JSON-RPC 2.0 answers a request whose id could not be read
	}
	if id != nil {
		if !validID(id) {
			return m, Errorf(CodeInvalidRequest, "Invalid request: id must be a string of at most %d bytes or an integer", MaxID-2)
		}
		m.ID = ID(id)
	}
	if name, ok := twin(envelope); ok {
		return m, Errorf(CodeInvalidRequest, "Invalid request: a member's name differs from %q only in spelling", name)
	}
	if envelope.Text("jsonrpc") != "2.0" {
		return m, Errorf(CodeInvalidRequest, `Invalid request: jsonrpc must be "2.0"`)
	}
	if method := envelope.Value("method"); method != nil {
		return m, m.readCall(envelope, method)
	}
	return m, m.readAnswer(envelope)
}

func (m *Message) readCall(envelope Object, method RawJSON) error {
	name, ok := method.Text()
	if !ok || name == "" || len(name) > 128 {
		return Errorf(CodeInvalidRequest, "Invalid request: method must be a short string")
	}
	if envelope.Has("result") || envelope.Has("error") {
		return Errorf(CodeInvalidRequest, "Invalid request: a message with a method has no result and no error")
	}
	if params := envelope.Value("params"); params != nil {
		if m.Params, ok = ObjectOf(params); !ok {
			return Errorf(CodeInvalidRequest, "Invalid request: params must be an object")
		}
	}
	if known, ok := twin(m.Params); ok {
		return Errorf(CodeInvalidRequest, "Invalid request: a member's name in params differs from %q only in spelling", known)
	}
	if meta := m.Params.Value("_meta"); meta != nil {
		inner, ok := ObjectOf(meta)
		if !ok {
			return Errorf(CodeInvalidParams, "Invalid params: _meta must be an object")
		}
		if known, ok := twin(inner); ok {
			return Errorf(CodeInvalidRequest, "Invalid request: a member's name in _meta differs from %q only in spelling", known)
		}
	}
	m.Method = name
	return nil
}

func (m *Message) readAnswer(envelope Object) error {
	result, failure := envelope.Value("result"), envelope.Value("error")
	if m.ID == "" && failure == nil || (result == nil) == (failure == nil) {
		return Errorf(CodeInvalidRequest, "Invalid request: a message has a method, or an id and either result or error")
	}
	if result != nil {
		var ok bool
		if m.Result, ok = ObjectOf(result); !ok {
			return Errorf(CodeInvalidRequest, "Invalid request: result must be an object")
		}
		return nil
	}
	detail, ok := ObjectOf(failure)
	code, isInt := detail.Value("code").Int()
	if !ok || !isInt {
		return Errorf(CodeInvalidRequest, "Invalid request: error must be an object with an integer code")
	}
	m.Err = &Error{Code: int(code), Message: detail.Text("message"), Data: detail.Value("data")}
	return nil
}

// validID tells whether id may name a request: a string, or an integer that every parser reads exactly.
func validID(id RawJSON) bool {
	if len(id) > MaxID {
		return false
	}
	if id[0] == '"' {
		return true
	}
	n, ok := id.Int()
	return ok && n > -1<<53 && n < 1<<53
}

// spelling returns the one spelling of the name with that folded form, of those that mean something in an envelope, in
// params or in _meta; "" when there is none.
func spelling(folded string) string {
	switch folded {
	case "jsonrpc", "id", "method", "params", "result", "error",
		"name", "arguments", "uri", "cursor", "_meta", "level", "capabilities", "reason", "notifications", "ref", "argument":
		return folded
	case "protocolversion":
		return "protocolVersion"
	case "clientinfo":
		return "clientInfo"
	case "requestid":
		return "requestId"
	case "progresstoken":
		return MetaProgressToken
	case "inputresponses":
		return "inputResponses"
	case "requeststate":
		return "requestState"
	case "io.modelcontextprotocol/protocolversion":
		return MetaProtocolVersion
	case "io.modelcontextprotocol/clientinfo":
		return MetaClientInfo
	case "io.modelcontextprotocol/clientcapabilities":
		return MetaClientCapabilities
	case "io.modelcontextprotocol/loglevel":
		return MetaLogLevel
	}
	return ""
}

// maxTwin is the longest name that can fold to one of spelling, in bytes: each of its at most 42 characters has at most
// 4, and NFKC composes nothing to ASCII.
const maxTwin = 42 * 4

// twin returns the known name that a member of o imitates: lenient parsers would read the member as that.
func twin(o Object) (string, bool) {
	for name := range o.Members {
		switch name {
		case MetaProtocolVersion, MetaClientInfo, MetaClientCapabilities:
			continue // in every modern request, and dear to fold
		}
		if end := strings.IndexByte(name, 0); len(name) > maxTwin && (end < 0 || end > maxTwin) {
			continue
		}
		if exact := spelling(strictjson.Fold(name)); exact != "" && exact != name {
			return exact, true
		}
	}
	return "", false
}

// AppendRequest appends a request, or with id "" a notification.
func AppendRequest(dst []byte, id ID, method string, params Object) []byte {
	dst = append(dst, `{"jsonrpc":"2.0"`...)
	if id != "" {
		dst = append(append(dst, `,"id":`...), id...)
	}
	dst = strictjson.AppendQuote(append(dst, `,"method":`...), method)
	if params.Len() > 0 {
		dst = params.AppendJSON(append(dst, `,"params":`...))
	}
	return append(dst, '}')
}

// AppendResult appends the successful response to the request with that id.
func AppendResult(dst []byte, id ID, result Object) []byte {
	dst = slices.Grow(dst, len(id)+result.size()+40)
	dst = append(append(dst, `{"jsonrpc":"2.0","id":`...), id...)
	dst = result.AppendJSON(append(dst, `,"result":`...))
	return append(dst, '}')
}

// AppendError appends the error response to the request with that id. Without an id the member is left out: null is
// valid in no revision.
func AppendError(dst []byte, id ID, e *Error) []byte {
	dst = append(dst, `{"jsonrpc":"2.0"`...)
	if id != "" {
		dst = append(append(dst, `,"id":`...), id...)
	}
	dst = e.Object().AppendJSON(append(dst, `,"error":`...))
	return append(dst, '}')
}

// NumberID returns n as an id.
func NumberID(n int64) ID { return ID(strconv.FormatInt(n, 10)) }
