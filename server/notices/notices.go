// Package notices is what clients are told without asking: that a list has changed, or a
// resource or a task that they follow. It knows what there is to tell, and not on which
// stream: pending has the changes that a client has yet to be told of.
package notices

import (
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
)

// URIOf returns the URI of a subscription.
func URIOf(value mcp.RawJSON) (string, *exchange.Refusal) {
	uri, ok := value.Text()
	switch {
	case !ok:
		return "", exchange.ErrURI
	case len(uri) > exchange.MaxURI:
		return "", exchange.ErrURISize
	}
	return uri, nil
}

// ListMethods are the methods of the notices that say that a list has changed, in the
// order of gateway.Digests. They are never changed.
var ListMethods = [len(gateway.Digests{})]string{
	mcp.NotifyToolsChanged, mcp.NotifyPromptsChanged, mcp.NotifyResourcesChanged,
}

// listNotices are the notices of changed lists, which are the same for all sessions: each
// log keeps them, and they would be a copy for each stream.
var listNotices = func() map[string][]byte {
	all := make(map[string][]byte)
	for _, method := range ListMethods {
		all[method] = mcp.AppendRequest(nil, "", method, mcp.Object{})
	}
	return all
}()

// OfList returns the notice with that method. It is shared: do not modify it.
func OfList(method string) []byte { return listNotices[method] }
