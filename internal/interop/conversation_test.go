package interop_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// wire keeps enough connections for many talkers at once.
var wire = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}

// talker speaks one revision over raw HTTP, and unlike a speaker can be asked things. One
// call at a time.
type talker struct {
	base         string // scheme, host and port
	path         string // of Streamable HTTP
	token        string // none without the gateway
	revision     string
	capabilities string
	level        string // of the log lines it wants; none when empty
	answer       func(question message) (result string)
	// is told every message, and in answer to which request; nil: nobody is
	heard func(method string, raw []byte)

	session  string
	endpoint string
	stream   *bufio.Reader // of HTTP+SSE
	next     int
}

// open does what the revision needs before calls.
func (s *talker) open(ctx context.Context) error {
	s.endpoint = s.base + s.path
	if s.revision == modernRevision {
		return nil
	}
	if s.revision == "2024-11-05" {
		response, err := s.do(ctx, http.MethodGet, s.base+"/sse", "")
		if err != nil {
			return err
		}
		context.AfterFunc(ctx, func() { _ = response.Body.Close() })
		s.stream = bufio.NewReader(response.Body)
		path, err := event(s.stream)
		if err != nil {
			return err
		}
		s.endpoint = s.base + string(path)
	}
	_, err := s.ask(ctx, "initialize", "",
		fmt.Sprintf(`"protocolVersion":%q,"capabilities":%s,"clientInfo":{"name":"talker","version":"1"}`,
			s.revision, s.capabilities))
	if err != nil {
		return err
	}
	if err := s.say(ctx, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); err != nil {
		return err
	}
	if s.level != "" {
		_, err = s.ask(ctx, "logging/setLevel", "", fmt.Sprintf(`"level":%q`, s.level))
	}
	return err
}

// ask sends a request and returns all that came until its answer, which is last. It
// answers questions on the way: those of legacy revisions as they come, those of the
// modern one by asking again, until the answer asks no more.
func (s *talker) ask(ctx context.Context, method, name, params string) ([]message, error) {
	var all []message
	repeat := ""
	for range 10 {
		s.next++
		id := fmt.Sprint(s.next)
		got, err := s.exchange(ctx, id, method, name, strings.Trim(params+","+repeat, ","))
		all = append(all, got...)
		if err != nil {
			return all, err
		}
		var result struct {
			ResultType    string             `json:"resultType"`
			InputRequests map[string]message `json:"inputRequests"`
			RequestState  json.RawMessage    `json:"requestState"`
		}
		if last := all[len(all)-1]; last.Result != nil {
			if err := json.Unmarshal(last.Result, &result); err != nil {
				return all, fmt.Errorf("%s: %w", last.Result, err)
			}
		}
		if result.ResultType != "input_required" || s.answer == nil {
			return all, nil
		}
		responses := make(map[string]json.RawMessage)
		for key, question := range result.InputRequests {
			responses[key] = json.RawMessage(s.answer(question))
		}
		text, err := json.Marshal(responses)
		if err != nil {
			return all, err
		}
		repeat = `"inputResponses":` + string(text)
		if result.RequestState != nil {
			repeat += `,"requestState":` + string(result.RequestState)
		}
	}
	return all, errors.New("asked ten times")
}

// exchange is one request with what comes back for it.
func (s *talker) exchange(ctx context.Context, id, method, name, params string) ([]message, error) {
	var headers []string
	if s.revision == modernRevision {
		headers = []string{"MCP-Protocol-Version", s.revision, "Mcp-Method", method}
		if name != "" {
			headers = append(headers, "Mcp-Name", name)
		}
		params = strings.TrimSuffix(s.meta(params)+","+params, ",")
	}
	response, err := s.do(ctx, http.MethodPost, s.endpoint,
		fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s}}`, id, method, params), headers...)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if session := response.Header.Get("Mcp-Session-Id"); session != "" {
		s.session = session
	}
	switch {
	case response.StatusCode == http.StatusAccepted && s.stream != nil:
		return s.follow(ctx, method, id, s.stream)
	case strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream"):
		return s.follow(ctx, method, id, bufio.NewReader(response.Body))
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	var m message
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, fmt.Errorf("%s: %d %.300s: %w", method, response.StatusCode, body, err)
	}
	if s.heard != nil {
		s.heard(method, body)
	}
	return []message{m}, nil
}

// meta is the _meta of a modern request; a progress token goes with each call.
func (s *talker) meta(params string) string {
	own := fmt.Sprintf(
		`"_meta":{"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientInfo":{"name":"talker","version":"1"},"io.modelcontextprotocol/clientCapabilities":%s`, s.revision, s.capabilities)
	if s.level != "" {
		own += fmt.Sprintf(`,"io.modelcontextprotocol/logLevel":%q`, s.level)
	}
	if strings.Contains(params, `"name"`) {
		own += `,"progressToken":1`
	}
	return own + "}"
}

// follow reads a stream until the answer to id.
func (s *talker) follow(ctx context.Context, method, id string, stream *bufio.Reader) ([]message, error) {
	var all []message
	for {
		data, err := event(stream)
		if err != nil {
			return all, fmt.Errorf("after %d messages: %w", len(all), err)
		}
		if len(data) == 0 {
			continue // it only gives the stream an id
		}
		var m message
		if err := json.Unmarshal(data, &m); err != nil {
			return all, fmt.Errorf("%s: %w", data, err)
		}
		if s.heard != nil {
			s.heard(method, data)
		}
		all = append(all, m)
		switch {
		case m.Method == "" && bytes.Equal(m.ID, []byte(id)):
			return all, nil
		case m.Method != "" && m.ID != nil:
			if s.answer == nil {
				return all, fmt.Errorf("was asked %s", m.Method)
			}
			if err := s.say(ctx, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID,
				s.answer(m))); err != nil {
				return all, err
			}
		}
	}
}

// say posts what gets no answer of its own.
func (s *talker) say(ctx context.Context, body string) error {
	response, err := s.do(ctx, http.MethodPost, s.endpoint, body)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%.100s: %d %s (%w)", body, response.StatusCode, text, err)
	}
	return nil
}

func (s *talker) do(ctx context.Context, method, url, body string,
	headers ...string,
) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json, text/event-stream")
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/json")
	}
	if s.token != "" {
		request.Header.Set("Authorization", "Bearer "+s.token)
	}
	if s.session != "" {
		request.Header.Set("Mcp-Session-Id", s.session)
		request.Header.Set("MCP-Protocol-Version", s.revision)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	return wire.Do(request)
}

// event returns the data of the next event of a stream.
func event(stream *bufio.Reader) ([]byte, error) {
	var data []byte
	found := false
	for {
		line, err := stream.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if rest, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			data, found = append(data, bytes.TrimPrefix(rest, []byte(" "))...), true
		}
		if len(line) == 0 && found {
			return data, nil
		}
	}
}
