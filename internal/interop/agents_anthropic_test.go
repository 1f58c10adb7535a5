package interop_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// anthropic is the Messages API. See
// https://docs.anthropic.com/en/api/messages-streaming.
type anthropic struct{}

var _ dialect = anthropic{}

// block is a part of a message.
type block struct {
	Type   string
	Text   string
	Source struct {
		MediaType string `json:"media_type"`
	} // of an image
	Content blocks // of a tool_result
	ID      string `json:"tool_use_id"` // of a tool_result
	IsError bool   `json:"is_error"`
}

// blocks are parts, or one text that stands alone.
type blocks []block

func (b *blocks) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		*b = blocks{{Type: "text"}}
		return json.Unmarshal(data, &(*b)[0].Text)
	}
	return json.Unmarshal(data, (*[]block)(b))
}

// text returns all text of the blocks, and the media types of the images.
func (b blocks) text() (text string, images []string) {
	for _, one := range b {
		switch one.Type {
		case "text":
			text += one.Text
		case "image":
			images = append(images, one.Source.MediaType)
		}
	}
	return text, images
}

func (anthropic) read(r *http.Request, body []byte) (talk, bool, error) {
	if r.Method != http.MethodPost || r.URL.Path != "/v1/messages" {
		return talk{}, false, nil
	}
	var request struct {
		Tools    []struct{ Name string }
		Messages []struct {
			Role    string
			Content blocks
		}
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return talk{}, false, err
	}
	shown := talk{asksFor: "ToolSearch"}
	for _, tool := range request.Tools {
		shown.offered = append(shown.offered, tool.Name)
	}
	for _, message := range request.Messages {
		// Beside a result the agent says things of its own.
		answers := slices.ContainsFunc(message.Content, func(b block) bool { return b.Type == "tool_result" })
		for _, one := range message.Content {
			switch {
			case one.Type == "text" && message.Role == "system":
				shown.deferred = deferring(shown.deferred, one.Text)
			case one.Type == "text" && message.Role == "user" && !answers &&
				!strings.HasPrefix(one.Text, "<system-reminder>"):
				shown.wish, shown.answers = one.Text, nil
			case one.Type == "tool_result" && !strings.HasPrefix(one.ID, searchID):
				text, images := one.Content.text()
				shown.answers = append(shown.answers, toolAnswer{text, images, one.IsError})
			}
		}
	}
	return shown, true, nil
}

// searchID starts the ids of calls that ask for deferred tools.
const searchID = "toolu_search_"

// deferring follows what a message says of the tools that Claude Code has beyond those
// that it offers: since it has many of its own, the model is told the names of all others
// and asks for those it wants.
func deferring(deferred []string, text string) []string {
	const added, removed = "The following deferred tools are now available",
		"The following deferred tools are no longer available"
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		head, list, _ := strings.Cut(paragraph, "\n")
		switch names := strings.Fields(list); {
		case strings.HasPrefix(head, added):
			deferred = append(deferred, names...)
		case strings.HasPrefix(head, removed):
			deferred = slices.DeleteFunc(deferred,
				func(name string) bool { return slices.Contains(names, name) })
		}
	}
	return deferred
}

func (anthropic) write(w http.ResponseWriter, body []byte, said reply) {
	unique := time.Now().UnixNano() // answers come one after the other
	content := map[string]any{"type": "text", "text": said.text}
	reason := "end_turn"
	if said.tool != "" {
		id := fmt.Sprintf("toolu_%d", unique)
		if said.tool == "ToolSearch" {
			id = searchID + id
		}
		content = map[string]any{"type": "tool_use", "id": id, "name": said.tool, "input": said.arguments}
		reason = "tool_use"
	}
	message := map[string]any{
		"id": fmt.Sprintf("msg_%d", unique), "type": "message", "role": "assistant", "model": "scripted",
		"content":     []any{content},
		"stop_reason": reason, "stop_sequence": nil, "usage": map[string]int{
			"input_tokens":  1,
			"output_tokens": 1,
		},
	}
	var how struct{ Stream bool }
	if err := json.Unmarshal(body, &how); err != nil || !how.Stream {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(message) // the agent may be gone
		return
	}
	event := eventsTo(w)
	// A stream starts with what is empty, and fills it with deltas.
	delta := map[string]any{"type": "text_delta", "text": said.text}
	if said.tool != "" {
		delta = map[string]any{"type": "input_json_delta", "partial_json": string(said.arguments)}
		content["input"] = struct{}{}
	} else {
		content["text"] = ""
	}
	message["content"], message["stop_reason"] = []any{}, nil
	event("message_start", map[string]any{"message": message})
	event("content_block_start", map[string]any{"index": 0, "content_block": content})
	event("content_block_delta", map[string]any{"index": 0, "delta": delta})
	event("content_block_stop", map[string]any{"index": 0})
	event("message_delta", map[string]any{"delta": map[string]any{
		"stop_reason":   reason,
		"stop_sequence": nil,
	}, "usage": map[string]int{"output_tokens": 1}})
	event("message_stop", map[string]any{})
}
