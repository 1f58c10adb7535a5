package audit

import (
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

const (
	maxString = 256 // the most bytes of one string of a record, before they are escaped
	maxList   = 8   // the most strings of one list of a record

	// maxLine is the length in bytes of the longest possible line, which is what Book
	// reserves. A Record has 14 strings and two lists of strings. In the worst case each
	// of their bytes becomes an escape of six, such as \u001b. 640 is enough for
	// everything else: the names of the members, the time and the numbers.
	maxLine = (14+2*maxList)*6*maxString + 640
)

// Record is one line of the file, as far as its fields are set: those that are zero are
// left out, except Time. When it is written, each string is cut to 256 bytes and each
// list to 8 strings, so that nobody who chooses one can fill the disk. It never holds a
// token, a secret, an argument or a result.
type Record struct {
	Time      time.Time
	RequestID string
	CallID    string // the request id of the first round, on the records of a call that has several rounds
	TenantID  string
	Issuer    string
	Subject   string
	ClientID  string
	Remote    string // client address; only on refusals by the HTTP server, before there is a call
	Method    string
	Server    string // upstream or built-in source
	Item      string // exposed name from the catalogue; if the catalogue does not know it, what the caller wrote
	WholeName string // of Item with its server, behind the prefix, where Item is cut or spelt in other characters
	Outcome   string // ok, tool_error, input_required, or the kind of refusal or failure
	Reason    string // one word of ours
	Arguments string // digest: "sha256:" + hex
	Duration  time.Duration
	Repairs   int // how many changes output cleaning made in the result

	// Count is how many refusals one record stands for, from Time on for as long as
	// Duration says. Zero: the record is no such sum and stands for itself.
	Count int

	// Audience is what a refused token says that it is for, and Expected what it should
	// say. Both are nil unless that is why it was refused, and its signature was
	// verified.
	Audience, Expected []string
}

// appendLine appends r to dst as one JSON object and a line break. Fields that are zero
// are left out. The line is made by hand instead of by an encoder, so that its longest
// length is known and nothing in it is hidden from a reader.
func (r *Record) appendLine(dst []byte) []byte {
	dst = append(dst, `{"time":"`...)
	dst = r.Time.UTC().AppendFormat(dst, time.RFC3339Nano)
	dst = append(dst, '"')
	dst = appendText(dst, `,"request_id":"`, r.RequestID)
	dst = appendText(dst, `,"call_id":"`, r.CallID)
	dst = appendText(dst, `,"tenant":"`, r.TenantID)
	dst = appendText(dst, `,"issuer":"`, r.Issuer)
	dst = appendText(dst, `,"subject":"`, r.Subject)
	dst = appendText(dst, `,"client_id":"`, r.ClientID)
	dst = appendText(dst, `,"remote":"`, r.Remote)
	dst = appendText(dst, `,"method":"`, r.Method)
	dst = appendText(dst, `,"server":"`, r.Server)
	dst = appendText(dst, `,"item":"`, r.Item)
	dst = appendText(dst, `,"whole_name":"`, r.WholeName)
	dst = appendText(dst, `,"outcome":"`, r.Outcome)
	dst = appendText(dst, `,"reason":"`, r.Reason)
	dst = appendText(dst, `,"arguments":"`, r.Arguments)
	if r.Duration != 0 {
		dst = append(dst, `,"duration_seconds":`...)
		dst = strconv.AppendFloat(dst, r.Duration.Seconds(), 'f', -1, 64)
	}
	if r.Repairs != 0 {
		dst = append(dst, `,"repairs":`...)
		dst = strconv.AppendInt(dst, int64(r.Repairs), 10)
	}
	dst = appendTexts(dst, `,"audience":[`, r.Audience)
	dst = appendTexts(dst, `,"expected":[`, r.Expected)
	if r.Count != 0 {
		dst = append(dst, `,"count":`...)
		dst = strconv.AppendInt(dst, int64(r.Count), 10)
	}
	return append(dst, '}', '\n')
}

// appendTexts appends a member whose value is a list of texts, unless the list is empty.
// name is everything that stands before the first text: comma, quoted name, colon and
// bracket.
func appendTexts(dst []byte, name string, texts []string) []byte {
	if len(texts) == 0 {
		return dst
	}
	dst = append(dst, name...)
	for i, text := range texts[:min(len(texts), maxList)] {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendQuoted(append(dst, '"'), text)
	}
	return append(dst, ']')
}

// appendText appends a member whose value is a text, unless the text is empty. name is
// everything that stands before the text: comma, quoted name, colon and quotation mark.
func appendText(dst []byte, name, text string) []byte {
	if text == "" {
		return dst
	}
	return appendQuoted(append(dst, name...), text)
}

// appendQuoted appends text, cut and escaped, and the quotation mark that ends it. The
// texts come from clients and servers. A line break, a terminal escape or an invisible
// character in one of them must not be able to start a second line or to show a reader of
// the file something other than what is there.
func appendQuoted(dst []byte, text string) []byte {
	text = cut(text)
	for i := 0; i < len(text); {
		if c := text[i]; c >= ' ' && c < 0x7F {
			if c == '"' || c == '\\' {
				dst = append(dst, '\\')
			}
			dst = append(dst, c)
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && size == 1 || strictjson.Hidden(r) {
			dst = strictjson.AppendEscape(dst, r)
		} else {
			dst = append(dst, text[i:i+size]...)
		}
		i += size
	}
	return append(dst, '"')
}

// cut returns at most the first 256 bytes of text, without half a character at their end.
func cut(text string) string {
	if len(text) <= maxString {
		return text
	}
	end := maxString
	for end > maxString-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}
