// Package fetch asks a server once, and reads its answer whole, up to a bound. It knows
// what of an answer or error may stand in a log. It opens no connection by itself: the
// client does, which package dial makes.
package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
)

// Request is what a server is asked.
type Request struct {
	Method  string // "": GET
	Address string
	Header  http.Header
	Body    string
	Most    int64 // how many bytes the answer has at most
}

// Answer is what it answers.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte // of an answer that is too long, one byte more than Most
}

// Do sends a request and reads the answer. Whatever the client would do itself, no
// redirect is followed and no cookie kept: what is wanted stands at the address and
// nowhere else. Errors do not repeat the address: the operator knows it, and others need
// not.
func Do(ctx context.Context, client *http.Client, r Request) (*Answer, error) {
	request, err := http.NewRequestWithContext(ctx, r.Method, r.Address, strings.NewReader(r.Body))
	if err != nil {
		return nil, Bare(err)
	}
	maps.Copy(request.Header, r.Header)
	strict := *client
	strict.Jar = nil
	strict.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response, err := strict.Do(request)
	if err != nil {
		return nil, Bare(err)
	}
	defer func() { _ = response.Body.Close() }() // all that is wanted was read
	body, err := io.ReadAll(io.LimitReader(response.Body, r.Most+1))
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	return &Answer{response.StatusCode, response.Header, body}, nil
}

// Bare returns an error without the address that net/http puts in front of it: that may
// have what must not be in logs, such as the arguments of a call.
func Bare(err error) error {
	if about, ok := errors.AsType[*url.Error](err); ok {
		return about.Err
	}
	return err
}

// Clean returns the beginning of what a server says, for a log: in printable ASCII on one
// line. It is "" if the server repeats one of the secrets that it was sent, or a piece of
// one that is long enough to be of use.
func Clean(text string, most int, secrets []string) string {
	const piece = 16
	for _, secret := range secrets {
		for start := 0; start == 0 || start+piece <= len(secret); start += piece {
			part := secret[start:min(start+piece, len(secret))]
			if part != "" && strings.Contains(text, part) {
				return ""
			}
		}
	}
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return ' '
		}
		return r
	}, text)
	text = strings.Join(strings.Fields(text), " ")
	return text[:min(len(text), most)]
}
