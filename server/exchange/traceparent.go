package exchange

import (
	"regexp"
	"strings"
)

// traceparentForm is the form of version 00, whose fields stand at fixed places:
// https://www.w3.org/TR/trace-context/#traceparent-header-field-values
var traceparentForm = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// Traceparent returns the traceparent of the request, as it came. It is "" if there is
// none, more than one, or one that is not of the form of version 00, since it goes on to
// servers.
func (x *Exchange) Traceparent() string {
	values := x.Request.Header["Traceparent"]
	if len(values) != 1 || !traceparentForm.MatchString(values[0]) {
		return ""
	}
	text := values[0]
	if text[:2] == "ff" || strings.Trim(text[3:35], "0") == "" || strings.Trim(text[36:52], "0") == "" {
		return ""
	}
	return text
}
