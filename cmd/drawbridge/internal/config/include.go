package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// This file joins a config from several files: the key include names files that hold
// tenants, servers and issuers. No file overrides another, so nobody has to know an order
// of precedence: a name stands in all files together only once, and a second one is a
// problem.
//
// Issuers may stand in an included file because a tenant often brings an issuer of its
// own. Whoever writes an issuer decides who may log in, and whoever writes a server
// decides what runs here. So all files of a config are trusted alike, and include is no
// boundary between tenants.

// maxIncluded bounds the files that a config includes.
const maxIncluded = 10_000

// includable returns which keys an included file may hold, and the kind of value of each.
func includable() map[string]kind {
	return map[string]kind{"issuers": list, "tenants": mapping, "servers": mapping}
}

// includes reads the files that the config includes and joins what they hold to the
// members of root. It returns whether all of them could be read; if not, the caller must
// not check names, since half the tenants may be missing. Known are the keys of the
// config, for a message about a key that an included file may not hold.
func (r *reader) includes(root *node, known fields) bool {
	patterns := root.member("include")
	if patterns == nil {
		return true
	}
	matched := 0
	own, _ := os.Stat(root.file) // a config that is gone since it was read is no file that it includes
	// Several patterns may match one file, which is read once.
	read := make(map[string]bool)
	whole := true
	r.eachText(patterns, "include", func(at *node, _ string) {
		pattern := r.pattern(at)
		files, err := matching(pattern)
		r.cfg.Sources.patterns = append(r.cfg.Sources.patterns, pattern)
		r.cfg.Sources.names = append(r.cfg.Sources.names, files...)
		switch {
		case err != nil:
			r.fault(at, "%q is not a pattern of files: only *, ? and [a-z] stand for other characters",
				at.raw)
		case len(files) == 0:
			r.fault(at, "no file matches %q", at.raw)
		default:
			matched++
		}
		for _, file := range files {
			if read[file] {
				continue
			}
			if len(read) == maxIncluded {
				r.fault(at, "more than %d files are included", maxIncluded)
				whole = false
				return
			}
			read[file] = true
			whole = r.include(root, own, file, at, known) && whole
		}
	})
	r.cfg.Included = len(read)
	return whole && patterns.kind == list && matched == len(patterns.items)
}

// include reads one file that was named at the node at, joins its members to root, and
// returns whether that could be done. Own is the file of the config itself.
func (r *reader) include(root *node, own os.FileInfo, file string, at *node, known fields) bool {
	// The file counts among the sources even if it is refused below, so that a Watch
	// notices when it is corrected.
	data, info, err := r.source(file)
	if r.faultFirst(
		wrong{
			own != nil && info != nil && os.SameFile(info, own), at,
			fmt.Sprintf("%q matches the config itself; keep what is included in a directory of its own",
				at.raw),
		},
		wrong{err != nil, at, fmt.Sprint(err)}) {
		return false
	}
	r.bytes += len(data)
	if r.includeKnown(root, file, data) {
		return true
	}
	included := r.parseYAML(file, data)
	if included == nil {
		return false
	}
	r.markUnread(included, file, data)
	names := slices.Sorted(maps.Keys(includable()))
	return r.entries(included, "an included file", func(m member) {
		want := includable()[m.name]
		switch {
		case want == 0 && m.name != "include" && known[m.name] == nil:
			r.faultHint(m.key, nearest(m.name, names), "unknown key %q; an included file holds %s", m.name,
				orList(names))
		case !r.faultFirst(
			wrong{
				m.name == "include", m.key,
				"an included file cannot include others; name them in the config",
			},
			wrong{
				want == 0, m.key,
				m.name + " stands in the config itself; an included file holds " + orList(names),
			},
			wrong{
				want == mapping && m.value.kind != mapping, m.value,
				m.name + " must be a mapping (key: value)",
			},
			wrong{want == list && m.value.kind != list, m.value, m.name + " must be a list, as in [a, b]"}):
			root.join(m)
		}
	})
}

// pattern returns a pattern of files, made relative to the directory of the config. The
// name of that directory may hold characters such as * or [, which are escaped: they must
// not be taken for part of the pattern.
func (r *reader) pattern(n *node) string {
	if filepath.IsAbs(n.text) {
		return n.text
	}
	directory := filepath.Dir(n.file)
	if filepath.Separator == '/' {
		directory = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(directory)
	}
	return filepath.Join(directory, n.text)
}
