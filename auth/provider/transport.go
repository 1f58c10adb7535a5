package provider

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/pace"
)

const (
	attemptTime = 10 * time.Second // that one request may take, its answer included
	maxBody     = 1 << 20          // bytes of an answer
	retryPause  = 200 * time.Millisecond
)

// errUnsent tells that the provider has received nothing of a request.
var errUnsent = errors.New("nothing was sent")

// transport sends all requests to one provider. It reads every answer whole, within
// attemptTime and maxBody, since go-oidc reads without bounds. An answer to GET that is
// not 200 becomes an *Error, because go-oidc would write its text into an error.
//
// It sends a request again, once, where that does no harm: GET after a network error or a
// 5xx, and others only if nothing of them was sent. A code or a refresh token that is
// sent twice is taken for a stolen one.
type transport struct {
	inner  http.RoundTripper
	assert func(endpoint string) (string, error) // makes a client_assertion for each POST; nil: none
}

var _ http.RoundTripper = (*transport)(nil)

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	r, err := t.asserted(r)
	if err != nil {
		return nil, err
	}
	response, wrote, err := t.once(r)
	if again(r, response, wrote, err) {
		if !pace.Wait(r.Context(), retryPause) {
			return nil, r.Context().Err()
		}
		if r.GetBody != nil {
			if r.Body, err = r.GetBody(); err != nil {
				return nil, err
			}
		}
		response, _, err = t.once(r)
	}
	if err == nil && r.Method == http.MethodGet && response.StatusCode != http.StatusOK {
		return nil, &Error{Doing: "get " + r.URL.Host + r.URL.Path, Status: response.StatusCode}
	}
	return response, err
}

// again tells whether a request may and should be sent a second time.
func again(r *http.Request, response *http.Response, wrote bool, err error) bool {
	switch {
	case r.Context().Err() != nil:
		return false
	case err != nil:
		return r.Method == http.MethodGet || !wrote
	}
	return r.Method == http.MethodGet && response.StatusCode >= http.StatusInternalServerError
}

// once sends a request and reads the answer. wrote tells whether the provider may have
// received anything of it.
func (t *transport) once(r *http.Request) (response *http.Response, wrote bool, err error) {
	ctx, cancel := context.WithTimeout(r.Context(), attemptTime)
	defer cancel()
	var began atomic.Bool // net/http writes in a goroutine of its own
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { began.Store(true) }})
	response, err = t.inner.RoundTrip(r.WithContext(ctx))
	if err != nil && !began.Load() {
		return nil, false, fmt.Errorf("%w: %w", errUnsent, err)
	}
	if err != nil {
		return nil, true, err
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody+1))
	_ = response.Body.Close() // all that is wanted was read
	switch {
	case err != nil:
		return nil, true, fmt.Errorf("read the answer: %w", err)
	case len(body) > maxBody:
		return nil, true, fmt.Errorf("an answer of more than %d bytes", maxBody)
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, true, nil
}

// asserted returns the request with a client_assertion in its form, if there is one.
// x/oauth2 has no place for it at a refresh.
// https://www.rfc-editor.org/rfc/rfc7523#section-2.2
func (t *transport) asserted(r *http.Request) (*http.Request, error) {
	if t.assert == nil || r.Method != http.MethodPost {
		return r, nil
	}
	body, err := io.ReadAll(r.Body)
	if err = errors.Join(err, r.Body.Close()); err != nil {
		return nil, err
	}
	assertion, err := t.assert(r.URL.String())
	if err != nil {
		return nil, err
	}
	text := string(body) + "&" + url.Values{
		"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
		"client_assertion":      {assertion},
	}.Encode()
	r = r.Clone(r.Context())
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
	r.ContentLength = int64(len(text))
	r.Body, err = r.GetBody()
	return r, err
}
