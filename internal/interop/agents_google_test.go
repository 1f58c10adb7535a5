package interop_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// google is the Gemini API. See https://ai.google.dev/api/generate-content.
type google struct{}

var _ dialect = google{}

// googleParts are the parts of a message.
type googleParts []struct {
	Text             string
	FunctionResponse *struct {
		Response struct{ Output, Error string }
	}
	InlineData *struct{ MimeType string }
}

func (google) read(r *http.Request, body []byte) (talk, bool, error) {
	// Beside answers the agent asks how many tokens a picture is.
	_, method, _ := strings.Cut(r.URL.Path, ":")
	if r.Method != http.MethodPost || method != "streamGenerateContent" && method != "countTokens" {
		return talk{}, false, nil
	}
	var request struct {
		Tools    []struct{ FunctionDeclarations []struct{ Name string } }
		Contents []struct {
			Role  string
			Parts googleParts
		}
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return talk{}, false, err
	}
	var shown talk
	for _, tool := range request.Tools {
		for _, function := range tool.FunctionDeclarations {
			shown.offered = append(shown.offered, function.Name)
		}
	}
	for _, content := range request.Contents {
		if content.Role == "user" {
			content.Parts.tell(&shown)
		}
	}
	return shown, true, nil
}

// tell adds to a talk what Gemini CLI sends in its user's name: results, pictures after
// the result that they belong to, what the user said, and things of its own:
// <session_context>…
func (p googleParts) tell(s *talk) {
	for _, part := range p {
		switch answer := part.FunctionResponse; {
		case answer != nil:
			text := unwrapped(answer.Response.Output + answer.Response.Error)
			s.answers = append(s.answers, toolAnswer{text: text, failed: answer.Response.Error != ""})
		case part.InlineData != nil && len(s.answers) > 0:
			last := &s.answers[len(s.answers)-1]
			last.images = append(last.images, part.InlineData.MimeType)
		case part.Text != "" && !strings.HasPrefix(part.Text, "<"):
			s.wish, s.answers = part.Text, nil
		}
	}
}

// wrapping is what Gemini CLI puts around a result, and around an error, which it quotes.
var (
	wrapping = regexp.MustCompile(`(?s)^<untrusted_context>\n(.*)\n</untrusted_context>$`)
	quoting  = regexp.MustCompile(`^MCP tool .* reported tool error .*"(?:text|message)":("(?:[^"\\]|\\.)*")`)
)

// unwrapped returns what the server said.
func unwrapped(text string) string {
	if inner := wrapping.FindStringSubmatch(text); inner != nil {
		return inner[1]
	}
	var plain string
	if inner := quoting.FindStringSubmatch(text); inner != nil &&
		json.Unmarshal([]byte(inner[1]), &plain) == nil {
		return plain
	}
	return text
}

func (google) write(w http.ResponseWriter, body []byte, said reply) {
	part := map[string]any{"text": said.text}
	if said.tool != "" {
		part = map[string]any{"functionCall": map[string]any{"name": said.tool, "args": said.arguments}}
	}
	data, err := json.Marshal(map[string]any{
		"candidates": []any{map[string]any{
			"content":      map[string]any{"role": "model", "parts": []any{part}},
			"finishReason": "STOP",
		}},
		"usageMetadata": map[string]int{
			"promptTokenCount": 1, "candidatesTokenCount": 1,
			"totalTokenCount": 2,
		},
		"totalTokens": len(body), // of countTokens
	})
	if err != nil {
		panic(err) // plain values always encode
	}
	if !bytes.Contains(body, []byte(`"functionDeclarations"`)) { // it counts tokens
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(data) // the agent may be gone
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = fmt.Fprintf(w, "data: %s\n\n", data) // the agent may be gone
}
