package registry

import "github.com/drawbridge-mcp/drawbridge/internal/mcp"

// Prompt is one prompt of the catalogue.
type Prompt struct {
	Item
}

// Validate checks the arguments of prompts/get (nil means {}): an object of texts, with those that the prompt
// requires. Errors are *ArgumentError.
func (p *Prompt) Validate(arguments mcp.RawJSON) error { return nil }
