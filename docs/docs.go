// Package docs has the pages of the documentation, so that the program can print them:
// its help and its explanations are the text of these pages. It knows nothing of what
// they say.
package docs

import "embed"

// Pages are the pages, those of the reference in reference.
//
//go:embed *.md reference/*.md login/*.md
var Pages embed.FS
