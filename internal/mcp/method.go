package mcp

// Method is what the protocol says of one request that clients send. The doors and the desk look it up here and keep no
// lists of methods of their own. The zero Method is one that the protocol does not have.
type Method struct {
	Name string
	// Only is the one era whose clients send it; zero: those of both do.
	Only Era
	// Tasks is the one form of tasks that has it; zero: both have it, or it has nothing to do with tasks.
	Tasks Tasks
	// Capability is what a server declares to say that it has the method; "": every server has it.
	Capability string
	// Subject is the member of the params that says what the request is about; "": it is about nothing in particular.
	Subject string
	// Named tells whether clients of the modern era repeat the subject in HeaderName.
	Named bool
	// Result is the member of the result that holds what was asked for; "": there is none that it must have.
	Result string
	// Lists tells whether the result is one page of a list of items.
	Lists bool
	// Asks tells whether the result may ask the client for input instead.
	Asks bool
}

// MethodOf returns what is known of the method with that name.
func MethodOf(name string) Method { return methods[name] }

// OfTasks tells whether the method is about tasks.
func (m Method) OfTasks() bool { return m.Capability == capabilityTasks }

// What Result can be.
const (
	ResultContent    = "content"  // of a tool
	ResultMessages   = "messages" // of a prompt
	ResultContents   = "contents" // of a resource
	ResultCompletion = "completion"
	ResultTools      = "tools"
	ResultPrompts    = "prompts"
	ResultResources  = "resources"
	ResultTemplates  = "resourceTemplates"
)

// What Capability can be.
const (
	capabilityTools       = "tools"
	capabilityPrompts     = "prompts"
	capabilityResources   = "resources"
	capabilityCompletions = "completions"
	capabilityLogging     = "logging"
	capabilityTasks       = "tasks"
)

// methods has every method that clients send, by its name. It is never changed. A new method is a row here; what the
// desk does with a call is in its own table, internal/gateway/method.go.
var methods = tableOf(
	Method{Name: MethodInitialize, Only: Legacy},
	Method{Name: MethodPing, Only: Legacy},
	Method{Name: MethodDiscover, Only: Modern},
	Method{Name: MethodListen, Only: Modern},

	Method{Name: MethodToolsList, Capability: capabilityTools, Result: ResultTools, Lists: true},
	Method{Name: MethodToolsCall, Capability: capabilityTools, Subject: "name", Named: true, Result: ResultContent, Asks: true},
	Method{Name: MethodPromptsList, Capability: capabilityPrompts, Result: ResultPrompts, Lists: true},
	Method{Name: MethodPromptsGet, Capability: capabilityPrompts, Subject: "name", Named: true, Result: ResultMessages, Asks: true},
	Method{Name: MethodResourcesList, Capability: capabilityResources, Result: ResultResources, Lists: true},
	Method{Name: MethodTemplatesList, Capability: capabilityResources, Result: ResultTemplates, Lists: true},
	Method{Name: MethodResourcesRead, Capability: capabilityResources, Subject: "uri", Named: true, Result: ResultContents, Asks: true},
	Method{Name: MethodSubscribe, Only: Legacy, Capability: capabilityResources, Subject: "uri"},
	Method{Name: MethodUnsubscribe, Only: Legacy, Capability: capabilityResources, Subject: "uri"},
	Method{Name: MethodComplete, Capability: capabilityCompletions, Subject: "ref", Result: ResultCompletion},
	Method{Name: MethodSetLevel, Only: Legacy, Capability: capabilityLogging},

	Method{Name: MethodTasksGet, Capability: capabilityTasks, Subject: "taskId", Named: true},
	Method{Name: MethodTasksCancel, Capability: capabilityTasks, Subject: "taskId", Named: true},
	Method{Name: MethodTasksUpdate, Only: Modern, Tasks: TasksGiven, Capability: capabilityTasks, Subject: "taskId", Named: true},
	Method{
		Name: MethodTasksResult, Only: Legacy, Tasks: TasksAsked, Capability: capabilityTasks, Subject: "taskId",
		Result: ResultContent, Asks: true, // both as the tool has them whose task it is
	},
)

func tableOf(all ...Method) map[string]Method {
	table := make(map[string]Method, len(all))
	for _, m := range all {
		table[m.Name] = m
	}
	return table
}
