package auth

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// claimPath leads to a claim, perhaps inside others.
type claimPath struct {
	text  string   // as it is configured
	steps []string // names of members, from the outermost; none: no claim
}

// newClaimPath reads a path. With / in front it is a JSON pointer (RFC 6901), with :// in
// it the name of a claim at the top, and otherwise names with dots between them. Of the
// text "" it is a path to no claim.
func newClaimPath(text string) (claimPath, error) {
	p := claimPath{text: text}
	switch {
	case text == "":
		return p, nil
	case strings.HasPrefix(text, "/"):
		if !strictjson.Pointer(text).IsValid() {
			return p, errors.New("a JSON pointer has ~0 for ~ and ~1 for /")
		}
		p.steps = slices.Collect(strictjson.Pointer(text).Tokens())
		return p, nil
	case strings.Contains(text, "://"):
		p.steps = []string{text}
		return p, nil
	}
	p.steps = strings.Split(text, ".")
	if slices.Contains(p.steps, "") {
		return p, errors.New("a path of dots has no empty name in it; a JSON pointer begins with /")
	}
	return p, nil
}

// isSet tells whether the path leads anywhere.
func (p *claimPath) isSet() bool { return len(p.steps) > 0 }

// in returns the JSON value of the claim, nil if there is none. A step into an array is a
// number from 0.
func (p *claimPath) in(c *claims) []byte {
	if !p.isSet() {
		return nil
	}
	value := c.member(p.steps[0])
	for _, step := range p.steps[1:] {
		value = inside(value, step)
	}
	return value
}

// inside returns the JSON value of that name or number in value, nil if there is none.
func inside(value []byte, step string) []byte {
	if len(value) == 0 {
		return nil
	}
	switch value[0] {
	case '{':
		list, _ := strictjson.Members(nil, value) // it was checked
		return strictjson.Find(list, step)
	case '[':
		list, err := strictjson.Elements[[]byte](value)
		if i, bad := strconv.Atoi(step); err == nil && bad == nil && i >= 0 && i < len(list) {
			return list[i]
		}
	}
	return nil
}

// CheckClaimPath tells why a path of an Issuer is none.
func CheckClaimPath(path string) error {
	_, err := newClaimPath(path)
	return err
}

// TopClaim returns the name of the claim of a token that a path of an Issuer leads to or
// into, "" when the path is none.
func TopClaim(path string) string {
	p, err := newClaimPath(path)
	if err != nil || !p.isSet() {
		return ""
	}
	return p.steps[0]
}

// PutClaim puts a claim where a path of an Issuer finds it, for a token that Sign signs.
// Of the path "" it puts nothing. The error says that the path is none, or leads into a
// claim that is no object.
func PutClaim(claims map[string]any, path string, value any) error {
	p, err := newClaimPath(path)
	if err != nil || !p.isSet() {
		return err
	}
	for _, step := range p.steps[:len(p.steps)-1] {
		next, is := claims[step].(map[string]any)
		if _, there := claims[step]; there && !is {
			return errors.New("the path " + path + " leads into a claim that is no object")
		}
		if !is {
			next = make(map[string]any)
			claims[step] = next
		}
		claims = next
	}
	claims[p.steps[len(p.steps)-1]] = value
	return nil
}
