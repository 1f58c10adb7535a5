package openapi

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// This file writes JSON values of arguments into paths, queries, forms and headers.
// Whatever the value, it must stay the value of its own parameter: it must not end the
// parameter, add another one, or lead to another path.

// value is the value of an argument, taken apart: a text of its own is one part, and so
// is each element of a list, and each member of an object, which has its name and its
// text.
type value struct {
	plain  bool // it is one text
	object bool
	parts  [][]string
}

// read takes the value of the argument apart. Elements of a list that are objects or
// lists are refused where no style says how to write them. The error is a
// *registry.UsageError.
func (a *argument) read(raw mcp.RawJSON) (value, error) {
	if a.asJSON || a.objects && raw.IsObject() {
		return value{plain: true, parts: [][]string{{string(raw)}}}, nil
	}
	if elements, ok := raw.Elements(); ok {
		v := value{parts: make([][]string, len(elements))}
		for i, element := range elements {
			text, ok := scalar(element)
			if a.elements && (element.IsObject() || element.IsArray()) {
				text, ok = string(element), true
			}
			if !ok {
				return value{}, registry.Usagef(
					"arguments.%s: the elements must be texts, numbers or booleans", a.name)
			}
			v.parts[i] = []string{text}
		}
		return v, nil
	}
	if o, ok := mcp.ObjectOf(raw); ok {
		v := value{object: true}
		for key, member := range o.Members {
			text, ok := scalar(member)
			if !ok {
				return value{}, registry.Usagef("arguments.%s: the values must be texts, numbers or booleans",
					a.name)
			}
			v.parts = append(v.parts, []string{key, text})
		}
		return v, nil
	}
	text, ok := scalar(raw)
	if !ok {
		return value{}, registry.Usagef("arguments.%s must not be null", a.name)
	}
	return value{plain: true, parts: [][]string{{text}}}, nil
}

// scalar returns the text of a string, number or boolean; ok is false for other values.
func scalar(raw mcp.RawJSON) (string, bool) {
	if raw.IsNull() || raw.IsArray() || raw.IsObject() {
		return "", false
	}
	if text, ok := raw.Text(); ok {
		return text, true
	}
	return string(raw), raw[0] != '"'
}

// texts returns every text in the value, also the keys of an object.
func (v value) texts() []string { return slices.Concat(v.parts...) }

// joined writes a value, each text in it escaped. between stands between elements or
// members, and equals between the name of one and its text.
func (v value) joined(escaped func(string) string, between, equals string) string {
	pieces := make([]string, len(v.parts))
	for i, part := range v.parts {
		pieces[i] = escaped(part[0])
		if v.object {
			pieces[i] += equals + escaped(part[1])
		}
	}
	return strings.Join(pieces, between)
}

// form is how a style writes values in a path or header, as an expression of a URI
// template does. https://www.rfc-editor.org/rfc/rfc6570#appendix-A
type form struct {
	first string // stands before everything
	named bool   // the name of the parameter stands before a value
	// stands between elements or pairs of which each is written on its own, with the name
	// if the style is named; between the others stands a comma
	between string
}

// forms are the styles of paths and headers.
// https://spec.openapis.org/oas/v3.1.1.html#style-examples
var forms = map[string]form{
	"simple": {between: ","},
	"label":  {first: ".", between: "."},
	"matrix": {first: ";", between: ";", named: true},
}

// marks are what stands between the elements of a list that is one value in a query, by
// style; in all other styles that is a comma.
var marks = map[string]string{"spaceDelimited": " ", "pipeDelimited": "|"}

// written returns what the value becomes in the style of the argument, in a path or
// header, each text in it escaped.
func (a *argument) written(v value, escaped func(string) string) string {
	f, name := forms[a.style], ""
	if f.named {
		name = escape(a.parameter) + "="
	}
	switch {
	case v.plain || !a.explode:
		return f.first + name + v.joined(escaped, ",", ",")
	case v.object:
		return f.first + v.joined(escaped, f.between, "=")
	}
	return f.first + name + v.joined(escaped, f.between+name, "")
}

// pathText returns what the value becomes in a segment of the path. It refuses values
// that could lead to another path, and empty ones, which would leave out the segment. The
// error is a *registry.UsageError.
func (a *argument) pathText(v value) (string, error) {
	if len(v.parts) == 0 || v.plain && v.parts[0][0] == "" {
		return "", registry.Usagef("arguments.%s must not be empty: it is part of the address", a.name)
	}
	for _, text := range v.texts() {
		if !harmless(text) {
			return "", registry.Usagef(
				"arguments.%s must not be . or .., have them or nothing between slashes, have control "+
					"characters, be encoded more than %d times or be longer than %d bytes: it is part of "+
					"the address", a.name, maxLayers, maxPathText)
		}
		if !a.slashes && hasSlash(text) {
			return "", registry.Usagef("arguments.%s must not have slashes: it is one part of the address",
				a.name)
		}
	}
	return a.written(v, escape), nil
}

// maxNames bounds the names in a query or a form together, in bytes. The whole name
// stands before each element of a list and before whatever an object holds, and callers
// choose the names in forms and objects: a name of a megabyte before a hundred thousand
// elements would take all memory.
const maxNames = 4 << 20

// fields are the name=value pieces of a query or a form.
type fields struct {
	pieces []string
	names  int // bytes
}

// add adds a field, whose name and text are escaped. The error is a *registry.UsageError.
func (f *fields) add(name, text string) error {
	if f.names += len(name); f.names > maxNames {
		return registry.Usagef(
			"The arguments repeat their names until these have more than %d bytes: use shorter names, or "+
				"fewer values.", maxNames)
	}
	f.pieces = append(f.pieces, name+"="+text)
	return nil
}

// String returns the query or the form.
func (f *fields) String() string { return strings.Join(f.pieces, "&") }

// addTo adds the fields that a value becomes in the query or in a form; an empty list
// becomes none. The error is a *registry.UsageError.
func (a *argument) addTo(f *fields, raw mcp.RawJSON) error {
	if a.style == "deepObject" && !a.asJSON {
		return a.addDeep(f, a.parameter, raw)
	}
	v, err := a.read(raw)
	name, mark := escape(a.parameter), marks[a.style]
	has := func(text string) bool { return strings.Contains(text, mark) }
	switch {
	case err != nil:
		return err
	case v.plain:
		return f.add(name, a.escaped(v.parts[0][0]))
	case v.object && a.explode:
		return registry.Usagef("arguments.%s must not be an object", a.name)
	case len(v.parts) == 0:
		return nil
	case a.explode:
		for _, part := range v.parts {
			if err := f.add(name, a.escaped(part[0])); err != nil {
				return err
			}
		}
		return nil
	// a comma within an element is encoded and one between two is not; these are alike
	case mark != "" && slices.ContainsFunc(v.texts(), has):
		return registry.Usagef(
			"arguments.%s: no element may have %q, which stands between elements", a.name, mark)
	}
	mark = cmp.Or(escape(mark), ",")
	return f.add(name, v.joined(a.escapedElement, mark, mark))
}

// addDeep adds the fields of a value, or of what stands within it, in the style
// deepObject: name[key]=value, and name[0]=value for a list. The specification does not
// define what nested objects and lists become; most APIs read name[key][key] and
// name[key][0].
// https://spec.openapis.org/oas/v3.1.1.html#style-examples
func (a *argument) addDeep(f *fields, name string, raw mcp.RawJSON) error {
	if len(name) > maxPathText { // each member would copy it
		return registry.Usagef("arguments.%s: names within names have more than %d bytes together",
			mcp.Clip(a.name, maxReason), maxPathText)
	}
	var members []mcp.Member
	elements, _ := raw.Elements()
	for i, element := range elements {
		members = append(members, mcp.Member{Name: strconv.Itoa(i), Value: element})
	}
	o, _ := mcp.ObjectOf(raw)
	for key, member := range o.Members {
		if strings.ContainsAny(key, "[]") {
			return registry.Usagef("arguments.%s: a name in it must not have brackets", a.name)
		}
		members = append(members, mcp.Member{Name: key, Value: member})
	}
	for _, m := range members {
		if err := a.addDeep(f, name+"["+m.Name+"]", m.Value); err != nil {
			return err
		}
	}
	if text, ok := scalar(raw); ok { // null is not written
		return f.add(escape(name), a.escaped(text))
	}
	return nil
}

// headerText returns what the value becomes in a header. It refuses every character but
// visible ASCII and spaces, above all line breaks, which would end the header. The error
// is a *registry.UsageError.
func (a *argument) headerText(v value) (string, error) {
	text := a.written(v, func(text string) string { return text })
	if strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c > '~' }) {
		return "", registry.Usagef(
			"arguments.%s is sent in a header, which takes visible ASCII characters and spaces only",
			a.name)
	}
	return strings.TrimSpace(text), nil
}

// escape percent-encodes all characters but the unreserved ones. A space becomes %20 and
// not +, which in a path is no space.
// https://www.rfc-editor.org/rfc/rfc3986#section-2.3
func escape(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

// escaped returns the text of a value as it is written into the query.
func (a *argument) escaped(text string) string {
	if a.reserved {
		return escapeReserved(text)
	}
	return escape(text)
}

// escapedElement is escaped for an element of a list, in which a comma would begin the
// next element.
func (a *argument) escapedElement(text string) string {
	return strings.ReplaceAll(a.escaped(text), ",", "%2C")
}

// escapeReserved percent-encodes like escape, but leaves those reserved characters that
// mean nothing within a value of the query. Always encoded are # (ends the query), & and
// ; (separate values, the latter for some servers), = (separates name and value), + (is
// read as a space) and brackets (may not stand in a query). A % is encoded too, so that
// decoding gives the text that was passed.
// https://www.rfc-editor.org/rfc/rfc3986#section-3.4
func escapeReserved(text string) string { return harmlessReserved.Replace(escape(text)) }

var harmlessReserved = strings.NewReplacer("%3A", ":", "%2F", "/", "%3F", "?", "%40", "@", "%21", "!", "%24",
	"$",
	"%27", "'", "%28", "(", "%29", ")", "%2A", "*", "%2C", ",")

// maxPathText bounds one text within a path, in bytes.
const maxPathText = 4096

// maxLayers bounds how often a text within a path is encoded: to look through thousands
// of layers takes a hundredth of a second, and a list has a thousand such texts.
const maxLayers = 128

// harmless tells whether a text can stand in a path without leading elsewhere, whichever
// server on the way reads it. It must have no segment that is empty or of dots, also for
// a server that decodes more than once, takes a backslash for a slash or cuts segments at
// a semicolon.
func harmless(text string) bool {
	if len(text) > maxPathText {
		return false
	}
	plain := text
	for plain = range registry.Decodings(text, maxLayers) {
		for piece := range strings.SplitSeq(strings.ReplaceAll(plain, `\`, "/"), "/") {
			switch piece, _, _ = strings.Cut(piece, ";"); piece {
			case "", ".", "..":
				return false
			}
		}
		if strings.ContainsFunc(plain,
			func(c rune) bool { return c < ' ' || c == 0x7F || c == utf8.RuneError }) {
			return false
		}
	}
	return registry.Decode(plain) == plain
}

// hasSlash tells whether a server on the way may read a text as more than one segment of
// a path. Many servers decode a path before they decide which operation it names, so that
// an encoded slash would reach another operation, which may not even be included. So only
// parameters for which the document allows reserved characters take slashes.
// https://spec.openapis.org/oas/v3.2.0.html#parameter-allow-reserved
func hasSlash(text string) bool {
	for decoded := range registry.Decodings(text, maxLayers) {
		if strings.ContainsAny(decoded, `/\`) {
			return true
		}
	}
	return false
}
