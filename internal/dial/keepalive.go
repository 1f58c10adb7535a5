package dial

import (
	"bytes"
	"errors"
	"strconv"
	"time"
)

// idleTimeout is how long an idle connection is kept at most.
const idleTimeout = 90 * time.Second

// closeMargin is how long before its server may close an idle connection that is no
// longer used. The server counts from its answer, which it sent before that was read
// here, and the next request must reach it and be read there in time.
const closeMargin = time.Second

// idleTime returns for how long a connection may be idle, by the value of a Keep-Alive
// header; otherwise if that names no time. Node.js names five seconds in each response.
//
// A server that closes an idle connection while a request is on its way never reads that
// request. Here this looks like a request that had its effect and whose answer was lost,
// so it must not be sent again. The look before it (step.go) sees only a close that has
// arrived. So a connection is not used again in the last second of the time that its
// server names; if that is one second, in its last half. No server prolongs idleTimeout.
// https://www.rfc-editor.org/rfc/rfc2068#section-19.7.1.1
func idleTime(keepAlive []byte, otherwise time.Duration) time.Duration {
	timeout, ok := parseKeepAlive(keepAlive)
	if !ok {
		return otherwise
	}
	return min(idleTimeout, timeout-min(closeMargin, timeout/2))
}

// parseKeepAlive returns the timeout that a Keep-Alive header names, the shortest if
// there are several. It overlooks other parameters, and a timeout that is no plain number
// of seconds. Long ones it cuts to twice idleTimeout, so that no number is too large.
func parseKeepAlive(value []byte) (timeout time.Duration, ok bool) {
	const most = uint64(2 * idleTimeout / time.Second)
	for parameter := range bytes.SplitSeq(value, []byte(",")) {
		name, digits, _ := bytes.Cut(bytes.Trim(parameter, " \t"), []byte("="))
		if !bytes.EqualFold(name, []byte("timeout")) {
			continue
		}
		seconds, err := strconv.ParseUint(string(digits), 10, 64) // the largest number if it is too large
		named := time.Duration(min(seconds, most)) * time.Second
		if !errors.Is(err, strconv.ErrSyntax) && (!ok || named < timeout) {
			timeout, ok = named, true
		}
	}
	return timeout, ok
}
