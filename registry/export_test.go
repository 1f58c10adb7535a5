package registry

import "github.com/drawbridge-mcp/drawbridge/internal/mcp"

// Verdicts returns what the short way and what the library say about data, each by itself.
func Verdicts(raw, data mcp.RawJSON) (short, library bool, err error) {
	s, err := compile(raw)
	if err != nil {
		return false, false, err
	}
	found, err := s.judge((&cursor{data: data}).value())
	return s.root.accepts(&cursor{data: data}), found == nil, err
}

// CompilePattern returns how a pattern of ECMA-262 is read.
var CompilePattern = compilePattern
