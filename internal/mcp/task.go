package mcp

// Tasks is one of the two forms in which a tool goes on after its call was answered. Two
// revisions use the word task for things that have little else in common.
type Tasks int

// The forms. The zero Tasks is none.
const (
	// TasksAsked are those of 2025-11-25. The client asks for a task when it calls a
	// tool, and for the result later.
	// https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks
	TasksAsked Tasks = iota + 1
	// TasksGiven are those of the extension to 2026-07-28. The server decides to answer a
	// call with a task, and the state of the task, which the client asks for, has the
	// result in the end.
	// https://modelcontextprotocol.io/extensions/tasks
	TasksGiven
)

// Names of what tasks are made of.
const (
	ExtensionTasks = "io.modelcontextprotocol/tasks"

	MethodTasksGet    = "tasks/get"
	MethodTasksUpdate = "tasks/update" // of the extension only
	MethodTasksCancel = "tasks/cancel"
	MethodTasksResult = "tasks/result" // of 2025-11-25 only
	MethodTasksList   = "tasks/list"   // of 2025-11-25 only

	NotifyTasks       = "notifications/tasks"        // of the extension only
	NotifyTasksStatus = "notifications/tasks/status" // of 2025-11-25 only

	MetaRelatedTask = "io.modelcontextprotocol/related-task"
)

// NeedsTasks returns capabilities together with the extension that tasks are.
func NeedsTasks(capabilities Object) Object {
	extensions := capabilities.Object("extensions").With(ExtensionTasks, RawJSON("{}"))
	return capabilities.With("extensions", extensions.JSON())
}

// DeclaresTasks tells whether capabilities, of a client or a server, declare the
// extension that tasks are.
func DeclaresTasks(capabilities Object) bool {
	return capabilities.Value("extensions").Member(ExtensionTasks).IsObject()
}

// TaskGoesOn tells whether a task with this status is not at its end: it works, or waits
// for input.
func TaskGoesOn(status string) bool { return status == "working" || status == "input_required" }
