package modern

import (
	"cmp"
	"math/big"
	"net/http"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
)

// check checks what a modern message says about itself in body and headers, and
// that they agree. Of several faults the client is told the first in this order.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
func (e *Endpoint) check(x *exchange.Exchange, m *mcp.Message) *exchange.Refusal {
	if m.IsNotification() {
		return checkNotification(x.Request.Header, x.Meta, m)
	}
	h := x.Request.Header
	refused := cmp.Or(checkMeta(x.Meta), checkVersion(h, x.Meta), checkNames(h, m))
	switch {
	case refused != nil:
	case mcp.MethodOf(m.Method).Only == mcp.Legacy: // the desk knows no eras, so it cannot refuse these
		refused = &exchange.Refusal{Status: http.StatusNotFound, Err: exchange.ErrUnknownMethod}
	case m.Method == mcp.MethodToolsCall:
		refused = e.checkParams(x, m)
	}
	return refused
}

// checkMeta requires the metadata that every modern request carries.
// https://modelcontextprotocol.io/specification/2026-07-28/basic
func checkMeta(meta mcp.Object) *exchange.Refusal {
	if !meta.Value(mcp.MetaProtocolVersion).IsText() {
		return missing(mcp.MetaProtocolVersion)
	}
	if !meta.Value(mcp.MetaClientCapabilities).IsObject() {
		return missing(mcp.MetaClientCapabilities)
	}
	if level := meta.Value(mcp.MetaLogLevel); level != nil {
		name, _ := level.Text()
		if _, ok := mcp.LevelOf(name); !ok {
			return exchange.ErrLevel
		}
	}
	return nil
}

func missing(name string) *exchange.Refusal {
	return exchange.Refusalf(http.StatusBadRequest, mcp.CodeInvalidParams, "Invalid params: _meta needs %q",
		name)
}

// checkVersion compares the revision in the header with the one in the body, and with
// those that are served.
func checkVersion(h http.Header, meta mcp.Object) *exchange.Refusal {
	values := h[mcp.HeaderProtocolVersion]
	if len(values) != 1 || !meta.Value(mcp.MetaProtocolVersion).Says(values[0]) {
		return mismatch(mcp.HeaderProtocolVersion)
	}
	if mcp.EraOf(values[0]) != mcp.Modern {
		return unsupported(values[0])
	}
	return nil
}

func unsupported(revision string) *exchange.Refusal {
	return exchange.BadRequest(&mcp.Error{
		Code: mcp.CodeUnsupportedVersion, Message: "Unsupported protocol version",
		Data: mcp.NewObject(
			mcp.Member{Name: "supported", Value: mcp.Strings(mcp.Revisions())},
			mcp.Member{Name: "requested", Value: mcp.String(exchange.Cut(revision))},
		).JSON(),
	})
}

// checkNames compares the body with the headers that repeat its method and the name of
// its subject.
func checkNames(h http.Header, m *mcp.Message) *exchange.Refusal {
	if !repeats(h[mcp.HeaderMethod], m.Method) {
		return mismatch(mcp.HeaderMethod)
	}
	if method := mcp.MethodOf(m.Method); method.Named &&
		!repeatsText(h[mcp.HeaderName], m.Params.Value(method.Subject)) {
		return mismatch(mcp.HeaderName)
	}
	return nil
}

// checkNotification checks the headers of a notification as far as it has any. It needs
// no metadata.
func checkNotification(h http.Header, meta mcp.Object, m *mcp.Message) *exchange.Refusal {
	revision, named := meta.Value(mcp.MetaProtocolVersion).Text()
	values := h[mcp.HeaderProtocolVersion]
	if len(values) > 1 || len(values) == 1 && named && values[0] != revision {
		return mismatch(mcp.HeaderProtocolVersion)
	}
	if len(values) == 1 {
		revision = values[0]
	}
	if mcp.EraOf(revision) != mcp.Modern {
		return unsupported(revision)
	}
	if values := h[mcp.HeaderMethod]; len(values) > 0 && !repeats(values, m.Method) {
		return mismatch(mcp.HeaderMethod)
	}
	return nil
}

// checkParams compares the arguments of a tool with the headers that repeat them. A
// header that the tool does not ask for means nothing.
// https://modelcontextprotocol.io/specification/2026-07-28/server/tools
func (e *Endpoint) checkParams(x *exchange.Exchange, m *mcp.Message) *exchange.Refusal {
	declared := x.Declares(x.Context(), x.Meta.Value(mcp.MetaClientCapabilities).Member("extensions"))
	params := e.config.Exchanges.Desk.HeaderParams(x.Caller, declared, x.Tool)
	for i := range params {
		name := mcp.HeaderParamPrefix + params[i].Header
		value := params[i].Argument(m.Params.Value("arguments"))
		values := x.Request.Header[http.CanonicalHeaderKey(name)]
		if value.IsNull() {
			if len(values) > 0 {
				return mismatch(name)
			}
			continue
		}
		if !repeatsValue(values, value) {
			return mismatch(name)
		}
	}
	return nil
}

// repeats tells whether a header is there exactly once and says text.
func repeats(values []string, text string) bool {
	if len(values) != 1 {
		return false
	}
	decoded, ok := mcp.DecodeHeader(values[0])
	return ok && decoded == text
}

// repeatsText tells whether a header is there exactly once and says the text of a JSON
// string; what is no string has the text "".
func repeatsText(values []string, text mcp.RawJSON) bool {
	if len(values) != 1 {
		return false
	}
	decoded, ok := mcp.DecodeHeader(values[0])
	return ok && (text.Says(decoded) || decoded == "" && !text.IsText())
}

// repeatsValue tells whether a header is there exactly once and says the same as a JSON
// value. Numbers are compared as numbers, so 1.0 repeats 1.
func repeatsValue(values []string, value mcp.RawJSON) bool {
	if text, ok := value.Text(); ok {
		return repeats(values, text)
	}
	if repeats(values, string(value)) {
		return true
	}
	if len(values) != 1 {
		return false
	}
	said, ok := number([]byte(values[0]))
	meant, isNumber := number(value)
	return ok && isNumber && said.Cmp(meant) == 0
}

// number reads a JSON number exactly. The bounds of strictjson keep that cheap.
func number(literal []byte) (*big.Rat, bool) {
	if len(literal) == 0 || literal[0] != '-' && (literal[0] < '0' || literal[0] > '9') ||
		strictjson.Check(literal) != nil {
		return nil, false
	}
	return new(big.Rat).SetString(string(literal))
}

func mismatch(header string) *exchange.Refusal {
	return exchange.Refusalf(http.StatusBadRequest, mcp.CodeHeaderMismatch,
		"Header mismatch: %s is missing, repeated, malformed or differs from the body", header)
}
