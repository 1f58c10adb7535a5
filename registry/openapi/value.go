package openapi

import (
	"fmt"
	"net/url"
	"slices"
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
	return valueOf(a.name, raw)
}

// valueOf takes a JSON value apart. name is for errors.
func valueOf(name string, raw mcp.RawJSON) (value, error) {
	switch {
	case raw.IsArray():
		elements, _ := raw.Elements()
		v := value{list: make([]string, len(elements))}
		for i, element := range elements {
			text, ok := scalar(element)
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

// queryTexts writes a value as name=value pieces of the query.
func (a *argument) queryTexts(v value) ([]string, error) {
	name := escape(a.parameter)
	switch {
	case v.plain:
		return []string{name + "=" + escape(v.text)}, nil
	case v.pairs != nil && a.style == "deepObject":
		var pieces []string
		for _, pair := range v.pairs {
			if strings.ContainsAny(pair[0], "[]") {
				return nil, usagef("arguments.%s: a name in it must not have brackets", a.name)
			}
			pieces = append(pieces, name+escape("["+pair[0]+"]")+"="+escape(pair[1]))
		}
		return pieces, nil
	case a.style == "deepObject":
		return nil, usagef("arguments.%s must be an object", a.name)
	case v.pairs != nil && a.explode:
		return nil, usagef("arguments.%s must not be an object", a.name)
	case a.explode:
		var pieces []string
		for _, text := range v.list {
			pieces = append(pieces, name+"="+escape(text))
		}
		return pieces, nil
	case len(v.list) == 0 && len(v.pairs) == 0:
		return nil, nil
	}
	between := map[string]string{"spaceDelimited": "%20", "pipeDelimited": "%7C", "form": ","}[a.style]
	return []string{name + "=" + v.joined(escape, between, between)}, nil
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

// formTexts writes an object as a form.
func formTexts(raw mcp.RawJSON) (string, error) {
	o, ok := mcp.ObjectOf(raw)
	if !ok {
		return "", usagef("arguments.body must be an object")
	}
	var pieces []string
	for name, member := range o.Members {
		if member.IsNull() {
			continue
		}
		field := &argument{name: "body." + name, parameter: name, style: "form", explode: true}
		v, err := field.read(member)
		if err != nil {
			return "", err
		}
		more, err := field.queryTexts(v)
		if err != nil {
			return "", err
		}
		pieces = append(pieces, more...)
	}
	return strings.Join(pieces, "&"), nil
}

// escape encodes all but the unreserved characters. A space becomes %20, which every server takes for one.
// https://www.rfc-editor.org/rfc/rfc3986#section-2.3
func escape(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

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
