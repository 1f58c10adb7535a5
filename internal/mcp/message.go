package mcp

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// MaxID is the longest id of a request, in bytes of its JSON text. The gateway keeps ids
// and sends them back, so they need a bound.
const MaxID = 130

// ID is the id of a request as its exact JSON text: a string with its quotation marks, or
// an integer. It is sent back byte for byte, so 1 and "1" stay two ids. "" means that
// there is none: the message is a notification, or its id could not be read.
type ID string

// Message is one JSON-RPC message of either direction. It is exactly one of these three,
// by which fields are set:
//
//	request       ID and Method
//	notification  Method
//	response      ID, and Result or Err; ID is "" if the server could not read the one of the request
type Message struct {
	ID     ID
	Method string
	Params Object // of a request or notification; {} if absent
	Meta   Object // the _meta of Params; {} if absent
	Result Object // of a response, if Err is nil
	Err    *Error // of a response; what the other side sent, so it may say anything
}

// Notification is a message that nobody answers.
type Notification struct {
	Method string
	Params Object
}

// IsRequest tells whether m is a request.
func (m *Message) IsRequest() bool { return m.Method != "" && m.ID != "" }

// IsNotification tells whether m is a notification.
func (m *Message) IsNotification() bool { return m.Method != "" && m.ID == "" }

// IsResponse tells whether m is a response. The message that Decode returns beside an
// error looks like one, so look at the error first.
func (m *Message) IsResponse() bool { return m.Method == "" }

// Decode reads one message, which may come from anyone. Errors are *Error with CodeParse,
// CodeInvalidRequest or CodeInvalidParams, and may be told to the sender. The message
// beside an error holds the id if that could be read, so that the error can be sent as
// the response to it. The message aliases data.
func Decode(data []byte) (*Message, error) {
	raw, err := ParseRaw(data)
	if err != nil {
		return &Message{}, Errorf(CodeParse, "Parse error: %v", err)
	}
	return DecodeRaw(raw)
}

// call is a request or notification with room for the members of a usual one, so that it
// is one piece of memory.
type call struct {
	Message

	params [4]Member
	meta   [6]Member
}

// DecodeRaw is Decode for text that was checked already, such as an element of a batch.
func DecodeRaw(raw RawJSON) (*Message, error) {
	var few [8]Member // of the envelope, which is not kept
	envelope, ok := objectIn(few[:0], raw)
	if !ok {
		return &Message{}, Errorf(CodeInvalidRequest, "Invalid request: a message is a JSON object")
	}
	if method := envelope.Value("method"); method != nil {
		c := &call{}
		err := c.readEnvelope(envelope)
		if err == nil {
			err = c.read(envelope, method)
		}
		return &c.Message, err
	}
	m := &Message{}
	err := m.readEnvelope(envelope)
	if err == nil {
		err = m.readAnswer(envelope)
	}
	return m, err
}

// readEnvelope reads what every message has.
func (m *Message) readEnvelope(envelope Object) error {
	id := envelope.Value("id")
	if id.IsNull() && envelope.Has("error") && !envelope.Has("method") {
		id = nil // JSON-RPC 2.0 answers a request whose id could not be read with id null
	}
	if id != nil {
		if !validID(id) {
			return Errorf(CodeInvalidRequest,
				"Invalid request: id must be a string of at most %d bytes or an integer", MaxID-2)
		}
		m.ID = ID(id)
	}
	if name, ok := twin(envelope); ok {
		return Errorf(CodeInvalidRequest, "Invalid request: a member's name differs from %q only in spelling",
			name)
	}
	if !envelope.Value("jsonrpc").Says("2.0") {
		return Errorf(CodeInvalidRequest, `Invalid request: jsonrpc must be "2.0"`)
	}
	return nil
}

// read reads a request or a notification. Its Method is set last, so a message with an
// error has none.
func (c *call) read(envelope Object, method RawJSON) error {
	name, ok := methodIn(method)
	if !ok || name == "" || len(name) > 128 {
		return Errorf(CodeInvalidRequest, "Invalid request: method must be a short string")
	}
	if envelope.Has("result") || envelope.Has("error") {
		return Errorf(CodeInvalidRequest,
			"Invalid request: a message with a method has no result and no error")
	}
	// Some clients write the params that they do not have as null.
	if params := envelope.Value("params"); params != nil && !params.IsNull() {
		if c.Params, ok = objectIn(c.params[:0], params); !ok {
			return Errorf(CodeInvalidRequest, "Invalid request: params must be an object")
		}
	}
	if known, ok := twin(c.Params); ok {
		return Errorf(CodeInvalidRequest,
			"Invalid request: a member's name in params differs from %q only in spelling", known)
	}
	if meta := c.Params.Value("_meta"); meta != nil {
		if c.Meta, ok = objectIn(c.meta[:0], meta); !ok {
			return Errorf(CodeInvalidParams, "Invalid params: _meta must be an object")
		}
		if known, ok := twin(c.Meta); ok {
			return Errorf(CodeInvalidRequest,
				"Invalid request: a member's name in _meta differs from %q only in spelling", known)
		}
	}
	c.Method = name
	return nil
}

// methodIn returns the text of a method, and false if it is not a string. It copies only
// names that the protocol does not have.
func methodIn(raw RawJSON) (string, bool) {
	if len(raw) > 2 {
		if known, ok := methods[string(raw[1:len(raw)-1])]; ok {
			return known.Name, raw[0] == '"'
		}
	}
	return raw.Text()
}

// readAnswer reads a response.
func (m *Message) readAnswer(envelope Object) error {
	// Some servers write the one of the two that they do not have as null.
	result, failure := envelope.Value("result"), envelope.Value("error")
	if m.ID == "" && failure.IsNull() || result.IsNull() == failure.IsNull() {
		return Errorf(CodeInvalidRequest,
			"Invalid request: a message has a method, or an id and either result or error")
	}
	if !result.IsNull() {
		var ok bool
		if m.Result, ok = ObjectOf(result); !ok {
			return Errorf(CodeInvalidRequest, "Invalid request: result must be an object")
		}
		return nil
	}
	if m.Err = ErrorIn(failure); m.Err == nil {
		return Errorf(CodeInvalidRequest, "Invalid request: error must be an object with an integer code")
	}
	return nil
}

// validID tells whether id may name a request: a string, or an integer below 2^53, which
// every parser reads exactly. A parser that keeps numbers as floats would give two larger
// ids the same value.
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

// spellings are the right spellings of the names that mean something in a message, in
// params or in _meta, by their folded forms (see strictjson.Fold).
var spellings = byFolded("jsonrpc", "id", "method", "params", "result", "error",
	"name", "arguments", "uri", "cursor", "_meta", "level", "capabilities", "reason", "notifications",
	"ref", "argument", "protocolVersion", "clientInfo", "requestId", MetaProgressToken, "inputResponses",
	"requestState", "task", "taskId",
	MetaProtocolVersion, MetaClientInfo, MetaClientCapabilities, MetaLogLevel)

func byFolded(names ...string) map[string]string {
	folded := make(map[string]string, len(names))
	for _, name := range names {
		folded[strictjson.Fold(name)] = name
	}
	return folded
}

// maxTwin is the longest name, in bytes, that can fold to one of spellings. The
// longest of those has 42 characters, a character has at most 4 bytes, and no two
// characters fold to one of ASCII. Longer names need not be folded.
const maxTwin = 42 * 4

// twin returns the known name that a member of o imitates: spelt differently, but the
// same to a lenient parser. Such a member could make the server behind the gateway read
// another method or tool than the gateway has checked.
func twin(o Object) (string, bool) {
	for i := range o.members {
		name := o.members[i].Name
		switch name {
		case "id", "jsonrpc", "method", "params", "result", "name", "arguments", "_meta",
			MetaProgressToken, MetaProtocolVersion, MetaClientInfo, MetaClientCapabilities:
			continue // they are in nearly every message, right as they are, and names are slow to fold
		}
		// What follows a NUL does not count, so a long name may still fold to a short
		// one.
		if end := strings.IndexByte(name, 0); len(name) > maxTwin && (end < 0 || end > maxTwin) {
			continue
		}
		if exact := spellings[strictjson.Fold(name)]; exact != "" && exact != name {
			return exact, true
		}
	}
	return "", false
}

// appendHead appends the beginning of a message to dst, with the id unless that is "".
func appendHead(dst []byte, id ID) []byte {
	dst = append(dst, `{"jsonrpc":"2.0"`...)
	if id == "" {
		return dst
	}
	return append(append(dst, `,"id":`...), id...)
}

// AppendRequest appends a request to dst or, if id is "", a notification. Empty params
// are left out.
func AppendRequest(dst []byte, id ID, method string, params Object) []byte {
	dst = strictjson.AppendQuote(append(appendHead(dst, id), `,"method":`...), method)
	if params.Len() > 0 {
		dst = params.AppendJSON(append(dst, `,"params":`...))
	}
	return append(dst, '}')
}

// AppendResult appends the response with that result to dst. id is that of the request.
func AppendResult(dst []byte, id ID, result Object) []byte {
	dst = slices.Grow(dst, len(id)+result.Size()+40)
	dst = result.AppendJSON(append(appendHead(dst, id), `,"result":`...))
	return append(dst, '}')
}

// SplitResult returns the response that AppendResult would append, in three parts: what
// comes before the value of a member of the result, that value itself, which is not
// copied, and what follows. If the result has no such member, all is in head.
func SplitResult(id ID, result Object, member string) (head []byte, value RawJSON, tail []byte) {
	value = result.Value(member)
	if value == nil {
		return AppendResult(nil, id, result), nil, nil
	}
	const gap = "\x00" // no JSON has such a byte
	text := AppendResult(nil, id, result.With(member, RawJSON(gap)))
	head, tail, _ = bytes.Cut(text, []byte(gap))
	return slices.Clip(head), value, tail
}

// AppendError appends the response with that error to dst. id is that of the request. If
// it is "", the response has no id: no revision allows null.
func AppendError(dst []byte, id ID, e *Error) []byte {
	dst = e.Object().AppendJSON(append(appendHead(dst, id), `,"error":`...))
	return append(dst, '}')
}

// NumberID returns n as an id, for requests of the gateway's own.
func NumberID(n int64) ID { return ID(strconv.FormatInt(n, 10)) }
