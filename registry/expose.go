package registry

import (
	"bytes"
	"cmp"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// This file maps the URIs in results and errors of servers with a prefix to their exposed
// form, and leaves out the resources of results that the client may not see. Most results
// have no URI, so it looks for one in the bytes first, and takes apart only values that
// may have one.
//
//	result ── content ─────────── block: resource_link, resource, tool_result (again content)
//	       ├─ contents ────────── the contents of a resource
//	       ├─ messages ────────── message ── content
//	       ├─ inputRequests ───── a request for sampling ── params ── messages
//	       ├─ skill, resources ── a skill with its files; what is in a directory
//	       ├─ _meta ───────────── the view of an app
//	       └─ result (of a task)─ content, _meta

// mayHoldURI tells, without parsing, whether a value can have a member that names a
// resource. The name may be written with \u escapes, so a value with any such escape may
// have one.
func mayHoldURI(raw mcp.RawJSON) bool {
	return bytes.Contains(raw, []byte(`"uri"`)) || bytes.Contains(raw, []byte(`\u`)) ||
		bytes.Contains(raw, []byte(mcp.MetaAppURI))
}

// exposedResult maps and judges the URIs in the result of a call. The same Object comes
// back when there is nothing to change.
func (o *origin) exposedResult(result mcp.Object, c *Call) mcp.Object {
	var m *mapper
	mapped := result
	for name, value := range result.Members {
		member, known := members[name]
		if !known || !mayHoldURI(value) || member.ofMethod && mcp.MethodOf(c.Method).Result != name {
			continue
		}
		if m == nil {
			m = o.mapper()
			m.filter, m.asked = c.Filter, c.Params.Text("uri")
		}
		if fresh := member.mapped(m, value); fresh != nil {
			mapped = mapped.With(name, fresh)
		}
	}
	return mapped
}

// members are those of results that have URIs: how each is mapped, and whether it has
// them only if it is what its method asks for.
var members = map[string]struct {
	mapped   func(*mapper, mcp.RawJSON) mcp.RawJSON
	ofMethod bool
}{
	"content":           {(*mapper).blocks, false},
	"contents":          {(*mapper).allRead, false},
	"messages":          {(*mapper).messages, false},
	"inputRequests":     {(*mapper).questions, false},
	"result":            {(*mapper).ofTask, false},
	"_meta":             {(*mapper).view, false},
	mcp.ResultSkill:     {(*mapper).skill, true},
	mcp.ResultResources: {(*mapper).children, true},
}

// exposedError maps the URI in the data of a JSON-RPC error that the server sent: the
// error of resources/read for an unknown URI repeats it there.
// https://modelcontextprotocol.io/specification/2026-07-28/server/resources#error-handling
func (o *origin) exposedError(err error) error {
	worded, ok := err.(*mcp.Error) //nolint:errorlint // one that is wrapped is for the log
	if !ok || !worded.Data.IsObject() {
		return err
	}
	data := o.mapper().contents(worded.Data)
	if data == nil {
		return err
	}
	mapped := *worded
	mapped.Data = data
	return &mapped
}

// What stands in the place of a resource that the client may not see. It does not name
// the resource.
const (
	embeddedNote = "[left out: a resource that the rules of this gateway do not let you read]"
	linkNote     = "[left out: a link to a resource that the rules of this gateway do not let you read]"
)

// mapper maps and judges the URIs in one result. Its methods return the new JSON of a
// value, or nil for a value that stays as it is. A value of the wrong shape stays as it
// is.
type mapper struct {
	origin  *origin
	service *service
	work    int    // left for matching templates, for all URIs of the result together; see maxMatching
	filter  Filter // nil: the client may see everything
	asked   string // the exposed URI that the client reads, "" when it does something else
}

func (o *origin) mapper() *mapper {
	return &mapper{origin: o, service: o.service.Load(), work: maxMatching}
}

func (m *mapper) blocks(raw mcp.RawJSON) mcp.RawJSON   { return each(raw, m.block) }
func (m *mapper) allRead(raw mcp.RawJSON) mcp.RawJSON  { return each(raw, m.read) }
func (m *mapper) messages(raw mcp.RawJSON) mcp.RawJSON { return each(raw, m.message) }
func (m *mapper) ofTask(raw mcp.RawJSON) mcp.RawJSON   { return m.viewed(raw, m.message(raw)) }

// skill maps what a server says of a skill.
func (m *mapper) skill(raw mcp.RawJSON) mcp.RawJSON {
	skill, ok := mcp.ObjectOf(raw)
	if !ok {
		return nil
	}
	return m.origin.skillMapped(skill).JSON()
}

// each applies mapped to raw, or to every element when raw is an array: the content of a
// message is one block or a list.
func each(raw mcp.RawJSON, mapped func(mcp.RawJSON) mcp.RawJSON) mcp.RawJSON {
	if !mayHoldURI(raw) {
		return nil
	}
	if !raw.IsArray() {
		return mapped(raw)
	}
	elements, _ := raw.Elements()
	changed := false
	for i, element := range elements {
		if fresh := mapped(element); fresh != nil {
			elements[i], changed = fresh, true
		}
	}
	if !changed {
		return nil
	}
	return mcp.Array(elements)
}

// within applies mapped to one member of an object and returns the object with it.
func within(raw mcp.RawJSON, name string, mapped func(mcp.RawJSON) mcp.RawJSON) mcp.RawJSON {
	object, _ := mcp.ObjectOf(raw)
	value := object.Value(name)
	if value == nil {
		return nil
	}
	fresh := mapped(value)
	if fresh == nil {
		return nil
	}
	return object.With(name, fresh).JSON()
}

// block maps a content block.
func (m *mapper) block(raw mcp.RawJSON) mcp.RawJSON {
	if !mayHoldURI(raw) {
		return nil
	}
	object, _ := mcp.ObjectOf(raw)
	switch object.Text("type") {
	case "resource_link":
		return m.viewed(raw, m.link(object))
	case "resource":
		if m.hides(object.Object("resource")) {
			return mcp.TextBlock(embeddedNote)
		}
		return m.viewed(raw, within(raw, "resource", m.contents))
	case "tool_result":
		return m.message(raw)
	}
	return nil
}

// view maps the URI of a view that _meta names, and removes one that the client may not
// see.
func (m *mapper) view(raw mcp.RawJSON) mcp.RawJSON {
	meta, _ := mcp.ObjectOf(raw)
	uri := viewIn(meta)
	if uri == "" {
		return nil
	}
	if m.filter != nil && !m.filter.Shows(uri, Linked) {
		return withoutView(meta).JSON()
	}
	return m.origin.viewMapped(meta)
}

// children maps the resources in a directory, without those that the client may not see.
func (m *mapper) children(raw mcp.RawJSON) mcp.RawJSON {
	elements, ok := raw.Elements()
	if !ok {
		return nil
	}
	kept := make([]mcp.RawJSON, 0, len(elements))
	for _, element := range elements {
		child, _ := mcp.ObjectOf(element)
		uri := child.Text("uri")
		if uri == "" || m.filter != nil && !m.filter.Shows(uri, Linked) {
			continue
		}
		if fresh := m.contents(element); fresh != nil {
			element = fresh
		}
		kept = append(kept, element)
	}
	return mcp.Array(kept)
}

// viewed maps the view that _meta of a value names, of which other members have been
// mapped already: fresh is what it has become, nil if it is as it was.
func (m *mapper) viewed(raw, fresh mcp.RawJSON) mcp.RawJSON {
	base := fresh
	if base == nil {
		base = raw
	}
	if mapped := within(base, "_meta", m.view); mapped != nil {
		return mapped
	}
	return fresh
}

// hides tells whether the client may not see the contents of a resource. Contents without
// a URI belong to what the client asked for.
func (m *mapper) hides(contents mcp.Object) bool {
	uri, named := contents.Value("uri").Text()
	return m.filter != nil && named && !m.filter.Shows(uri, Embedded)
}

// read maps an element of the result of resources/read. A server may answer with other
// resources than it was asked for. The note in the place of one that the client may not
// see is of what the client asked for.
func (m *mapper) read(raw mcp.RawJSON) mcp.RawJSON {
	object, _ := mcp.ObjectOf(raw)
	if m.hides(object) {
		return mcp.NewObject(
			mcp.Member{Name: "uri", Value: mcp.String(m.asked)},
			mcp.Member{Name: "mimeType", Value: mcp.String("text/plain")},
			mcp.Member{Name: "text", Value: mcp.String(embeddedNote)},
		).JSON()
	}
	return m.contents(raw)
}

func (m *mapper) contents(raw mcp.RawJSON) mcp.RawJSON {
	return m.viewed(raw, within(raw, "uri", func(value mcp.RawJSON) mcp.RawJSON {
		uri, _ := value.Text()
		if m.isElsewhere(uri) {
			return nil
		}
		return m.exposed(uri)
	}))
}

// message maps the content of a message, or of whatever else has content.
func (m *mapper) message(raw mcp.RawJSON) mcp.RawJSON {
	return within(raw, "content", m.blocks)
}

// questions maps inputRequests, an object of requests by key: the messages of those that
// ask for sampling. Requests of other methods have no messages.
func (m *mapper) questions(raw mcp.RawJSON) mcp.RawJSON {
	requests, ok := mcp.ObjectOf(raw)
	if !ok || !mayHoldURI(raw) {
		return nil
	}
	mapped, changed := make([]mcp.Member, 0, requests.Len()), false
	for key, request := range requests.Members {
		fresh := within(request, "params", func(params mcp.RawJSON) mcp.RawJSON {
			return within(params, "messages", m.messages)
		})
		if fresh != nil {
			request, changed = fresh, true
		}
		mapped = append(mapped, mcp.Member{Name: key, Value: request})
	}
	if !changed {
		return nil
	}
	return mcp.NewObject(mapped...).JSON()
}

// link maps a resource link. A link to the web that the server does not serve itself
// stays: the client fetches it from there.
func (m *mapper) link(block mcp.Object) mcp.RawJSON {
	uri, ok := block.Value("uri").Text()
	if !ok {
		return nil
	}
	mention := Linked
	if m.isOfWeb(uri) || m.isElsewhere(uri) {
		mention = Elsewhere
	}
	if m.filter != nil && !m.filter.Shows(uri, mention) {
		return mcp.TextBlock(linkNote)
	}
	fresh := m.exposed(uri)
	if mention == Elsewhere || fresh == nil {
		return nil
	}
	return block.With("uri", fresh).JSON()
}

// isOfWeb tells whether the URI is one of the web that the server does not serve.
func (m *mapper) isOfWeb(uri string) bool {
	scheme := strings.ToLower(schemeOf(uri))
	return (scheme == "http" || scheme == "https") && !m.service.knows(uri, &m.work)
}

// isElsewhere tells whether the URI belongs to no server. A text without a scheme is no
// absolute URI.
func (m *mapper) isElsewhere(uri string) bool {
	scheme := strings.ToLower(schemeOf(uri))
	return scheme == "" || (scheme == "data" || scheme == "javascript" || scheme == "vbscript") &&
		!m.service.knows(uri, &m.work)
}

// exposed maps a URI that belongs to the server.
func (m *mapper) exposed(uri string) mcp.RawJSON {
	if m.origin.prefix == "" {
		return nil
	}
	return mcp.String(m.origin.exposed(uri))
}

// viewIn returns the URI of a view as _meta names it, "" if it names none: hosts take the
// nested member, else the flat one.
func viewIn(meta mcp.Object) string {
	return cmp.Or(meta.Object(mcp.MetaApp).Text(mcp.MetaAppURI), meta.Text(mcp.MetaAppFlat))
}

// exposedView returns the exposed URI of a view. One that is no URI of views stays: hosts
// refuse it.
func (o *origin) exposedView(uri string) string {
	if schemeOf(uri) != mcp.SchemeApp {
		return uri
	}
	return o.exposed(uri)
}

// viewMapped returns _meta with the exposed URI of the view in both places.
func (o *origin) viewMapped(meta mcp.Object) mcp.RawJSON {
	mapped := meta
	if ui := meta.Object(mcp.MetaApp); ui.Text(mcp.MetaAppURI) != "" {
		mapped = mapped.With(mcp.MetaApp,
			ui.With(mcp.MetaAppURI, mcp.String(o.exposedView(ui.Text(mcp.MetaAppURI)))).JSON())
	}
	if flat := meta.Text(mcp.MetaAppFlat); flat != "" {
		mapped = mapped.With(mcp.MetaAppFlat, mcp.String(o.exposedView(flat)))
	}
	return mapped.JSON()
}

// withoutView returns _meta without the URI of a view, with what else it says.
func withoutView(meta mcp.Object) mcp.Object {
	meta = meta.Without(mcp.MetaAppFlat)
	if ui := meta.Object(mcp.MetaApp); ui.Has(mcp.MetaAppURI) {
		if ui = ui.Without(mcp.MetaAppURI); ui.Len() > 0 {
			meta = meta.With(mcp.MetaApp, ui.JSON())
		} else {
			meta = meta.Without(mcp.MetaApp)
		}
	}
	return meta
}

// skillMapped returns what a server says of a skill with exposed URIs: its own and those
// of its files.
func (o *origin) skillMapped(skill mcp.Object) mcp.Object {
	if uri := skill.Text("uri"); schemeOf(uri) != "" {
		skill = skill.With("uri", mcp.String(o.exposed(uri)))
	}
	files, ok := skill.Value("resources").Elements()
	if !ok {
		return skill
	}
	for i, raw := range files {
		file, _ := mcp.ObjectOf(raw)
		if uri := file.Text("uri"); schemeOf(uri) != "" {
			files[i] = file.With("uri", mcp.String(o.exposed(uri))).JSON()
		}
	}
	return skill.With("resources", mcp.Array(files))
}
