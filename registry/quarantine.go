package registry

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// ReasonQuarantined is the Reason of a Refusal whose Err is a *QuarantineError.
const ReasonQuarantined = "quarantined"

// QuarantineError says that a definition is quarantined: it holds hidden text in strings
// that must not be edited, or its server is pinned, and the operator has not released it.
// Such a definition is left out of the catalogue, because a model would read what no
// person sees, or what nobody has looked at.
type QuarantineError struct {
	// with which the operator can release the definition: "sha256:" and 64 hexadecimal
	// digits
	Digest string
	Found  []sanitize.Finding // the first of the places with hidden text
	Total  int                // all of them; zero: nothing is hidden, and the server is pinned
}

func (e *QuarantineError) Error() string {
	if e.Total == 0 {
		return "the server is pinned, and this definition is not released"
	}
	paths := make([]string, len(e.Found))
	for i, f := range e.Found {
		paths[i] = fmt.Sprintf("%s (%s)", f.Path, describe(f))
	}
	if more := e.Total - len(e.Found); more > 0 {
		paths = append(paths, fmt.Sprintf("%d more", more))
	}
	return "hidden text in " + strings.Join(paths, ", ")
}

// describe says what is hidden, for somebody who cannot see it.
func describe(f sanitize.Finding) string {
	what := map[sanitize.Kind]string{
		sanitize.Hidden: "an invisible character", sanitize.Control: "a control character",
		sanitize.Escape: "a terminal escape sequence",
	}[f.Kind]
	if f.First == 0 {
		return what
	}
	return fmt.Sprintf("%s, %U", what, f.First)
}

// Cure says how the operator lets the definition in.
func (e *QuarantineError) Cure() string {
	return fmt.Sprintf("if it is meant, released: [%q] at the server lets it in", e.Digest)
}

// maxFound is how many places a QuarantineError names.
const maxFound = 3

// Admission is what Admit made of a definition.
type Admission struct {
	Definition mcp.Object // cleaned; strings that must not be edited are as they came
	Repairs    int        // how many things cleaning removed
	Released   string     // the digest without which the definition would be quarantined; "": it needs none
}

// Admit cleans the definition of an item as its server sent it, for a source that wants
// to offer it. A definition with hidden text in strings that must not be edited, and any
// definition if it is pinned, is quarantined, unless its digest is one of those that the
// operator has released. The error is then a *QuarantineError.
func Admit(definition mcp.Object, released []string, pinned bool) (Admission, error) {
	judged := sanitize.Definition(definition, maxFound)
	report := judged.Report
	a := Admission{
		Definition: judged.Definition,
		Repairs:    report.Total() - report[sanitize.FlaggedKey] - report[sanitize.FlaggedURI],
	}
	if judged.Total == 0 && !pinned {
		return a, nil
	}
	a.Released = digest(definition)
	if slices.Contains(released, a.Released) {
		return a, nil
	}
	return Admission{}, &QuarantineError{
		Digest: a.Released, Found: judged.Concealed, Total: judged.Total,
	}
}

// digestScheme begins every digest.
const digestScheme = "sha256:"

// digest names exactly this definition. The order of its members and the spelling of its
// strings make no difference.
func digest(definition mcp.Object) string {
	canonical, err := strictjson.Canonical(definition.JSON())
	if err != nil {
		panic(err) // an Object is JSON
	}
	sum := sha256.Sum256(canonical)
	return digestScheme + hex.EncodeToString(sum[:])
}

// ErrDigest says what a digest looks like.
var ErrDigest = errors.New("a digest is sha256: and 64 digits of 0-9 and a-f")

// ParseDigest returns text if it has the form of a digest, and otherwise ErrDigest.
func ParseDigest(text string) (string, error) {
	if !digestForm.MatchString(text) {
		return "", ErrDigest
	}
	return text, nil
}

var digestForm = regexp.MustCompile(`^` + digestScheme + `[0-9a-f]{64}$`)

// Quarantined returns the refusal of a definition for whose sake Admit returned the error
// err, a *QuarantineError. item is its name or URI as the server sent it.
func Quarantined(server string, kind Kind, item string, err error) Refusal {
	return Refusal{
		Server: server, Kind: kind, Item: sanitize.Spell(item), Reason: ReasonQuarantined,
		Err: err,
	}
}
