package fetch_test

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/fetch"
)

// TestDo asks a server that repeats what it is asked.
func TestDo(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Said", r.Header.Get("X-Say"))
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, r.Method+" "+string(body))
	}))
	defer server.Close()
	for _, test := range []struct {
		request fetch.Request
		body    string
	}{
		{fetch.Request{Most: 100}, "GET "},
		{fetch.Request{Method: http.MethodPost, Body: "text", Most: 100}, "POST text"},
		{fetch.Request{Method: http.MethodPost, Body: "text", Most: 9}, "POST text"},
		{fetch.Request{Method: http.MethodPost, Body: "text", Most: 7}, "POST tex"},
	} {
		test.request.Address, test.request.Header = server.URL, http.Header{"X-Say": {"hello"}}
		answer, err := fetch.Do(t.Context(), server.Client(), test.request)
		if err != nil {
			t.Fatal(err)
		}
		if answer.Status != http.StatusTeapot || answer.Header.Get("X-Said") != "hello" ||
			string(answer.Body) != test.body {
			t.Errorf("got %d, %v, %q, want %q", answer.Status, answer.Header, answer.Body, test.body)
		}
	}
}

// TestNothingLeadsElsewhere asks a server that sends whoever asks to another address,
// with a cookie, by a client that would follow and keep it.
func TestNothingLeadsElsewhere(t *testing.T) {
	t.Parallel()
	var cookies, elsewhere atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cookies.Add(int32(len(r.Cookies())))
		if r.URL.Path == "/elsewhere" {
			elsewhere.Add(1)
		}
		http.SetCookie(w, &http.Cookie{Name: "known", Value: "1"})
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	}))
	defer server.Close()
	client := server.Client()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client.Jar = jar
	for range 2 {
		answer, err := fetch.Do(t.Context(), client, fetch.Request{Address: server.URL, Most: 100})
		if err != nil || answer.Status != http.StatusFound {
			t.Fatalf("got %v, %v, want the redirect itself", answer, err)
		}
	}
	if cookies.Load() > 0 || elsewhere.Load() > 0 {
		t.Errorf("%d requests with a cookie and %d elsewhere, want none", cookies.Load(), elsewhere.Load())
	}
}

// TestErrorsDoNotRepeatTheAddress asks at addresses that are none, or where nobody is.
func TestErrorsDoNotRepeatTheAddress(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	gone := server.URL
	server.Close()
	for _, address := range []string{gone + "/secret", "http://secret\x7f/"} {
		_, err := fetch.Do(t.Context(), server.Client(), fetch.Request{Address: address})
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: got %v", address, err)
		}
	}
}

// TestAnAnswerThatBreaksOffIsAnError asks a server that says less than it has announced.
func TestAnAnswerThatBreaksOffIsAnError(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		_, _ = io.WriteString(w, "half")
	}))
	defer server.Close()
	request := fetch.Request{Address: server.URL, Most: 100}
	if answer, err := fetch.Do(t.Context(), server.Client(), request); err == nil {
		t.Errorf("got %q, want an error", answer.Body)
	}
}

// TestCleanIsFitForALog has servers say what must not stand there.
func TestCleanIsFitForALog(t *testing.T) {
	t.Parallel()
	const secret = "0123456789abcdefghijklmnopqrstuvwxyz"
	for _, test := range []struct {
		says string
		most int
		want string
	}{
		{"bad \t request\r\nINFO forged\x1b[31m é", 100, "bad request INFO forged [31m"},
		{"invalid_grant", 7, "invalid"},
		{"no secret of ours", 100, "no secret of ours"},
		{"bad " + secret, 100, ""},
		{"bad " + secret[10:34], 100, ""}, // a piece of it
		{"bad hush", 100, ""},
	} {
		if got := fetch.Clean(test.says, test.most, []string{secret, "hush", ""}); got != test.want {
			t.Errorf("%q: got %q, want %q", test.says, got, test.want)
		}
	}
}
