package sanitize

import (
	"bytes"
	"unicode/utf8"
)

// maxUserinfo is how much of an address may stand before its host, in bytes.
const maxUserinfo = 256

// urlPassword returns the extent of the rule for passwords in URLs, such as
// postgres://user:password@host. Only the password goes. colon and at are how these signs
// are written there: in a URL within a query they are escaped.
// https://www.rfc-editor.org/rfc/rfc3986#section-3.2.1
func urlPassword(colon, at string) func(text []byte, begin, body int) (start, end int) {
	return func(text []byte, _, body int) (start, end int) {
		authority := text[body : body+authorityText.span(text[body:], maxUserinfo)]
		host := bytes.LastIndex(authority, []byte(at))
		user := bytes.Index(authority, []byte(colon))
		if user < 0 || host < user || !hostBegins(authority[host+len(at):]) {
			return 0, 0
		}
		start, end = body+user+len(colon), body+host
		if start > end || !password(text[start:end], authority[:user]) {
			return 0, 0
		}
		return start, end
	}
}

// authorityText has the bytes that may belong to the authority of a URL: visible ASCII
// without the signs that end it, or that quote it.
var authorityText = letters(upper, lower, digits, "-._~%!$&()*+,;=:@[]{}^")

// userinfo tells whether the URL whose authority begins with text may have a user and
// password before the host.
func userinfo(text []byte) bool {
	authority := text[:authorityText.span(text, maxUserinfo)]
	return bytes.IndexByte(authority, '@') >= 0 || bytes.Contains(authority, []byte("%40"))
}

func hostBegins(text []byte) bool {
	return len(text) > 0 && (alphanumeric[text[0]] || text[0] == '[')
}

// password tells whether text is certain to be a password and no placeholder, of which
// documentation is full. A template, few different bytes, the name of the user, and words
// that only say what should stand there are none. Neither is a number, which may be the
// port of an address that a sign follows.
func password(text, user []byte) bool {
	const least, leastDifferent = 6, 4
	if len(text) < least || bytes.ContainsAny(text, "{}[]$*") || bytes.Contains(text, []byte("...")) ||
		bytes.EqualFold(text, user) || distinct(text) < leastDifferent {
		return false
	}
	if n := decimal.span(text, len(text)); n == len(text) || n > 0 &&
		bytes.IndexByte([]byte("),;"), text[n]) >= 0 {
		return false
	}
	return !onlyWords(text)
}

// onlyWords tells whether text, without what is no letter, is a row of words that stand
// where a password should.
func onlyWords(text []byte) bool {
	rest := bytes.Map(func(r rune) rune {
		if r >= utf8.RuneSelf || !alphabetic[r] {
			return -1
		}
		return r | 0x20
	}, text)
	for len(rest) > 0 {
		word := wordAt(rest)
		if word == "" {
			return false
		}
		rest = rest[len(word):]
	}
	return true
}

// wordAt returns the word with which text begins, the longest one in the list; empty when
// none does.
func wordAt(text []byte) (longest string) {
	for _, word := range placeholderWords {
		if len(word) > len(longest) && bytes.HasPrefix(text, []byte(word)) {
			longest = word
		}
	}
	return longest
}

// placeholderWords stand for a password in documentation, alone or in a row:
// my-secret-password, db_pass, changeme123.
var placeholderWords = []string{
	"access", "admin", "amqp", "app", "bar", "change", "changeme", "db", "default", "demo", "dev", "dummy",
	"empty", "example",
	"fake", "foo", "goes", "guest", "here", "hidden", "host", "insert", "it", "key", "local", "login",
	"masked", "me",
	"minio", "mongo", "my", "mysql", "name", "none", "null", "omitted", "or", "pass", "passphrase", "passwd",
	"password",
	"placeholder", "postgres", "postgresql", "pw", "pwd", "rabbitmq", "redacted", "redis", "removed",
	"replace", "root",
	"s", "sample", "secret", "some", "super", "supersecret", "test", "the", "token", "user", "username",
	"value", "with",
	"x", "your", "z",
}
