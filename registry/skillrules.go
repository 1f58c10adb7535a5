package registry

import (
	"errors"
	"fmt"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
)

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
	case sanitize.Definition(definition, 0).HoldsSecret:
		return refuse("secret", fmt.Errorf("definition: %w", sanitize.ErrBlocked))
	}
	return checkFiles(definition.Value("resources"))
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

// judgeSkill refuses a skill, as its server describes it when it is asked for one, that
// would not be listed either.
func (o *origin) judgeSkill(skill mcp.Object) error {
	_, err := Admit(skill, o.service.Load().released, false)
	if hidden, ok := errors.AsType[*QuarantineError](err); ok {
		return &sanitize.HiddenError{Path: hidden.Found[0].Path, Digest: hidden.Digest}
	}
	if err = checkSkill(skill); err != nil && !errors.Is(err, sanitize.ErrBlocked) {
		return &ProtocolError{Server: o.server, Err: err}
	}
	return err
}
