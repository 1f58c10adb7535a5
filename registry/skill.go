package registry

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
)

// Skill is one skill of the catalogue: instructions for a model in a file SKILL.md, with
// the files beside it. It is immutable. Hosts compare its bytes with digests, and a user
// approves both: of what the server says of it, only URIs are ever changed.
// https://github.com/modelcontextprotocol/ext-skills/blob/main/specification/stable/skills.mdx
type Skill struct {
	Item
}

// Bounds of one skill: the sizes up to which hosts must take one.
const (
	maxSkillFiles = 512
	maxSkillBytes = 16 << 20
	maxSkill      = 512 << 10 // bytes of its definition
)

var (
	errFrontmatter = errors.New("the skill has no frontmatter with a name")
	errSkillFiles  = errors.New(
		"the files of the skill are no list with a URI and a size for each, nor dynamic")
	errSkillSize = fmt.Errorf("the skill has more than %d files or %d bytes", maxSkillFiles, maxSkillBytes)
)

// define reads the definition of a skill. Errors are *refusalError.
func (s *Skill) define(b *builder, definition mcp.Object) error {
	if err := checkSkill(definition); err != nil {
		return err
	}
	uri := definition.Text("uri")
	if err := s.Item.define(b, KindSkill, "uri", definition, b.origin.exposed(uri)); err != nil {
		return err
	}
	s.Definition = b.origin.skillMapped(s.Definition.With("uri", mcp.String(uri)))
	s.Raw = s.Definition.JSON()
	return nil
}

// checkSkill refuses what is no definition of a skill, or one that hosts need not take.
// Errors are *refusalError.
func checkSkill(definition mcp.Object) error {
	switch {
	case !validURI(definition.Text("uri")):
		return refuse("uri", errURI)
	case definition.Object("frontmatter").Text("name") == "":
		return refuse("name", errFrontmatter)
	case definition.Size() > maxSkill:
		return refuse("size", errLarge)
	case sanitize.HoldsSecret(definition):
		return refuse("secret", fmt.Errorf("definition: %w", sanitize.ErrBlocked))
	}
	return checkFiles(definition.Value("resources"))
}

// judgeSkill refuses a skill, as its server describes it when it is asked for one, that
// would not be listed either.
func (o *origin) judgeSkill(skill mcp.Object) error {
	_, err := Admit(skill, o.service.Load().released)
	if hidden, ok := errors.AsType[*QuarantineError](err); ok {
		return &sanitize.HiddenError{Place: hidden.Found[0].Place, Digest: hidden.Digest}
	}
	if err = checkSkill(skill); err != nil && !errors.Is(err, sanitize.ErrBlocked) {
		return &ProtocolError{Server: o.server, Err: err}
	}
	return err
}

// checkFiles refuses what is no list of files, or one that hosts need not take.
func checkFiles(raw mcp.RawJSON) error {
	if raw.Says("dynamic") {
		return nil
	}
	files, ok := raw.Elements()
	if !ok {
		return refuse("schema", errSkillFiles)
	}
	total := int64(0)
	for _, file := range files {
		uri, isText := file.Member("uri").Text()
		size, isInt := file.Member("size").Int()
		if !isText || !validURI(uri) || !isInt || size < 0 {
			return refuse("schema", errSkillFiles)
		}
		if total += min(size, maxSkillBytes+1); total > maxSkillBytes || len(files) > maxSkillFiles {
			return refuse("size", errSkillSize)
		}
	}
	return nil
}

// skillMapped returns what a server says of a skill with exposed URIs: its own and those
// of its files.
func (o *origin) skillMapped(skill mcp.Object) mcp.Object {
	if o.prefix == "" {
		return skill
	}
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

// directoryOf returns the URI of the directory in which a file is.
func directoryOf(uri string) string { return uri[:strings.LastIndexByte(uri, '/')+1] }

// Skills returns how patterns of skills name the skills that the item is a file of, and
// that its server lists: the innermost one first.
func (i *Item) Skills() []string {
	if i.Kind != KindResource {
		return nil
	}
	return i.SkillsOf(i.Name)
}

// SkillsOf is Skills for another own URI of the item's server. The directory of a skill
// may be spelt in another way there, which the server takes for the same.
func (i *Item) SkillsOf(uri string) (names []string) {
	if i.origin == nil {
		return nil
	}
	service := i.origin.service.Load()
	if service == nil || len(service.skills) == 0 {
		return nil
	}
	for range mostDecodings {
		directory := directoryOf(UsualSpelling(uri))
		for directory != "" {
			for _, skill := range service.skills[directory] {
				names = append(names, i.Server+":"+skill)
			}
			directory = directoryOf(strings.TrimSuffix(directory, "/"))
		}
		decoded := Decode(uri)
		if decoded == uri {
			break
		}
		uri = decoded
	}
	return names
}

// IsWhole tells whether the contents of the item pass whole or not at all, because hosts
// compare them with a digest: those of files of skills.
func (i *Item) IsWhole() bool {
	return i.Kind == KindResource && (mcp.HasFiles(schemeOf(i.Name)) || len(i.Skills()) > 0)
}

// SkillsFresh returns until when the server says that its list of skills is fresh; zero:
// it does not say.
func (i *Item) SkillsFresh() time.Time {
	if service := i.origin.service.Load(); service != nil {
		return service.fresh
	}
	return time.Time{}
}

// Skill returns the skill with that exposed URI. A server answers for skills that it does
// not list, too: then it is found as a resource would be, at a server that has skills.
// The error is ErrNotFound.
func (v *View) Skill(uri string) (*Skill, error) {
	if listed, err := find(v.skills, uri); err == nil {
		return listed, nil
	}
	if server, own, ok := fromForm(uri); ok && v.prefixes(server) {
		if itself, err := find(v.skills, v.shelves[server].origin.exposed(uri)); err == nil {
			return itself, nil // its own URI begins with its own name
		}
		return v.unlistedSkill(server, own)
	}
	if len(v.OwnedSkills(uri)) > 0 {
		return nil, ErrNotFound // it is for the caller of OwnedSkills to say which
	}
	var only []string
	for _, server := range v.open {
		if v.shelves[server].extensions.Has(mcp.ExtensionSkills) {
			only = append(only, server)
		}
	}
	if len(only) != 1 {
		return nil, ErrNotFound
	}
	return v.unlistedSkill(only[0], uri)
}

// OwnedSkills returns the listed skills of servers with a prefix of which that is the own
// URI, as a file of a skill names another.
func (v *View) OwnedSkills(uri string) []*Skill {
	var owned []*Skill
	for _, server := range v.order {
		if s := v.shelves[server]; s.origin != nil && s.origin.prefix != "" {
			if skill, err := find(v.skills, s.origin.exposed(uri)); err == nil {
				owned = append(owned, skill)
			}
		}
	}
	return owned
}

// unlistedSkill makes a skill that the server may have although it does not list it.
func (v *View) unlistedSkill(server, own string) (*Skill, error) {
	s := v.shelves[server]
	if !s.extensions.Has(mcp.ExtensionSkills) || !IsPlain(own) {
		return nil, ErrNotFound
	}
	skill := &Skill{}
	skill.Kind, skill.Server, skill.Name, skill.Exposed = KindSkill, server, own, s.origin.exposed(own)
	skill.Timeout, skill.origin = cmp.Or(s.timeout, defaultTimeout), s.origin
	return skill, nil
}
