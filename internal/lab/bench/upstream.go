package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// serveUpstream runs an MCP server that serves both eras and does nothing else: what it costs is the floor of every
// comparison. It has one tool, echo; under /tools/N it lists N tools, and under /kinds those that answer in other ways.
// With the files of a certificate and its key it speaks TLS.
func serveUpstream(ctx context.Context, addr string, files ...string) error {
	asked := &questions{}
	return listen(ctx, addr, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		m, err := mcp.Decode(body)
		if err == nil && m.IsResponse() {
			asked.answer(m)
		}
		if err != nil || !m.IsRequest() {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		switch m.Method {
		case mcp.MethodInitialize:
			w.Header().Set(mcp.HeaderSessionID, "bench")
		case mcp.MethodToolsList:
			if count, found := strings.CutPrefix(r.URL.Path, "/tools/"); found {
				n, _ := strconv.Atoi(count) // our own path
				respond(w, mcp.AppendResult(nil, m.ID, manyTools(n)))
				return
			}
			if r.URL.Path == "/kinds" {
				respond(w, mcp.AppendResult(nil, m.ID, object(kindTools)))
				return
			}
		case mcp.MethodToolsCall:
			if m.Params.Text("name") != "echo" {
				asked.serveKind(w, r, m)
				return
			}
		}
		respond(w, reply(m))
	}), files...)
}

func reply(m *mcp.Message) []byte {
	switch m.Method {
	case mcp.MethodInitialize:
		return mcp.AppendResult(nil, m.ID, object(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bench","version":"1"}}`))
	case mcp.MethodToolsList:
		return mcp.AppendResult(nil, m.ID, object(`{"tools":[{"name":"echo","description":"Says it again","inputSchema":{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}}]}`))
	case mcp.MethodToolsCall:
		block := mcp.NewObject(
			mcp.Member{Name: "type", Value: mcp.String("text")},
			mcp.Member{Name: "text", Value: m.Params.Object("arguments").Value("message")},
		)
		return mcp.AppendResult(nil, m.ID, mcp.NewObject(mcp.Member{Name: "content", Value: mcp.Array([]mcp.RawJSON{block.JSON()})}))
	}
	return mcp.AppendError(nil, m.ID, mcp.Errorf(mcp.CodeMethodNotFound, "Method not found"))
}

// manyTools returns a list of echo and others, whose definitions have about 160 bytes each.
func manyTools(count int) mcp.Object {
	echo := `{"name":"echo","description":"Says it again","inputSchema":{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}}`
	tools := []mcp.RawJSON{mcp.RawJSON(echo)}
	for n := range count - 1 {
		tools = append(tools, mcp.RawJSON(strings.Replace(echo, `"echo"`, fmt.Sprintf(`"tool_%04d"`, n), 1)))
	}
	return mcp.NewObject(mcp.Member{Name: "resultType", Value: mcp.String("complete")}, mcp.Member{Name: mcp.ResultTools, Value: mcp.Array(tools)})
}

func object(text string) mcp.Object {
	o, _ := mcp.ObjectOf(mcp.RawJSON(text)) // the texts above are objects
	return o
}

func respond(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // the client is gone
}

// serveProxy runs httputil.ReverseProxy as well as it goes: a pool of idle connections as large as the concurrency, and
// the request body read before it is sent on, or answers get lost.
func serveProxy(ctx context.Context, addr, upstream string) error {
	target, err := url.Parse(upstream)
	if err != nil {
		return err
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = &http.Transport{MaxIdleConns: 1024, MaxIdleConnsPerHost: 1024, DisableCompression: true}
	return listen(ctx, addr, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
}

// listen serves until ctx ends, over TLS with the files of a certificate and its key.
func listen(ctx context.Context, addr string, handler http.Handler, files ...string) error {
	server := &http.Server{Addr: addr, Handler: handler, ReadHeaderTimeout: 5 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // the process ends with it
	defer stop()
	serve := server.ListenAndServe
	if len(files) == 2 {
		serve = func() error { return server.ListenAndServeTLS(files[0], files[1]) }
	}
	if err := serve(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
