package interop_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// openai is the Responses API. See
// https://platform.openai.com/docs/api-reference/responses-streaming.
type openai struct{}

var _ dialect = openai{}

// openaiParts are the parts of a message or a result, or one text that stands alone.
type openaiParts []struct {
	Type, Text string
	ImageURL   string `json:"image_url"` // data:image/png;base64,…
}

func (p *openaiParts) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		*p = make(openaiParts, 1)
		return json.Unmarshal(data, &(*p)[0].Text)
	}
	type plain openaiParts // without this method
	return json.Unmarshal(data, (*plain)(p))
}

// clock is what Codex puts before every result.
var clock = regexp.MustCompile(`^Wall time: \S+ seconds\nOutput:\n?`)

// answer returns the parts as a result. This API has no place for whether a call failed.
func (p openaiParts) answer() (a toolAnswer) {
	for _, one := range p {
		a.text += one.Text
		if media, _, found := strings.Cut(strings.TrimPrefix(one.ImageURL, "data:"), ";"); found {
			a.images = append(a.images, media)
		}
	}
	a.text = clock.ReplaceAllString(a.text, "")
	return a
}

func (openai) read(r *http.Request, body []byte) (talk, bool, error) {
	if r.Method != http.MethodPost || r.URL.Path != "/v1/responses" {
		return talk{}, false, nil
	}
	var request struct {
		Tools []struct {
			Type, Name string
			Tools      []struct{ Name string } // of a namespace
		}
		Input []struct {
			Type, Role string
			Content    openaiParts // of a message
			Output     openaiParts // of a function_call_output
		}
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return talk{}, false, err
	}
	var shown talk
	for _, tool := range request.Tools {
		switch tool.Type {
		case "function":
			shown.offered = append(shown.offered, tool.Name)
		case "namespace":
			for _, inner := range tool.Tools {
				shown.offered = append(shown.offered, tool.Name+"/"+inner.Name)
			}
		}
	}
	for _, item := range request.Input {
		switch {
		case item.Type == "function_call_output":
			shown.answers = append(shown.answers, item.Output.answer())
		case item.Type == "message" && item.Role == "user":
			// Codex says things of its own in the user's name: <environment_context>…
			if said := item.Content.answer().text; !strings.HasPrefix(said, "<") {
				shown.wish, shown.answers = said, nil
			}
		}
	}
	return shown, true, nil
}

func (openai) write(w http.ResponseWriter, body []byte, said reply) {
	unique := len(body) // no two requests of a conversation are of one length
	item := map[string]any{
		"type": "message", "role": "assistant", "id": fmt.Sprintf("msg_%d", unique),
		"content": []any{map[string]any{"type": "output_text", "text": said.text}},
	}
	if said.tool != "" {
		item = map[string]any{
			"type": "function_call", "id": fmt.Sprintf("fc_%d", unique), "call_id": fmt.Sprintf("call_%d",
				unique),
			"name": said.tool, "arguments": string(said.arguments),
		}
		if space, name, found := strings.Cut(said.tool, "/"); found {
			item["namespace"], item["name"] = space, name
		}
	}
	response := map[string]any{"id": fmt.Sprintf("resp_%d", unique)}
	event := eventsTo(w)
	event("response.created", map[string]any{"response": response})
	event("response.output_item.done", map[string]any{"output_index": 0, "item": item})
	response["usage"] = map[string]any{"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
	event("response.completed", map[string]any{"response": response})
}
