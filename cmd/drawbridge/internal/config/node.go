package config

import (
	"crypto/sha256"
	"fmt"
)

// kind says which shape of a value a node has. An empty node, as child returns it, has
// the kind zero.
type kind int

const (
	scalar kind = iota + 1
	null
	list
	mapping
	unread // a tenant of an included file that is to be parsed when it is wanted
)

// node is one value of a file, with its place. YAML and the JSON files of clients both
// become nodes, so that everything above this file is the same for both. A node does not
// know the type of a scalar: whether 5m is a duration or a text is for the function that
// reads the key.
type node struct {
	kind kind
	// The text of a scalar, with its variables replaced; "" if one could not be.
	text string
	// The text of a scalar as the file has it. Messages quote raw and not text, because a
	// variable may hold a secret.
	raw       string
	expanded  bool // raw names variables; a hint made from text would then show a variable's value
	defaulted bool // at least one variable was unset or empty, and its default was taken
	// Why a variable could not be replaced; "" if all were. Whoever reads the text
	// records the problem by faultBroken: a command that reads only part of the file must
	// not fail over a variable elsewhere in it.
	broken    string
	file      string
	line, col int // from 1
	members   []member
	items     []*node
	part      *part // that an unread node stands in
	number    int   // of an unread node among the tenants of its part, from 0
}

// member is one key of a mapping with its value. The key is a node of its own, so that a
// problem can point at the key or at the value.
type member struct {
	name  string
	key   *node
	value *node
}

// asText returns the key as a text that is its name, for keys that are read as values
// are.
func (m member) asText() *node {
	at := *m.key
	at.kind, at.text, at.raw = scalar, m.name, m.name
	return &at
}

// member returns the value of a name, nil when there is none.
func (n *node) member(name string) *node {
	for _, m := range n.members {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// child is member for a caller that goes on to what is in the value. Where there is no
// such value it returns an empty node, so that n.child("limits").child("tools").members
// needs no checks in between.
func (n *node) child(name string) *node {
	if value := n.member(name); value != nil {
		return value
	}
	return &node{}
}

// problem returns a problem at the place of n; without a text it is that place.
func (n *node) problem(text string) Problem {
	return Problem{File: n.file, Line: n.line, Column: n.col, Text: text}
}

// seenFrom says where n stands, for a message about at: by its line alone when both are
// in one file.
func (n *node) seenFrom(at *node) string {
	if n.file == at.file {
		return fmt.Sprintf("on line %d", n.line)
	}
	return fmt.Sprintf("at %s:%d:%d", n.file, n.line, n.col)
}

// part is an included file whose tenants wait, unread, until all else is known. Each is
// read, checked and forgotten before the next, so that the nodes of one file are there at
// a time, however many files there are.
//
//	first, with all else   parsed: names and places of its tenants stay, as unread nodes
//	then, for its tenants  parsed again, once, see reader.open
type part struct {
	file string
	text []byte
	sum  digest // of the text
	// Whether no value of it can have a variable: an escape can spell one, too.
	plain bool
	// Whether it holds nothing but tenants, so that a Loader need not parse it to know
	// their names.
	alone   bool
	tenants []member // each with an unread node as its value
}

// opened is a part that was parsed again.
type opened struct {
	part    *part
	tenants *node
}

// digest is a SHA-256 sum, so that no two texts have the same.
type digest [sha256.Size]byte

// join adds the members and items of m to the value that n has under the same name, or m
// itself when n has no such value.
func (n *node) join(m member) {
	for _, own := range n.members {
		if own.name == m.name && own.value.kind == m.value.kind {
			own.value.members = append(own.value.members, m.value.members...)
			own.value.items = append(own.value.items, m.value.items...)
			return
		}
	}
	if n.member(m.name) == nil {
		n.members = append(n.members, m)
	}
}
