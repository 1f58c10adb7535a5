package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// leniency is a place in which a message may differ from the schema and is served
// nonetheless, because nothing depends on what stands there, or what stands there is read
// as if it were absent.
type leniency struct {
	path, why string
	method    string // of the messages that it is about; "": of all
	instead   any    // what forgive puts there; nil: it leaves the place empty
	typed     bool   // only what is of the same type as that is forgiven
}

// leniencies are all of them. What differs in any other place must be refused.
var leniencies = []leniency{
	{path: ".params", why: "null is as if there were none: some clients write it so"},
	{
		path: ".params.clientInfo", why: "a client says who it is for records alone",
		method: mcp.MethodInitialize, instead: &members{{"name", "x"}, {"version", "x"}},
	},
	{
		path: ".params.capabilities", why: "what is no capability is none: the client is not asked " +
			"for it",
		method: mcp.MethodInitialize, instead: &members{},
	},
	{path: ".params._meta." + mcp.MetaClientInfo, why: "a client says who it is for records alone"},
	{
		path:    ".params._meta." + mcp.MetaClientCapabilities,
		why:     "what is no capability is none: the client is not asked for it",
		instead: &members{}, typed: true,
	},
	{path: ".params._meta.progressToken", why: "progress is told with the token as it was sent"},
	{
		path: ".params.uri",
		why: "resources/unsubscribe with any string that names no subscription: there is nothing " +
			"to end",
		method: mcp.MethodUnsubscribe, instead: "file:///x", typed: true,
	},
	{path: ".params.inputResponses", why: "answers without a state belong to no question, and are not " +
		"looked at"},
}

// forgive returns a copy of a message in which what stands in lenient places is as the
// schema wants it.
func forgive(tree *members) *members {
	fixed := tree.copied()
	params, is := fixed.value("params").(*members)
	if !is {
		if fixed.value("params") == nil {
			fixed.remove("params")
		}
		return fixed
	}
	params = params.copied()
	fixed.set("params", params)
	meta, is := params.value("_meta").(*members)
	if is {
		meta = meta.copied()
		params.set("_meta", meta)
	}
	for _, one := range leniencies {
		in, name := params, strings.TrimPrefix(one.path, ".params.")
		if inMeta, has := strings.CutPrefix(name, "_meta."); has {
			in, name = meta, inMeta
		}
		switch {
		case in == nil || one.method != "" && fixed.value("method") != one.method:
		case one.instead == nil:
			in.remove(name)
		case !one.typed || fmt.Sprintf("%T", in.value(name)) == fmt.Sprintf("%T", one.instead):
			in.set(name, one.instead)
		}
	}
	return fixed
}

// copied returns a copy of an object that shares the values of its members.
func (o *members) copied() *members {
	return new(slices.Clone(*o))
}
