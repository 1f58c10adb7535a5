package mcp

// Method is what the protocol says of one request that clients send. All other code looks
// it up here instead of listing methods itself, so that a new method is one new row. The
// zero Method is one that the protocol does not have.
type Method struct {
	Name string // as in the message, such as "tools/call"
	// Only is the one era whose clients send the method; zero: those of both do.
	Only Era
	// Tasks is the one form of tasks that has the method; zero: both forms have it, or it
	// has nothing to do with tasks.
	Tasks Tasks
	// Extension is the identifier of the extension that the method belongs to; "": it
	// belongs to the protocol.
	Extension string
	// Capability is what a server declares if it has the method; "": every server has it.
	Capability string
	// Subject is the member of the params that says what the request is about; "": it is
	// about nothing in particular.
	Subject string
	// Named tells whether clients of the modern era repeat the subject in HeaderName.
	Named bool
	// Result is the member of the result that holds what the client asked for; "": the
	// result need not have any member.
	Result string
	// Lists tells whether the result is a page of a list of items, which is what Result
	// names then.
	Lists bool
	// Asks tells whether the server may answer with questions to the client instead of a
	// result.
	Asks bool
}

// MethodOf returns what is known of the method with that name. For a name that the
// protocol does not have it is the zero Method.
func MethodOf(name string) Method { return methods[name] }

// OfTasks tells whether the method is about tasks.
func (m Method) OfTasks() bool { return m.Capability == capabilityTasks }

// The values of Method.Result. The name of a member says which kind of thing a result is
// about.
const (
	ResultContent    = "content"  // of a tool
	ResultMessages   = "messages" // of a prompt
	ResultContents   = "contents" // of a resource
	ResultCompletion = "completion"
	ResultTools      = "tools"
	ResultPrompts    = "prompts"
	ResultResources  = "resources"
	ResultTemplates  = "resourceTemplates"
	ResultSkills     = "skills"
	ResultSkill      = "skill"
	ResultTasks      = "tasks"
)

// The values of Method.Capability.
const (
	capabilityTools       = "tools"
	capabilityPrompts     = "prompts"
	capabilityResources   = "resources"
	capabilityCompletions = "completions"
	capabilityLogging     = "logging"
	capabilityTasks       = "tasks"
)

// methods has every method that clients send, by its name. It is never changed. A new
// method is a row here; what the gateway does with a call of it is a row of another
// table, in internal/gateway/method.go.
var methods = tableOf(
	Method{Name: MethodInitialize, Only: Legacy},
	Method{Name: MethodPing, Only: Legacy},
	Method{Name: MethodDiscover, Only: Modern},
	Method{Name: MethodListen, Only: Modern},

	Method{Name: MethodToolsList, Capability: capabilityTools, Result: ResultTools, Lists: true},
	Method{
		Name: MethodToolsCall, Capability: capabilityTools, Subject: "name", Named: true,
		Result: ResultContent, Asks: true,
	},
	Method{Name: MethodPromptsList, Capability: capabilityPrompts, Result: ResultPrompts, Lists: true},
	Method{
		Name: MethodPromptsGet, Capability: capabilityPrompts, Subject: "name", Named: true,
		Result: ResultMessages, Asks: true,
	},
	Method{Name: MethodResourcesList, Capability: capabilityResources, Result: ResultResources, Lists: true},
	Method{Name: MethodTemplatesList, Capability: capabilityResources, Result: ResultTemplates, Lists: true},
	Method{
		Name: MethodResourcesRead, Capability: capabilityResources, Subject: "uri", Named: true,
		Result: ResultContents, Asks: true,
	},
	Method{Name: MethodSkillsList, Extension: ExtensionSkills, Result: ResultSkills, Lists: true},
	Method{Name: MethodSkillsGet, Extension: ExtensionSkills, Subject: "uri", Result: ResultSkill},
	Method{Name: MethodDirectoryRead, Extension: ExtensionSkills, Subject: "uri", Result: ResultResources},
	Method{Name: MethodSubscribe, Only: Legacy, Capability: capabilityResources, Subject: "uri"},
	Method{Name: MethodUnsubscribe, Only: Legacy, Capability: capabilityResources, Subject: "uri"},
	Method{Name: MethodComplete, Capability: capabilityCompletions, Subject: "ref", Result: ResultCompletion},
	Method{Name: MethodSetLevel, Only: Legacy, Capability: capabilityLogging},

	Method{
		Name: MethodTasksGet, Extension: ExtensionTasks, Capability: capabilityTasks, Subject: "taskId",
		Named: true,
	},
	Method{
		Name: MethodTasksCancel, Extension: ExtensionTasks, Capability: capabilityTasks, Subject: "taskId",
		Named: true,
	},
	Method{
		Name: MethodTasksUpdate, Only: Modern, Tasks: TasksGiven, Extension: ExtensionTasks,
		Capability: capabilityTasks, Subject: "taskId", Named: true,
	},
	Method{
		Name: MethodTasksResult, Only: Legacy, Tasks: TasksAsked, Capability: capabilityTasks,
		Subject: "taskId",
		Result:  ResultContent, Asks: true, // as for the tools/call whose task it is
	},
	Method{
		Name: MethodTasksList, Only: Legacy, Tasks: TasksAsked, Capability: capabilityTasks,
		Result: ResultTasks,
	},
)

// tableOf returns the methods by name.
func tableOf(all ...Method) map[string]Method {
	table := make(map[string]Method, len(all))
	for _, m := range all {
		table[m.Name] = m
	}
	return table
}
