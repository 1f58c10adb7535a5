package registry

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
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
	errSkillSize   = fmt.Errorf("the skill has more than %d files or %d bytes", maxSkillFiles, maxSkillBytes)
	errSkillSecret = errors.New("the definition holds a secret")
)

// define reads the definition of a skill. Errors are *refusalError.
func (s *Skill) define(b *builder, definition mcp.Object) error {
	uri := definition.Text("uri")
	switch {
	case !validURI(uri):
		return refuse("uri", errURI)
	case definition.Object("frontmatter").Text("name") == "":
		return refuse("name", errFrontmatter)
	case definition.Size() > maxSkill:
		return refuse("size", errLarge)
	case sanitize.HoldsSecret(definition):
		return refuse("secret", errSkillSecret)
	}
	if err := checkFiles(definition.Value("resources")); err != nil {
		return err
	}
	if err := s.Item.define(b, KindSkill, "uri", definition, b.origin.exposed(uri)); err != nil {
		return err
	}
	s.Definition = b.origin.skillMapped(s.Definition.With("uri", mcp.String(uri)))
	s.Raw = s.Definition.JSON()
	return nil
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

// SkillName returns how patterns of skills name the skill that the item is a file of, ""
// if it is of none that its server lists. Of nested skills it is the innermost.
func (i *Item) SkillName() string {
	if i.Kind != KindResource || i.origin == nil {
		return ""
	}
	return i.SkillOf(i.Name)
}

// SkillOf is SkillName for another own URI of the item's server.
func (i *Item) SkillOf(uri string) string {
	if i.origin == nil {
		return ""
	}
	service := i.origin.service.Load()
	if service == nil || len(service.skills) == 0 {
		return ""
	}
	for directory := directoryOf(uri); directory != ""; directory = directoryOf(strings.TrimSuffix(directory,
		"/")) {
		if skill := service.skills[directory]; skill != "" {
			return i.Server + ":" + skill
		}
	}
	return ""
}

// IsWhole tells whether the contents of the item pass whole or not at all, because hosts
// compare them with a digest: those of files of skills.
func (i *Item) IsWhole() bool {
	return i.Kind == KindResource && (schemeOf(i.Name) == mcp.SchemeSkill || i.SkillName() != "")
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
	server, own := "", uri
	if named, rest, ok := fromForm(uri); ok && v.prefixes(named) {
		server, own = named, rest
	} else if owned := v.skillServers(uri); len(owned) == 1 {
		server = owned[0]
	}
	s := v.shelves[server]
	if s.origin == nil || !s.extensions.Has(mcp.ExtensionSkills) || !IsPlain(own) ||
		slices.Contains(s.withheld, own) {
		return nil, ErrNotFound
	}
	exposed := s.origin.exposed(own)
	if listed, err := find(v.skills, exposed); err == nil {
		return listed, nil
	}
	skill := &Skill{}
	skill.Kind, skill.Server, skill.Name, skill.Exposed = KindSkill, server, own, exposed
	skill.Timeout, skill.origin = cmp.Or(s.timeout, defaultTimeout), s.origin
	return skill, nil
}

// skillServers returns the servers that a skill's own URI may belong to: those that list
// it or, if none does, those without a prefix that have skills.
func (v *View) skillServers(uri string) []string {
	var listing, open []string
	for _, server := range v.order {
		s := v.shelves[server]
		if !s.extensions.Has(mcp.ExtensionSkills) || s.origin == nil {
			continue
		}
		if _, err := find(v.skills, s.origin.exposed(uri)); err == nil {
			listing = append(listing, server)
		} else if s.origin.prefix == "" {
			open = append(open, server)
		}
	}
	if len(listing) > 0 {
		return listing
	}
	return open
}
