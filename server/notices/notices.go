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

// Change is what there is to say of one kind of list: the method of the notice that it
// changed, the digest that shows whether it did, and the digest of what it holds, which
// replicas can compare.
type Change struct{ Method, Digest, Content string }

// Changes returns what there is to say of each kind of list.
func Changes(d gateway.Digests) [3]Change {
	return [3]Change{
		{mcp.NotifyToolsChanged, d[0].Listed, d[0].Content},
		{mcp.NotifyPromptsChanged, d[1].Listed, d[1].Content},
		{mcp.NotifyResourcesChanged, d[2].Listed, d[2].Content},
	}
}

// listNotices are the notices of changed lists, which are the same for all sessions: each
// log keeps them, and they would be a copy for each stream.
var listNotices = func() map[string][]byte {
	all := make(map[string][]byte)
	for _, change := range Changes(gateway.Digests{}) {
		all[change.Method] = mcp.AppendRequest(nil, "", change.Method, mcp.Object{})
	}
	return all
}()

// OfList returns the notice with that method. It is shared: do not modify it.
func OfList(method string) []byte { return listNotices[method] }
