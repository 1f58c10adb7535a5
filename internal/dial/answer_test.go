package dial

import (
	"bufio"
	"bytes"
	"io"
	"mime"
	"net/http"
	"strings"
	"testing"
)

const usual = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"

// usualAnswers are what common servers send.
var usualAnswers = []string{
	usual,
	"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: Sun, 22 Nov 2026 10:00:00 GMT\r\nContent-Length: 2\r\n\r\n{}",
	"HTTP/1.1 200 OK\r\nX-Powered-By: Express\r\ncontent-type: application/json; charset=utf-8\r\ncontent-length: 2\r\nETag: W/\"2-x\"\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\n\r\n{}",
	"HTTP/1.1 200 OK\r\ndate: x\r\nserver: uvicorn\r\nmcp-session-id: 1\r\ncontent-type:application/json\r\ncontent-length:\t2 \r\n\r\n",
	"HTTP/1.1 200 \r\nCONTENT-TYPE: Application/JSON;charset=UTF-8\r\nContent-Length: 0002\r\n\r\n{}HTTP/1.1",
}

// unusualAnswers are what is left to http.ReadResponse, good and bad.
var unusualAnswers = []string{
	"", "H", "HTTP/1.1 200 OK\r\n",
	"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n",
	strings.Replace(usual, "200 OK", "202 Accepted", 1), strings.Replace(usual, "1.1", "1.0", 1),
	strings.Replace(usual, " 200", "  200", 1),
	strings.Replace(usual, "200 OK", "200", 1), strings.Replace(usual, "HTTP", "http", 1),
	strings.ReplaceAll(usual, "\r\n", "\n"), strings.Replace(usual, "json\r\n", "json\n", 1),
	strings.Replace(usual, "json\r\n", "json\r", 1),
	strings.Replace(usual, "Length: 2", "Length: 2\r\nContent-Length: 2", 1), strings.Replace(usual,
		"Length: 2", "Length: 2\r\nContent-Length: 3", 1),
	strings.Replace(usual, "Length: 2", "Length: 2, 2", 1), strings.Replace(usual, "Length: 2", "Length: +2",
		1), strings.Replace(usual, "Length: 2", "Length: -2", 1),
	strings.Replace(usual, "Length: 2", "Length: 0x2", 1), strings.Replace(usual, "Length: 2", "Length: 2 2",
		1), strings.Replace(usual, "Length: 2", "Length: ", 1),
	strings.Replace(usual, "Length: 2", "Length: 0", 1), strings.Replace(usual, "Length: 2",
		"Length: 1048577", 1), strings.Replace(usual, "Length: 2", "Length: 99999999999999999999", 1),
	strings.Replace(usual, "Length:", "Length :", 1), strings.Replace(usual, "Content-Length",
		" Content-Length", 1), strings.Replace(usual, "Content-Length", "Content Length", 1),
	strings.Replace(usual, "Length: 2", "Length: 2\r\n folded", 1), strings.Replace(usual,
		"Content-Length: 2\r\n", "", 1),
	strings.Replace(usual, "\r\n\r\n", "\r\nTransfer-Encoding: chunked\r\n\r\n", 1), strings.Replace(usual,
		"\r\n\r\n", "\r\ntransfer-encoding: identity\r\n\r\n", 1),
	strings.Replace(usual, "\r\n\r\n", "\r\nContent-Encoding: gzip\r\n\r\n", 1), strings.Replace(usual,
		"\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1),
	strings.Replace(usual, "\r\n\r\n", "\r\nConnection: keep-alive, close\r\n\r\n", 1), strings.Replace(usual,
		"\r\n\r\n", "\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n", 1),
	strings.Replace(usual, "\r\n\r\n", "\r\nKeep-Alive: timeout=5\r\nKeep-Alive: max=9\r\n\r\n", 1),
	strings.Replace(usual, "\r\n\r\n", "\r\nTrailer: X\r\n\r\n", 1), strings.Replace(usual, "\r\n\r\n",
		"\r\nUpgrade: h2c\r\n\r\n", 1),
	strings.Replace(usual, "\r\n\r\n", "\r\nX: \x00\r\n\r\n", 1), strings.Replace(usual, "\r\n\r\n",
		"\r\nno colon\r\n\r\n", 1), strings.Replace(usual, "\r\n\r\n", "\r\n: x\r\n\r\n", 1),
	strings.Replace(usual, "application/json", "text/event-stream", 1), strings.Replace(usual,
		"application/json", "application/json-rpc", 1),
	strings.Replace(usual, "application/json", "application/json; charset=utf-16", 1), strings.Replace(usual,
		"Content-Type: application/json\r\n", "", 1),
	strings.Replace(usual, "json\r\n", "json\r\nContent-Type: application/json\r\n", 1),
}

// TestUsualAnswersAreTakenTheShortWay keeps both ways in use: neither may stand idle
// unnoticed.
func TestUsualAnswersAreTakenTheShortWay(t *testing.T) {
	t.Parallel()
	for _, data := range usualAnswers {
		if header, length, _, ok := parseAnswer([]byte(data)); !ok || length != 2 ||
			header != strings.Index(data, "\r\n\r\n")+4 {
			t.Errorf("%q: got header of %d, length %d, usual: %v", data, header, length, ok)
		}
	}
	for _, data := range unusualAnswers {
		if _, _, _, ok := parseAnswer([]byte(data)); ok {
			t.Errorf("%q was taken for a usual answer", data)
		}
	}
}

// FuzzAnswer shows that whatever parseAnswer takes for a usual answer, http.ReadResponse
// reads in the same way.
func FuzzAnswer(f *testing.F) {
	for _, data := range append(usualAnswers, unusualAnswers...) {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		header, length, keepAlive, ok := parseAnswer(data)
		if !ok {
			return
		}
		in := bufio.NewReader(bytes.NewReader(data))
		r, err := http.ReadResponse(in, &http.Request{Method: http.MethodPost})
		if err != nil {
			t.Fatalf("%q was accepted, but http.ReadResponse says %v", data, err)
		}
		kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if r.StatusCode != http.StatusOK || r.Close || kind != "application/json" || err != nil ||
			r.Header.Get("Content-Encoding") != "" || len(r.Trailer) > 0 ||
			r.TransferEncoding != nil || r.ContentLength != int64(length) || length <= 0 ||
			length > maxAnswer {
			t.Fatalf("%q: got length %d, http.ReadResponse has %+v", data, length, r)
		}
		idle := idleTime([]byte(strings.Join(r.Header["Keep-Alive"], ",")), idleTimeout)
		if got := idleTime(keepAlive, idleTimeout); got != idle || got < 0 || got > idleTimeout {
			t.Fatalf("%q: may be idle for %v by Keep-Alive %q, for %v by that of http.ReadResponse", data,
				got, keepAlive, idle)
		}
		want, _ := io.ReadAll(r.Body)
		if got := data[header:min(header+length, len(data))]; !bytes.Equal(got, want) {
			t.Fatalf("%q: got body %q, want %q", data, got, want)
		}
	})
}
