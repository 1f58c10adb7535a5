package openapi

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// usageError is an error whose text is for the model. It holds no value.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// value is an argument taken apart: a list, pairs, or one text.
type value struct {
	plain bool // it is text
	text  string
	list  []string
	pairs [][2]string // not nil of an object
}

func (a *argument) read(raw mcp.RawJSON) (value, error) {
	if a.asJSON {
		return value{text: string(raw), plain: true}, nil
	}
	if a.objects && raw.IsObject() {
		return value{text: string(raw), plain: true}, nil
	}
	return valueOf(a.name, raw, a.elements)
}

// valueOf takes a JSON value apart. name is for errors; asJSON tells whether the elements of a list that are no
// scalars are written as JSON.
func valueOf(name string, raw mcp.RawJSON, asJSON bool) (value, error) {
	switch {
	case raw.IsArray():
		elements, _ := raw.Elements()
		v := value{list: make([]string, len(elements))}
		for i, element := range elements {
			text, ok := scalar(element)
			if asJSON && (element.IsObject() || element.IsArray()) {
				text, ok = string(element), true
			}
			if !ok {
				return value{}, usagef("arguments.%s: the elements must be texts, numbers or booleans", name)
			}
			v.list[i] = text
		}
		return v, nil
	case raw.IsObject():
		o, _ := mcp.ObjectOf(raw)
		v := value{pairs: make([][2]string, 0, o.Len())}
		for key, member := range o.Members {
			text, ok := scalar(member)
			if !ok {
				return value{}, usagef("arguments.%s: the values must be texts, numbers or booleans", name)
			}
			v.pairs = append(v.pairs, [2]string{key, text})
		}
		return v, nil
	}
	text, ok := scalar(raw)
	if !ok {
		return value{}, usagef("arguments.%s must not be null", name)
	}
	return value{text: text, plain: true}, nil
}

func scalar(raw mcp.RawJSON) (string, bool) {
	if raw.IsNull() || raw.IsArray() || raw.IsObject() {
		return "", false
	}
	if text, ok := raw.Text(); ok {
		return text, true
	}
	return string(raw), raw[0] != '"'
}

// texts returns every text of a value, keys included.
func (v value) texts() []string {
	if v.plain {
		return []string{v.text}
	}
	all := slices.Clone(v.list)
	for _, pair := range v.pairs {
		all = append(all, pair[0], pair[1])
	}
	return all
}

// joined writes a list or pairs with what stands between elements and between a key and its value, each piece escaped.
func (v value) joined(escaped func(string) string, between, equals string) string {
	var pieces []string
	for _, text := range v.list {
		pieces = append(pieces, escaped(text))
	}
	for _, pair := range v.pairs {
		pieces = append(pieces, escaped(pair[0])+equals+escaped(pair[1]))
	}
	return strings.Join(pieces, between)
}

// pathText writes a value into a segment of the path.
// https://spec.openapis.org/oas/v3.1.1.html#style-examples
func (a *argument) pathText(v value) (string, error) {
	if !v.plain && len(v.list) == 0 && len(v.pairs) == 0 || v.plain && v.text == "" {
		return "", usagef("arguments.%s must not be empty: it is part of the address", a.name)
	}
	for _, text := range v.texts() {
		if !harmless(text) {
			return "", usagef("arguments.%s must not be . or .., have them or nothing between slashes, have control characters or be longer than %d bytes: it is part of the address", a.name, maxPathText)
		}
		if !a.slashes && hasSlash(text) {
			return "", usagef("arguments.%s must not have slashes: it is one part of the address", a.name)
		}
	}
	equals := ","
	if a.explode {
		equals = "="
	}
	name := escape(a.parameter)
	switch a.style {
	case "label":
		if v.plain {
			return "." + escape(v.text), nil
		}
		between := ","
		if a.explode {
			between = "."
		}
		return "." + v.joined(escape, between, equals), nil
	case "matrix":
		switch {
		case v.plain:
			return ";" + name + "=" + escape(v.text), nil
		case a.explode && v.pairs != nil:
			return ";" + v.joined(escape, ";", "="), nil
		case a.explode:
			return ";" + name + "=" + v.joined(escape, ";"+name+"=", ""), nil
		}
		return ";" + name + "=" + v.joined(escape, ",", ","), nil
	}
	if v.plain {
		return escape(v.text), nil
	}
	return v.joined(escape, ",", equals), nil
}

// queryTexts writes a value as name=value pieces of the query, or of a form.
func (a *argument) queryTexts(raw mcp.RawJSON) ([]string, error) {
	if a.style == "deepObject" && !a.asJSON {
		return a.deepTexts(nil, a.parameter, raw)
	}
	v, err := a.read(raw)
	if err != nil {
		return nil, err
	}
	name := escape(a.parameter)
	switch {
	case v.plain:
		return []string{name + "=" + a.escaped(v.text)}, nil
	case v.pairs != nil && a.explode:
		return nil, usagef("arguments.%s must not be an object", a.name)
	case a.explode:
		var pieces []string
		for _, text := range v.list {
			pieces = append(pieces, name+"="+a.escaped(text))
		}
		return pieces, nil
	case len(v.list) == 0 && len(v.pairs) == 0:
		return nil, nil
	}
	between := map[string]string{"spaceDelimited": "%20", "pipeDelimited": "%7C", "form": ","}[a.style]
	return []string{name + "=" + v.joined(a.escapedElement, between, between)}, nil
}

// deepTexts appends a value in the style deepObject: name[key]=value, and for lists name[0]=value. The specification
// leaves open what objects and lists within become; most APIs read name[key][key] and name[key][0].
// https://spec.openapis.org/oas/v3.1.1.html#style-examples
func (a *argument) deepTexts(pieces []string, name string, raw mcp.RawJSON) ([]string, error) {
	var err error
	if elements, ok := raw.Elements(); ok {
		for i, element := range elements {
			if pieces, err = a.deepTexts(pieces, name+"["+strconv.Itoa(i)+"]", element); err != nil {
				return nil, err
			}
		}
		return pieces, nil
	}
	if o, ok := mcp.ObjectOf(raw); ok {
		for key, member := range o.Members {
			if strings.ContainsAny(key, "[]") {
				return nil, usagef("arguments.%s: a name in it must not have brackets", a.name)
			}
			if pieces, err = a.deepTexts(pieces, name+"["+key+"]", member); err != nil {
				return nil, err
			}
		}
		return pieces, nil
	}
	if text, ok := scalar(raw); ok { // null is nothing
		pieces = append(pieces, escape(name)+"="+a.escaped(text))
	}
	return pieces, nil
}

// headerText writes a value into a header.
func (a *argument) headerText(v value) (string, error) {
	as := func(text string) string { return text }
	text, equals := v.text, ","
	if a.explode {
		equals = "="
	}
	if !v.plain {
		text = v.joined(as, ",", equals)
	}
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return "", usagef("arguments.%s is sent in a header, which takes visible ASCII characters and spaces only", a.name)
		}
	}
	return strings.TrimSpace(text), nil
}

// escape encodes all but the unreserved characters. A space becomes %20, which every server takes for one.
// https://www.rfc-editor.org/rfc/rfc3986#section-2.3
func escape(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

// escaped writes a value of the query.
func (a *argument) escaped(text string) string {
	if a.reserved {
		return escapeReserved(text)
	}
	return escape(text)
}

// escapedElement writes an element of a list with a comma between them.
func (a *argument) escapedElement(text string) string {
	return strings.ReplaceAll(a.escaped(text), ",", "%2C")
}

// escapeReserved leaves the reserved characters that mean nothing in the value of a query as they are. These never stay:
// # ends the query, & and for some servers ; separate its values, = separates name and value, + is read as a space, and
// brackets may stand in no query. A % is the text's own, so that what is decoded is what was given.
// https://www.rfc-editor.org/rfc/rfc3986#section-3.4
func escapeReserved(text string) string { return harmlessReserved.Replace(escape(text)) }

var harmlessReserved = strings.NewReplacer("%3A", ":", "%2F", "/", "%3F", "?", "%40", "@", "%21", "!", "%24", "$",
	"%27", "'", "%28", "(", "%29", ")", "%2A", "*", "%2C", ",")

// maxPathText bounds one text within a path, in bytes.
const maxPathText = 4096

// harmless tells whether a text leads nowhere else for any server on the way: also for one that decodes it twice, takes
// a backslash for a slash or cuts at a semicolon, it holds no dot segment and no empty one.
func harmless(text string) bool {
	if len(text) > maxPathText {
		return false
	}
	for {
		for piece := range strings.SplitSeq(strings.ReplaceAll(text, `\`, "/"), "/") {
			switch piece, _, _ = strings.Cut(piece, ";"); piece {
			case "", ".", "..":
				return false
			}
		}
		if strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == 0x7F || c == utf8.RuneError }) {
			return false
		}
		decoded := unescape(text)
		if decoded == text {
			return true
		}
		text = decoded
	}
}

// hasSlash tells whether a text is more than one segment of a path for some server on the way. Many decode a path before
// they look which operation it is, so that an encoded slash would lead to another one: only parameters that the document
// allows reserved characters take paths.
// https://spec.openapis.org/oas/v3.2.0.html#parameter-allow-reserved
func hasSlash(text string) bool {
	for {
		if strings.ContainsAny(text, `/\`) {
			return true
		}
		decoded := unescape(text)
		if decoded == text {
			return false
		}
		text = decoded
	}
}

// unescape decodes every %XX once, and leaves a % that begins none.
func unescape(text string) string {
	if !strings.Contains(text, "%") {
		return text
	}
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) {
			if decoded, err := url.PathUnescape(text[i : i+3]); err == nil {
				out.WriteString(decoded)
				i += 2
				continue
			}
		}
		out.WriteByte(text[i])
	}
	return out.String()
}
