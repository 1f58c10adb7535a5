package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/upstream"
)

// serveProxy runs httputil.ReverseProxy as well as it goes: a pool of idle connections as
// large as the concurrency, and the request body read before it is sent on, or answers
// get lost.
func serveProxy(ctx context.Context, addr, target string) error {
	proxy := httputil.NewSingleHostReverseProxy(must.Have(url.Parse(target)))
	proxy.Transport = &http.Transport{MaxIdleConns: 1024, MaxIdleConnsPerHost: 1024, DisableCompression: true}
	return upstream.Listen(ctx, addr, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
}
