package config

import (
	"fmt"
)

// kind says which shape of a value a node has. An empty node, as child returns it, has the kind zero.
type kind int

const (
	scalar kind = iota + 1
	null
	list
	mapping
	unread // a tenant of an included file that is to be parsed when it is wanted
)

// node is one value of a file, with its place. YAML and the JSON files of clients both become nodes, so that everything
// above this file is the same for both. A node does not know the type of a scalar: whether 5m is a duration or a text
// is for the function that reads the key.
type node struct {
	kind kind
	// The text of a scalar, with its variables replaced.
	text string
	// The text of a scalar as the file has it. Messages quote raw and not text, because a variable may hold a secret.
	raw       string
	expanded  bool // raw names variables; a hint made from text would then show a variable's value
	defaulted bool // at least one variable was unset or empty, and its default was taken
	// Why a variable could not be replaced; "" if all were. The problem is recorded later, by faultBroken: a command
	// that reads only part of the file must not fail over a variable elsewhere in it.
	broken    string
	file      string
	line, col int // from 1
	members   []member
	items     []*node
	part      *part // that an unread node stands in
	number    int   // of an unread node among the tenants of its part, from 0
}

// member is one key of a mapping with its value. The key is a node of its own, so that a problem can point at the key
// or at the value.
type member struct {
	name  string
	key   *node
	value *node
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

// child is member for a caller that goes on to what is in the value. Where there is no such value it returns an empty
// node, so that n.child("limits").child("tools").members needs no checks in between.
func (n *node) child(name string) *node {
	if value := n.member(name); value != nil {
		return value
	}
	return &node{}
}

// seenFrom says where n stands, for a message about at: by its line alone when both are in one file.
func (n *node) seenFrom(at *node) string {
	if n.file == at.file {
		return fmt.Sprintf("on line %d", n.line)
	}
	return fmt.Sprintf("at %s:%d:%d", n.file, n.line, n.col)
}
