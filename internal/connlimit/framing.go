package connlimit

import (
	"bytes"
	"net/http"
	"sync/atomic"
)

// framing tells whether a request on a connection may have said in two ways where it
// ends, with Content-Length and with Transfer-Encoding. A proxy before the gateway may
// believe the one and the gateway the other, so that the end of such a request is the
// begin of another client's.
// https://www.rfc-editor.org/rfc/rfc9112#section-6.1-15
//
// net/http goes by Transfer-Encoding, as it should, and deletes the other before a
// handler sees it. So framing counts the lines that begin with it in what is read, and
// the handler takes off those that it sees; a chunked request with one left over closes
// its connection. Such a line in a body, or of the next request in a pipeline, closes the
// connection of a chunked request, too, which costs its client no more than another
// connection. To close those of all chunked requests would be simpler, and would cost
// clients that send nothing else three times the exchange.
type framing struct {
	matched int          // bytes of lengthLine at the end of what was read; changed by who reads
	read    atomic.Int64 // lines that were read
	seen    int64        // lines that handlers saw, one request after the other
}

const lengthLine = "\ncontent-length:"

// scan counts the lines in what was just read.
func (f *framing) scan(data []byte) {
	for len(data) > 0 {
		if f.matched == 0 {
			i := bytes.IndexByte(data, '\n')
			if i < 0 {
				return
			}
			data, f.matched = data[i+1:], 1
			continue
		}
		if data[0]|0x20 != lengthLine[f.matched] {
			f.matched = 0
			continue
		}
		data = data[1:]
		if f.matched++; f.matched == len(lengthLine) {
			f.read.Add(1)
			f.matched = 0
		}
	}
}

// ambiguous takes off what a handler sees of the request, and tells whether its
// connection must close. The request of HTTP/1.0 always must: net/http deletes
// Transfer-Encoding from it.
func (f *framing) ambiguous(r *http.Request) bool {
	if _, seen := r.Header["Content-Length"]; seen {
		f.seen++
	}
	return !r.ProtoAtLeast(1, 1) || len(r.TransferEncoding) > 0 && f.read.Load() > f.seen
}

// framed closes the connection after a request with an end that is not certain.
func framed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(*conn); ok && c.framing.ambiguous(r) {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}
