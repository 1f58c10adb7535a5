package upstream

import (
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// topics is a set of what a server can say has changed.
type topics uint32

// The topics.
const (
	topicTools topics = 1 << iota
	topicPrompts
	topicResources // and their templates

	everyTopic  = topicTools | topicPrompts | topicResources
	announcedBy = 8 // bits, from a topic to the note that the server itself said that it changed
)

func topicOf(kind registry.Kind) topics {
	switch kind {
	case registry.KindTool:
		return topicTools
	case registry.KindPrompt:
		return topicPrompts
	default:
		return topicResources
	}
}

// kinds yields one kind for each topic.
func (t topics) kinds(yield func(registry.Kind) bool) {
	for _, kind := range []registry.Kind{registry.KindTool, registry.KindPrompt, registry.KindResource} {
		if t&topicOf(kind) != 0 && !yield(kind) {
			return
		}
	}
}
