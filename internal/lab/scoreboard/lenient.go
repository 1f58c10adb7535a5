package main

import (
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// leniency is a place in which a message may differ from the schema and is served
// nonetheless, because nothing depends on what stands there, or what stands there is read
// as if it were absent.
type leniency struct{ path, why string }

// leniencies are all of them. What differs in any other place must be refused.
func leniencies() []leniency {
	return []leniency{
		{".params.clientInfo", "a client says who it is for records alone"},
		{".params.capabilities", "what is no capability is none: the client is not asked for it"},
		{".params._meta." + mcp.MetaClientInfo, "a client says who it is for records alone"},
		{
			".params._meta." + mcp.MetaClientCapabilities,
			"what is no capability is none: the client is not asked for it",
		},
		{".params._meta.progressToken", "progress is told with the token as it was sent"},
		{".params.uri", "resources/unsubscribe with any string that names no subscription: there is nothing to end"},
		{".params.inputResponses", "answers without a state belong to no question, and are not looked at"},
	}
}

// forgive returns a copy of a message in which what stands in lenient places is as the
// schema wants it.
func forgive(tree *members) *members {
	fixed := copied(tree).(*members)
	params, is := fixed.value("params").(*members)
	if !is {
		return fixed
	}
	meta, has := params.value("_meta").(*members)
	for _, one := range leniencies() {
		name := one.path[strings.LastIndexByte(one.path, '.')+1:]
		switch in := strings.HasPrefix(one.path, ".params._meta."); {
		case in && has:
			name = strings.TrimPrefix(one.path, ".params._meta.")
			if name == mcp.MetaClientCapabilities {
				// something must be there, and be an object
				if _, object := meta.value(name).(*members); object {
					meta.set(name, &members{})
				}
				continue
			}
			meta.remove(name)
		case !in && name == "inputResponses":
			params.remove(name)
		case name == "uri":
			if _, text := params.value(name).(string); text &&
				fixed.value("method") == mcp.MethodUnsubscribe {
				params.set(name, "file:///x")
			}
		case !in && fixed.value("method") == mcp.MethodInitialize:
			params.set(name, &members{{"name", "x"}, {"version", "x"}})
			if name == "capabilities" {
				params.set(name, &members{})
			}
		}
	}
	return fixed
}

func copied(value any) any {
	switch v := value.(type) {
	case *members:
		all := make(members, len(*v))
		for i, m := range *v {
			all[i] = member{m.name, copied(m.value)}
		}
		return &all
	case []any:
		all := make([]any, len(v))
		for i := range v {
			all[i] = copied(v[i])
		}
		return all
	}
	return value
}
