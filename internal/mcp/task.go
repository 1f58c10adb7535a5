package mcp

// Tasks is one of the two forms in which a tool goes on after its call was answered. They have little in common but the
// word.
type Tasks int

// The forms. The zero Tasks is none.
const (
	// TasksAsked are those of 2025-11-25: the client asks for one, and for its result later.
	// https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks
	TasksAsked Tasks = iota + 1
	// TasksGiven are those of the extension to 2026-07-28: the server answers with one when it likes, and its state has
	// the result.
	// https://modelcontextprotocol.io/extensions/tasks
	TasksGiven
)

// Words of tasks.
const (
	ExtensionTasks = "io.modelcontextprotocol/tasks"

	MethodTasksGet    = "tasks/get"
	MethodTasksUpdate = "tasks/update" // of the extension only
	MethodTasksCancel = "tasks/cancel"
	MethodTasksResult = "tasks/result" // of 2025-11-25 only

	MetaRelatedTask = "io.modelcontextprotocol/related-task"
)

// NeedsTasks returns capabilities with the extension that tasks are.
func NeedsTasks(capabilities Object) Object {
	extensions := capabilities.Object("extensions").With(ExtensionTasks, RawJSON("{}"))
	return capabilities.With("extensions", extensions.JSON())
}

// DeclaresTasks tells whether capabilities, of a client or a server, declare the extension that tasks are.
func DeclaresTasks(capabilities Object) bool {
	return capabilities.Object("extensions").Value(ExtensionTasks).IsObject()
}
