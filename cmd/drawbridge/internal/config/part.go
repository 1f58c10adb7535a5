package config

import (
	"bytes"
	"crypto/sha256"
	"slices"
)

// This file leaves tenants of included files unread until they are wanted, so that the
// nodes of one file are in memory at a time, and a reload reads only files that changed:
// of 5,000 tenants it takes 0.2 s, where all of them take 2 s.

// markUnread puts unread nodes in the place of the tenants of an included file.
func (r *reader) markUnread(included *node, text []byte) {
	tenants := included.member("tenants")
	if tenants == nil || tenants.kind != mapping {
		return
	}
	p := &part{
		file: r.file, text: text, sum: sha256.Sum256(text),
		plain: !bytes.Contains(text, []byte("${")) && !bytes.ContainsRune(text, '\\'),
		alone: len(included.members) == 1,
	}
	r.opened = opened{p, &node{members: slices.Clone(tenants.members)}}
	for i := range tenants.members {
		m := &tenants.members[i]
		p.names, p.keys = append(p.names, m.name), append(p.keys, m.key)
		m.value = p.unread(i)
	}
	r.known.addPart(p)
}

// includeKnown joins a file of tenants that is as it was in the config before, without
// parsing it. It returns false for any other file.
func (r *reader) includeKnown(root *node, text []byte) bool {
	p := r.known.part(r.file, text)
	if p == nil || !r.apart {
		return false
	}
	p.text = text
	r.bytes += len(text) // of a config with too many, all files are read again, see load
	tenants := &node{kind: mapping, file: p.file, line: p.keys[0].line, col: p.keys[0].col}
	for i, name := range p.names {
		tenants.members = append(tenants.members, member{name: name, key: p.keys[i], value: p.unread(i)})
	}
	root.join(member{name: "tenants", key: tenants, value: tenants})
	r.known.addPart(p)
	return r.bytes <= maxConfigBytes
}

// open returns what a member of the tenants says. Of one that is unread, its file is
// parsed again, unless it was for the tenant before.
func (r *reader) open(m member) *node {
	if m.value.kind != unread {
		return m.value
	}
	if p := m.value.part; r.opened.part != p {
		file, bytes := r.file, r.bytes
		r.file, r.bytes = p.file, 0
		r.opened = opened{p, r.parseYAML(p.text).member("tenants")} // it was parsed before, without a problem
		r.file, r.bytes = file, bytes
	}
	value := r.opened.tenants.members[m.value.number].value
	r.faultBroken(value)
	return value
}
