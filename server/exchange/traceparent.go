package exchange

import "strings"

// The fields of a traceparent stand at fixed places:
// https://www.w3.org/TR/trace-context/#traceparent-header-field-values
const traceparentLength = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")

// Traceparent returns the traceparent of the request, as it came. It is "" if there is
// none, more than one, or one that is not of the form of version 00, since it goes on to
// servers.
func (x *Exchange) Traceparent() string {
	values := x.Request.Header["Traceparent"]
	if len(values) != 1 || len(values[0]) != traceparentLength {
		return ""
	}
	text := values[0]
	for i := range len(text) {
		switch c := text[i]; {
		case i == 2, i == 35, i == 52:
			if c != '-' {
				return ""
			}
		case (c < '0' || c > '9') && (c < 'a' || c > 'f'):
			return ""
		}
	}
	if text[:2] == "ff" || strings.Trim(text[3:35], "0") == "" || strings.Trim(text[36:52], "0") == "" {
		return ""
	}
	return text
}
