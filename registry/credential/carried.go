package credential

import "net/http"

// Carried has send send a request with what headers returns. If the server refuses that,
// and there is something else by now, the request is sent once more: a server that
// answers so has not done what was asked. What the server says of where a credential
// could be had is not read.
//
// with is what the request carried at last, and sent is as send has told. An error is one
// of headers or of send, and response is nil if that of send is.
func Carried(headers func() (*Headers, error),
	send func(*Headers) (response *http.Response, sent bool, err error),
) (response *http.Response, with *Headers, sent bool, err error) {
	for again := false; ; again = true {
		if with, err = headers(); err != nil {
			return nil, nil, false, err
		}
		response, sent, err = send(with)
		if response == nil || err != nil || again || response.StatusCode != http.StatusUnauthorized ||
			!with.Refused() {
			return response, with, sent, err
		}
		_ = response.Body.Close() // nothing depends on its success
	}
}
