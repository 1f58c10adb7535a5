package corpus

// Hidden are texts that no reader sees between Latin letters, or that command a terminal,
// by their kind. It is not to be changed.
var Hidden = map[string]string{
	"tags": "\U000E0069\U000E0067\U000E007F", "selectors": "\uFE00\uFE0F\U000E0100\U000E01EF",
	"zero width": "\u200B\u200C\u200D\u2060\uFEFF", "overrides": "\u202E\u202C", "isolates": "\u2068\u2069",
	"marks":       "\u200E\u061C",
	"soft hyphen": "\u00AD", "fillers": "\u3164\u115F\u034F", "controls": "\x00\x07\x7F",
	"C1":            "\u0085\u009C",
	"noncharacters": "\uFDD0\uFFFE\U0001FFFF", "private use": "\uE000\U000F0000", "CSI": "\x1b[8m",
	"OSC": "\x1b]8;;https://x.test\x07", "8-bit CSI": "\u009b",
}
