package sanitize

// position is where a value stands in a message of the protocol. It decides what becomes
// of the strings in the value, and at which places its members stand.
//
// The first places are for strings. Objects and arrays at them belong to nobody's form:
// everything in them is treated like a string there. The other places are types of the
// protocol, and protocol is the table of their members. A member that the table does not
// have stands where the type says, which is at free in all that a server answers: what
// nobody knows must not become a way around the rules. So a member is kept from cleaning
// only where a revision of the protocol has it, never because of its name alone.
//
// The names of members are looked up by programs, so they are never edited, whatever the
// place.
type position uint8

const (
	free    position = iota // a text for people or models: cleaned
	counted                 // a text that is cleaned and counts against the limit
	// programs compare it, or it goes back to the server: never edited; hidden text is an
	// offence
	exact
	address // a URI: as exact, and judged by its scheme
	// Base64: its size is bounded, otherwise it keeps its bytes; anything else there is
	// cleaned
	binary
	blob // the same for a file, which is cleaned if it is text
	// a file: passes whole or, with hidden text or a secret, not at all; its size is
	// bounded
	whole
	wholeView // the same in Base64, of a page that a host shows
	wholeFile // the same in Base64, judged if it is text
	// not looked at: the gateway seals it, drops it or judges it elsewhere, or it goes
	// back to the server
	sealed

	completed    // the result of a call that is done, whichever the method
	skillGot     // of skills/get
	directory    // of resources/directory/read
	asking       // a result that asks for input
	taskMade     // a result that wraps a task
	taskState    // a task, or what is told of one
	failed       // the error of a task
	failure      // the data of an error
	notification // the params of a notification

	content       // one of contentBlocks, or an array of them
	sampled       // one of sampledBlocks, or an array of them
	textBlock     // a block of text
	mediaBlock    // an image or a sound
	linkBlock     // a link to a resource
	resourceBlock // a resource within a message
	callBlock     // a call that a model wants
	outcomeBlock  // what came of such a call
	strangeBlock  // a block of a type that the protocol does not have in its place

	contents    // the contents of a resource
	file        // the same, of a kind that is never edited
	view        // a file that is shown as a page
	annotations // of a block
	icon
	meta // _meta of a result, a notification or a question
	implementation
	message    // of a prompt
	completion // values for an argument

	requests // the questions of a result, by key
	request  // a question
	question // the params of a question
	sample   // a message for sampling

	tool // a definition; so are the next five
	toolAnnotations
	prompt
	promptArgument
	resource
	resourceTemplate
	extended // of an extension
	skillFile
	schema  // a JSON Schema: of arguments, of a result, of a form
	schemas // JSON Schemas by name

	positions // how many there are
)

// member returns the place of the member with that name of an object at this place.
func (at position) member(name []byte) position {
	to, _ := at.lookup(name)
	return to
}

// lookup is member, and tells as well whether the protocol has the member there. The name
// of such a member hides nothing and may be shown to anybody.
func (at position) lookup(name []byte) (to position, known bool) {
	form := &protocol[at]
	if to, known = form.members[string(name)]; !known {
		to = form.others
	}
	return to, known
}

// text returns how a string is treated that stands where the protocol has an object.
func (at position) text() position {
	switch {
	case at <= sealed:
		return at
	case at >= content && at <= strangeBlock:
		return counted
	case protocol[at].others == free:
		return free
	}
	return exact
}

// Types of content blocks, by the word in their member type: those of messages and
// results, and those of messages for sampling. A type that its place does not have is a
// strangeBlock.
var (
	contentBlocks = map[string]position{
		"text": textBlock, "image": mediaBlock, "audio": mediaBlock, "resource_link": linkBlock,
		"resource": resourceBlock,
	}
	sampledBlocks = map[string]position{
		"text": textBlock, "image": mediaBlock, "audio": mediaBlock, "tool_use": callBlock,
		"tool_result": outcomeBlock,
	}
)
