package server_test

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
)

// TestBodiesInWorkAreBounded lets one request hold all that bodies may take: others wait until it has ended.
func TestBodiesInWorkAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		h := w.Handler()
		want := func(what string, status int) {
			t.Helper()
			got := record(h, modernCall("echo").request(t.Context(), ""))
			if got.Code != status {
				t.Errorf("%s: got %d %s, want %d", what, got.Code, got.Body, status)
			}
			if status == http.StatusServiceUnavailable && (stable(t, got.Body) != "DB-OVERLOAD" || got.Header().Get("Retry-After") != "1") {
				t.Errorf("%s: got %v %s, want DB-OVERLOAD with Retry-After", what, got.Header(), got.Body)
			}
		}
		declared := modernCall("slow").request(t.Context(), "")
		declared.ContentLength = 256 << 20
		go record(h, declared)
		synctest.Wait()
		want("while a large one is in work", http.StatusServiceUnavailable)
		w.letGo()
		synctest.Wait()
		want("after it", http.StatusOK)

		slow := modernCall("slow")
		chunked := slow.request(t.Context(), "")
		from, to := io.Pipe()
		chunked.ContentLength, chunked.Body = -1, from
		go record(h, chunked)
		synctest.Wait()
		want("while one of unknown length is read", http.StatusServiceUnavailable)
		io.WriteString(to, slow.body)
		to.Close()
		synctest.Wait()
		want("when its length is known", http.StatusOK)
		w.letGo()
		synctest.Wait()
	}, func(w *world) { w.config.MaxBody = 1 << 30 })
}
