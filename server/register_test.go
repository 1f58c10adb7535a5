package server_test

import (
	"net/http"
	"testing"
)

// TestClientThatWantsToRegisterReadsTheReason shows what a client reads that found no
// metadata and takes the gateway for its authorization server: an error of OAuth, with
// the reason for which its token was refused before. Whoever tries out tokens here is on
// record as anywhere else.
func TestClientThatWantsToRegisterReadsTheReason(t *testing.T) {
	w := newWorld(t)
	taken := w.recording()
	post := message{
		method: "POST", path: "/register",
		body: `{"redirect_uris":["http://127.0.0.1:1/callback"],"client_name":"x"}`,
	}
	for _, c := range causes() {
		atEndpoint := object(w.do(t, modernCall("echo").as(c.token)).Body.String()).Object("error").Text(
			"message")
		taken()
		got := w.do(t, post.as(c.token))
		said := object(got.Body.String())
		code, says, lines := "invalid_token", atEndpoint, 1
		if c.token == "" {
			code, says, lines = "access_denied",
				"Clients are not registered here: get a token from the operator and send it as Authorization: Bearer", 0
		}
		if got.Code != http.StatusNotFound || said.Text("error") != code ||
			said.Text("error_description") != says || said.Len() != 2 {
			t.Errorf("%s: got %d %s, want 404, %s, %s", c.token, got.Code, got.Body, code, says)
		}
		kept := taken()
		if len(kept) != lines || lines == 1 && (kept[0].Outcome != "unauthenticated" ||
			kept[0].Reason != c.reason) {
			t.Errorf("%s: got %+v on record, want %d for %s", c.token, kept, lines, c.reason)
		}
	}
	if got := w.do(t, post.as("alice")); got.Code != http.StatusNotFound ||
		object(got.Body.String()).Text("error") != "access_denied" {
		t.Errorf("with a good token: got %d %s, want 404", got.Code, got.Body)
	}
	for _, method := range []string{"GET", "PUT", "DELETE", "OPTIONS"} {
		if got := w.do(t, message{
			method: method, path: "/register",
			token: "genuine-expired",
		}); got.Code != http.StatusNotFound || stable(t,
			got.Body) != "DB-NOT-FOUND" {
			t.Errorf("%s: got %d %s, want what any path gives that is not there", method, got.Code, got.Body)
		}
	}
}
