package registry

import (
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// defineSkill reads the definition of a skill: instructions for a model in a file
// SKILL.md, with the files beside it. Hosts compare its bytes with digests, and a user
// approves both: of what the server says of it, only URIs are ever changed. Errors are
// *refusalError.
// https://github.com/modelcontextprotocol/ext-skills/blob/main/specification/stable/skills.mdx
func (i *Item) defineSkill(definition mcp.Object) error {
	if err := checkSkill(definition); err != nil {
		return err
	}
	if err := i.define("uri", definition, i.origin.exposed(i.Name)); err != nil {
		return err
	}
	i.Definition = i.origin.skillMapped(i.Definition.With("uri", mcp.String(i.Name)))
	i.Raw = i.Definition.JSON()
	return nil
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
	service := i.origin.service.Load()
	if len(service.skills) == 0 {
		return nil
	}
	for decoded := range Decodings(uri, mostDecodings-1) {
		usual := UsualSpelling(decoded)
		// none that is longer than all that are known: each is looked up whole, and a URI
		// in a result may have millions
		directory := directoryOf(usual[:min(len(usual), service.longest)])
		for directory != "" {
			names = append(names, service.skills[directory]...)
			directory = directoryOf(strings.TrimSuffix(directory, "/"))
		}
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
func (i *Item) SkillsFresh() time.Time { return i.origin.service.Load().fresh }
