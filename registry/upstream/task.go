package upstream

import (
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// tasks returns the form of tasks that calls of this server's tools may become.
func (c *connection) tasks() mcp.Tasks {
	declared := c.capabilities.Load()
	if declared != nil && mcp.EraOf(c.version) == mcp.Modern && mcp.DeclaresTasks(*declared) {
		return mcp.TasksGiven
	}
	return 0
}

// gives tells whether the server may answer the call with a task, or the call is about one that it gave.
func (c *connection) gives(call *registry.Call) bool {
	return call.Tasks == mcp.TasksGiven && c.tasks() == mcp.TasksGiven
}

// taskState brings what a modern server says of a task into the form that is passed on. Its own result says what it
// was asked, so it may call itself a task, as some examples of the extension do.
// https://modelcontextprotocol.io/extensions/tasks
func (f fault) taskState(method string, result mcp.Object) (mcp.Object, error) {
	if kind := result.Text("resultType"); result.Has("resultType") && kind != "complete" && kind != "task" {
		return mcp.Object{}, f.protocol("%s: a result of a type that was not asked for", method)
	}
	result = withoutServerInfo(result.Without("resultType"))
	done, ok := mcp.ObjectOf(result.Value("result"))
	if !ok {
		return result, nil
	}
	done, err := f.complete(mcp.MethodToolsCall, mcp.LatestLegacy, done) // it asks nothing any more
	return result.With("result", done.JSON()), err
}
