package config

import (
	"fmt"
)

// kind is what a node is.
type kind int

const (
	scalar kind = iota + 1
	null
	list
	mapping
)

// node is one value of a file with its place.
type node struct {
	kind      kind
	text      string // of a scalar, variables expanded
	raw       string // of a scalar, as written: what messages may quote
	expanded  bool   // raw names variables
	defaulted bool   // a variable was not set and its default was taken
	broken    string // why a variable could not be expanded, which faultBroken reports; "": they all were
	file      string
	line, col int
	members   []member
	items     []*node
}

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

// child is member for a caller that goes on to what is in the value: it returns an empty node when there is none.
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
