package mcp

import "slices"

// Level is how grave a log message is. The zero Level is none: no log messages are wanted.
// https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging#log-levels
type Level int

// levels are the names, from the least grave.
var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// LevelOf returns the level with that name; ok is false when there is none.
func LevelOf(name string) (level Level, ok bool) {
	i := slices.Index(levels, name)
	return Level(i + 1), i >= 0
}

// String returns the level's name, "" for none.
func (l Level) String() string {
	if l < 1 || int(l) > len(levels) {
		return ""
	}
	return levels[l-1]
}

// Wants tells whether a message with the named level is to be sent to who asked for l.
func (l Level) Wants(name string) bool {
	level, ok := LevelOf(name)
	return ok && l > 0 && level >= l
}
