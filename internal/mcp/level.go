package mcp

import "slices"

// Level is how grave a log message is; a higher one is graver. The zero Level is no
// level: a client that asked for none gets no log messages.
// https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging#log-levels
type Level int

// levels are the names of the levels, beginning with the least grave. It is never
// changed.
var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// LevelOf returns the level with that name. ok is false if there is none.
func LevelOf(name string) (level Level, ok bool) {
	i := slices.Index(levels, name)
	return Level(i + 1), i >= 0
}

// String returns the name of the level, "" if it is none.
func (l Level) String() string {
	if l < 1 || int(l) > len(levels) {
		return ""
	}
	return levels[l-1]
}

// Wants tells whether a client that asked for l gets a message whose level has that name.
// It gets those of l and all graver ones.
func (l Level) Wants(name string) bool {
	level, ok := LevelOf(name)
	return ok && l > 0 && level >= l
}
