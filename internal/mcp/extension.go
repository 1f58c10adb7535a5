package mcp

import (
	"regexp"
	"slices"
	"strings"
)

// Extension is what the gateway knows of one extension of the protocol. Nothing on the
// wire says which methods, members and URIs belong to an extension, so a row of
// extensions says it, and all other code looks there. A test compares the reference of
// the protocol with the rows.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/index#extensions
type Extension struct {
	ID string
	// Methods are those of requests and notifications; each request has a row in methods
	// too.
	Methods []string
	// Meta are its members of _meta; one that ends in a slash stands for all that begin
	// so.
	Meta []string
	// Schemes are those of URIs by which hosts know what belongs to it, so that exposed
	// URIs keep them.
	Schemes []string
	// Settings are what a side declares that knows all of it.
	Settings RawJSON
	// Media is a media type that a client's settings must name in mimeTypes, or else it
	// cannot use the extension; "": none.
	Media string
	// Flags are settings of servers that are true or false. The gateway declares one as
	// true if a server of the caller does.
	Flags []string
	// What cleaning never edits, because hosts run it or compare it: contents of
	// resources of these media types, those under Schemes if Files is true, and
	// definitions that have the member Item. They pass as the server wrote them, or not
	// at all.
	Whole []string
	Files bool
	Item  string // "": it defines nothing of its own
	// Pattern is the word before patterns of rules that name its items; "": it has none
	// of its own.
	Pattern string
	// ListsAlike tells that servers list the same to clients with it and without: it has
	// lists of its own, or none.
	ListsAlike bool
	// OwnNegotiation tells that it is negotiated by other means than Extensions: the one
	// that tasks are has two forms (see Tasks).
	OwnNegotiation bool
	// Older says what a client without it gets in its place.
	Older string
}

// Identifiers of extensions, and the words that other code needs of them. ExtensionTasks
// is in task.go.
const (
	ExtensionApps   = "io.modelcontextprotocol/ui"
	ExtensionSkills = "io.modelcontextprotocol/skills"

	MediaApp  = "text/html;profile=mcp-app" // of the view of an app
	SchemeApp = "ui"

	SchemeSkill = "skill"

	MetaApp     = "ui"             // of a tool: an object with MetaAppURI and visibility
	MetaAppURI  = "resourceUri"    // in MetaApp: the view
	MetaAppFlat = "ui/resourceUri" // the same beside it, deprecated
)

// extensions are those that the gateway knows, by their identifiers. It is never changed.
// A new extension is a row here; docs/extending.md says what else it needs.
var extensions = []Extension{
	{
		ID: ExtensionSkills, Methods: []string{MethodSkillsList, MethodSkillsGet, MethodDirectoryRead},
		Meta: []string{"io.modelcontextprotocol.skills/"}, Schemes: []string{SchemeSkill},
		Settings: RawJSON("{}"),
		Flags:    []string{"directoryRead"}, Pattern: "skill", ListsAlike: true,
		Files: true, Item: "frontmatter",
		Older: "the files as resources",
	},
	{
		ID: ExtensionTasks, Methods: []string{
			MethodTasksGet, MethodTasksUpdate, MethodTasksCancel,
			NotifyTasks,
		},
		Meta: []string{MetaRelatedTask}, Settings: RawJSON("{}"), OwnNegotiation: true,
		Older: "the result, when it is there",
	},
	{
		ID: ExtensionApps, Meta: []string{MetaApp, MetaAppFlat}, Schemes: []string{SchemeApp},
		Settings: RawJSON(`{"mimeTypes":["` + MediaApp + `"]}`), Media: MediaApp,
		Whole: []string{MediaApp}, Older: "the tool without its view; tools for apps alone are left out",
	},
}

// KeepsScheme tells whether hosts know by that scheme of a URI what belongs to an
// extension.
func KeepsScheme(scheme string) bool {
	return scheme != "" && slices.ContainsFunc(extensions, func(row Extension) bool {
		return slices.Contains(row.Schemes, scheme)
	})
}

// PassesWhole tells whether contents of that media type are never edited.
func PassesWhole(media []byte) bool {
	is := func(one string) bool { return one == string(media) }
	return slices.ContainsFunc(extensions, func(row Extension) bool {
		return slices.ContainsFunc(row.Whole, is)
	})
}

// HasFiles tells whether contents under that scheme of a URI are never edited.
func HasFiles(scheme string) bool {
	return slices.ContainsFunc(extensions, func(row Extension) bool {
		return row.Files && slices.Contains(row.Schemes, scheme)
	})
}

// DefinesItem tells whether the definition is one of an extension, which is never edited.
func DefinesItem(definition Object) bool {
	return slices.ContainsFunc(extensions, func(row Extension) bool {
		return row.Item != "" && definition.Has(row.Item)
	})
}

// ExtensionsNamed returns the set of these, with settings that say nothing.
func ExtensionsNamed(ids ...string) Extensions {
	var all Object
	for _, id := range ids {
		all = all.With(id, RawJSON("{}"))
	}
	return extensionsOf(all)
}

// Extensions is a set of extensions that one side declares and the gateway carries, with
// their settings, in one canonical form: two sides that declare the same have the same
// value, and can share what is kept by it. The zero Extensions is none.
type Extensions struct {
	json string // an object, in the order of identifiers; "": none
}

// Any tells whether there is at least one.
func (e Extensions) Any() bool { return e.json != "" }

// Has tells whether an extension is among them.
func (e Extensions) Has(id string) bool { return e.json != "" && RawJSON(e.json).Member(id) != nil }

// JSON returns them as the member extensions of capabilities has them; nil for none.
func (e Extensions) JSON() RawJSON {
	if !e.Any() {
		return nil
	}
	return RawJSON(e.json)
}

// object returns them taken apart.
func (e Extensions) object() Object {
	object, _ := ObjectOf(e.JSON())
	return object
}

// IDs returns the identifiers, in their order.
func (e Extensions) IDs() []string {
	var ids []string
	for id := range e.object().Members {
		ids = append(ids, id)
	}
	return ids
}

// With returns the extensions of both. Settings of e that other has too stay.
func (e Extensions) With(other Extensions) Extensions {
	if !other.Any() || e == other {
		return e
	}
	if !e.Any() {
		return other
	}
	all := e.object()
	for id, settings := range other.object().Members {
		whole := all.Object(id)
		added, _ := ObjectOf(settings)
		for name, value := range added.Members {
			if !whole.Has(name) {
				whole = whole.With(name, value)
			}
		}
		all = all.With(id, whole.JSON())
	}
	return extensionsOf(all)
}

// Without returns the extensions that other does not have.
func (e Extensions) Without(other Extensions) Extensions {
	return extensionsOf(e.object().Without(other.IDs()...))
}

// Among returns which of e the other has too, with settings that say nothing, so that
// there are few such sets whatever clients declare.
func (e Extensions) Among(other Extensions) Extensions {
	if !e.Any() || !other.Any() {
		return Extensions{}
	}
	return ExtensionsNamed(slices.DeleteFunc(e.IDs(), func(id string) bool { return !other.Has(id) })...)
}

// Sets returns all sets that can be made of the extensions, e itself first, with settings
// that say nothing.
func (e Extensions) Sets() []Extensions {
	ids := e.IDs()
	sets := make([]Extensions, 0, 1<<len(ids))
	for left := range 1 << len(ids) {
		var chosen []string
		for i, id := range ids {
			if left&(1<<i) == 0 {
				chosen = append(chosen, id)
			}
		}
		sets = append(sets, ExtensionsNamed(chosen...))
	}
	return sets
}

// Adding returns capabilities with the extensions among them. Those that capabilities
// have already stay.
func (e Extensions) Adding(capabilities Object) Object {
	if !e.Any() {
		return capabilities
	}
	all := capabilities.Object("extensions")
	all = all.WithAll(e.object().members...)
	return capabilities.With("extensions", all.JSON())
}

// extensionsOf returns the canonical form of a member extensions.
func extensionsOf(all Object) Extensions {
	if all.Len() == 0 {
		return Extensions{}
	}
	members := slices.Clone(all.members)
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	return Extensions{string(Object{members}.JSON())}
}

// ParseExtensions reads what JSON of Extensions returned, somewhere else or earlier.
func ParseExtensions(text string) Extensions {
	all, err := ParseObject([]byte(text))
	if err != nil {
		return Extensions{}
	}
	return extensionsOf(all)
}

// Bounds of what one side declares.
const (
	// bytes of all extensions that are let through, as JSON; with the others they fit the
	// id of a session, see seal.MaxPlain
	maxPassed  = 512
	maxUnknown = 8 // identifiers of others that are told
	maxVarying = 3 // extensions on which lists of a server may depend
)

// ExtensionTable says which extensions a gateway carries: those that it knows and those
// that its operator lets through. A nil *ExtensionTable has those that it knows. It never
// changes.
type ExtensionTable struct{ rows []Extension }

// NewExtensionTable returns the table of the extensions that are known, together with
// those in more; an operator who lets one through says nothing of it but its identifier.
func NewExtensionTable(more ...Extension) *ExtensionTable {
	rows := slices.Concat(extensions, more)
	slices.SortFunc(rows, func(a, b Extension) int { return strings.Compare(a.ID, b.ID) })
	return &ExtensionTable{rows}
}

// Rows returns what the table has: do not modify it.
func (t *ExtensionTable) Rows() []Extension {
	if t == nil {
		return extensions
	}
	return t.rows
}

// Find returns the row of an extension, nil if it is not carried.
func (t *ExtensionTable) Find(id string) *Extension {
	rows := t.Rows()
	i := slices.IndexFunc(rows, func(row Extension) bool { return row.ID == id })
	if i < 0 {
		return nil
	}
	return &rows[i]
}

// All returns everything that the table has, as a client that knows all of it declares.
func (t *ExtensionTable) All() Extensions {
	var all Object
	for _, row := range t.Rows() {
		if !row.OwnNegotiation {
			settings := row.Settings
			if settings == nil {
				settings = RawJSON("{}")
			}
			all = all.With(row.ID, settings)
		}
	}
	return extensionsOf(all)
}

// Varying returns those of the extensions that a server may list other items for to
// clients that declare them, with settings that say nothing. Of the table there are
// maxVarying, those that are known first: each doubles how often lists are read.
func (t *ExtensionTable) Varying(declared Extensions) Extensions {
	var varying []string
	for _, known := range []bool{true, false} {
		for _, row := range t.Rows() {
			if known == (row.Settings != nil) && !row.OwnNegotiation && !row.ListsAlike &&
				len(varying) < maxVarying {
				varying = append(varying, row.ID)
			}
		}
	}
	return ExtensionsNamed(varying...).Among(declared)
}

// OfClient returns which extensions a client declares that are carried, and the
// identifiers of some others that it declares. capabilities are as it sent them; nil: it
// sent none.
func (t *ExtensionTable) OfClient(capabilities RawJSON) (carried Extensions, unknown []string) {
	return t.of(capabilities, func(row *Extension, settings Object) RawJSON {
		types, _ := settings.Value("mimeTypes").Elements()
		if row.Media != "" && !slices.ContainsFunc(types,
			func(one RawJSON) bool { return one.Says(row.Media) }) {
			return nil
		}
		return row.Settings
	})
}

// OfServer returns which extensions a server declares that are carried.
func (t *ExtensionTable) OfServer(capabilities Object) Extensions {
	declared, _ := t.of(capabilities.Value("extensions"), func(row *Extension, settings Object) RawJSON {
		var flags Object
		for _, name := range row.Flags {
			if string(settings.Value(name)) == "true" {
				flags = flags.With(name, Bool(true))
			}
		}
		return flags.JSON()
	})
	return declared
}

// of returns what is carried of a member extensions. known returns the settings of an
// extension of which the table knows more than its identifier, nil if it does not count.
func (t *ExtensionTable) of(declared RawJSON,
	known func(row *Extension, settings Object) RawJSON) (carried Extensions,
	unknown []string,
) {
	all, ok := ObjectOf(declared)
	if !ok || all.Len() == 0 {
		return Extensions{}, nil
	}
	var allowed Object
	passed := 0
	for id, value := range all.Members {
		settings, isObject := ObjectOf(value)
		row := t.Find(id)
		switch {
		case !isObject:
		case row == nil:
			if len(unknown) < maxUnknown {
				unknown = append(unknown, id)
			}
		case row.OwnNegotiation:
		case row.Settings == nil: // let through as it is
			if passed += len(id) + len(value) + len(`"":,`); passed <= maxPassed {
				allowed = allowed.With(id, value)
			}
		default:
			if said := known(row, settings); said != nil {
				allowed = allowed.With(id, said)
			}
		}
	}
	return extensionsOf(allowed), unknown
}

// ValidExtensionID tells whether id has the form of an identifier: a prefix of labels
// with dots between them, a slash and a name.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/index#meta
func ValidExtensionID(id string) bool {
	return len(id) <= 128 && extensionID.MatchString(id)
}

// prefixLabel is the form of one label of a prefix.
const prefixLabel = `[[:alnum:]](?:[[:alnum:]-]*[[:alnum:]])?`

var extensionID = regexp.MustCompile(`^(?:` + prefixLabel + `\.)*` + prefixLabel +
	`/[[:alnum:]](?:[\w.-]*[[:alnum:]])?$`)
