package upstream

import (
	"cmp"

	"github.com/drawbridge-mcp/drawbridge/registry"
)

// topics is a set of the things of which a server can announce a change, one bit for
// each.
type topics uint32

// The topics.
const (
	topicTools topics = 1 << iota
	topicPrompts
	topicResources // and the templates of resources

	everyTopic = topicTools | topicPrompts | topicResources
	// how far to the left of a topic's bit the one stands that says that the server
	// itself announced it
	announcedBy = 8
)

// topicOf returns the topic of a kind of items. Templates and skills share that of
// resources, as they do in the protocol's announcements.
func topicOf(kind registry.Kind) topics { return cmp.Or(ownTopics[kind], topicResources) }

// ownTopics are those of the kinds that share none.
var ownTopics = map[registry.Kind]topics{
	registry.KindTool: topicTools, registry.KindPrompt: topicPrompts,
}

// kinds yields one kind for each topic of the set: for resources and templates,
// resources.
func (t topics) kinds(yield func(registry.Kind) bool) {
	for _, kind := range []registry.Kind{registry.KindTool, registry.KindPrompt, registry.KindResource} {
		if t&topicOf(kind) != 0 && !yield(kind) {
			return
		}
	}
}

// capability returns the capability of servers that have items of one of those kinds.
func capability(kind registry.Kind) string { return string(kind) + "s" }
