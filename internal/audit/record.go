package audit

import (
	"strconv"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	maxString = 256 // bytes of the longest string of a record, before escaping
	maxList   = 8   // strings of the longest list of a record
	// maxLine is the bytes of the longest line: of 13 strings and two lists, each byte escaped with six, and all else.
	maxLine = (13+2*maxList)*6*maxString + 640
)

// Record is one line. Its strings are cut to 256 bytes when written, and its lists to 8 of them. It never holds a token,
// a secret, an argument or a result.
type Record struct {
	Time      time.Time
	RequestID string
	CallID    string // the request id of a call's first round, when the call has several
	TenantID  string
	Issuer    string
	Subject   string
	ClientID  string
	Remote    string // client address; only of refusals at the door
	Method    string
	Server    string // upstream or built-in source
	Item      string // exposed name from the catalogue, or the caller's spelling when unknown
	Outcome   string // ok, tool_error, input_required, or the kind of refusal or failure
	Reason    string // one word of ours
	Arguments string // digest: "sha256:" + hex
	Duration  time.Duration
	Repairs   int // what output cleaning changed
	Count     int // of a sum: how many refusals it stands for, from Time on for Duration; zero: the record is no sum

	// Audience is what a refused token says that it is for, and Expected what it should say. Both are nil unless that is
	// why it was refused and its signature was verified.
	Audience, Expected []string
}

// appendLine appends r as one JSON object and a line break. Empty fields are left out.
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

// appendTexts appends a member that is a list of texts, with its name given as it is written before them, unless the
// list is empty.
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

// appendText appends a member with its name given as it is written before the text, unless text is empty.
func appendText(dst []byte, name, text string) []byte {
	if text == "" {
		return dst
	}
	return appendQuoted(append(dst, name...), text)
}

// appendQuoted appends text and the quotation mark that ends it.
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
		if r == utf8.RuneError && size == 1 || hidden(r) {
			dst = appendEscape(dst, r)
		} else {
			dst = append(dst, text[i:i+size]...)
		}
		i += size
	}
	return append(dst, '"')
}

// cut returns text without what follows its first 256 bytes, and without half a character at their end.
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

// hidden tells whether a reader of the file would not see r, or see something else than what is there.
func hidden(r rune) bool {
	return !unicode.IsPrint(r) || unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) || r == '\u2800'
}

func appendEscape(dst []byte, r rune) []byte {
	high, low := utf16.EncodeRune(r)
	if high == unicode.ReplacementChar {
		return appendUnit(dst, r)
	}
	return appendUnit(appendUnit(dst, high), low)
}

func appendUnit(dst []byte, unit rune) []byte {
	const hex = "0123456789abcdef"
	return append(dst, '\\', 'u', hex[unit>>12&15], hex[unit>>8&15], hex[unit>>4&15], hex[unit&15])
}
