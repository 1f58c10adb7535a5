// Package pages answers: what does a person see who signs in? It has the pages and all
// their texts, in English and German. It decides nothing: who calls it says what is true.
//
// The pages work without script, with a keyboard and a screen reader, and nothing in them
// comes from elsewhere. They may not be framed, and nobody is told by a Referer where
// they were. What a client says of itself is text in them, never markup.
package pages

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"html/template"
	"net/http"
	"strconv"
)

// Page is one page: what it is about, and what is known.
type Page struct {
	Status   int // zero: 200
	Language Language
	Request  string // the id of the request, for the operator; "": none

	// Exactly one of these.
	Choice  *Choice
	Consent *Consent
	Move    *Move
	Problem Problem

	// Of a Problem: as whom the person is signed in, "" if that is not known; and the
	// address where the program waits for an answer, "" if there is none. A problem that
	// a client has caused does not send the browser there by itself: anybody may register
	// a client, and this gateway would lead people wherever that client likes.
	// https://www.rfc-editor.org/rfc/rfc9700#section-4.11.2
	Person, Back string
}

// Choice lets a person choose where to sign in.
type Choice struct{ Providers []Option }

// Option is a place to sign in.
type Option struct {
	Name string
	Href string // begins with /
}

// Consent asks whether a program may act for a person.
type Consent struct {
	Client   string // what it calls itself; "": nothing
	Host     string // of the document that describes it; "": there is none
	Redirect string // the host that the answer goes to
	Local    bool   // the answer goes to a program on this machine
	// the document names no server that answers go to, so that any program may use it
	AnyProgram bool
	Person     string
	Tenants    []string // at least one; if there are several, the person chooses
	Scopes     []string
	All        bool   // all scopes of the person, now and later
	Action     string // where the form goes
	ID, Proof  string // that come back with the form
}

// Move sends the browser to a program.
type Move struct {
	To     string // an address that was checked
	Denied bool
}

// style is the style of all pages. It adapts to narrow screens and large text, and to a
// dark scheme.
const style = `:root{color-scheme:light dark}body{font:1rem/1.5 system-ui,sans-serif;max-width:36rem;margin:2rem auto;
padding:0 1rem;overflow-wrap:anywhere}h1{font-size:1.4rem}dt{font-weight:600;margin-top:.6rem}dd{margin:0}
button,a.button{display:inline-block;font:inherit;padding:.6rem 1.2rem;margin:.6rem .6rem 0 0;border:2px solid #1a56a8;
border-radius:.4rem;text-decoration:none;cursor:pointer;background:#1a56a8;color:#fff}button.second{background:none;
color:inherit}button:focus-visible,a:focus-visible,input:focus-visible{outline:3px solid #b25000;outline-offset:2px}
.warning{border-left:4px solid #b25000;padding-left:.8rem}fieldset{border:1px solid #767676;margin-top:1rem}
label{display:block;padding:.3rem 0}footer{margin-top:2rem;font-size:.9rem}`

// policy is the content security policy of all pages: nothing but the style, and forms
// that go to this gateway. Browsers hold all hops after a form against form-action, so
// that the answer to a form is a page which moves on, and no redirect.
var policy = func() string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
}()

// page is what the templates are given.
type page struct {
	Page
	wording

	Title       string
	Style       template.CSS
	Refresh     string       // where the browser goes by itself, as a meta element wants it; "": nowhere
	To          template.URL // of Move, or Back
	Explanation explanation  // of Problem
}

// Write writes the page as the answer.
func (p Page) Write(w http.ResponseWriter) {
	p.Language = cmp.Or(p.Language, English)
	data := page{
		Page: p, wording: texts[p.Language], Style: style,
		To: template.URL(p.Back), //nolint:gosec // the address was checked: it runs nothing
	}
	switch {
	case p.Choice != nil:
		data.Title = data.ChooseTitle
	case p.Consent != nil:
		data.Title = data.ConsentTitle
	case p.Move != nil:
		data.Title = data.MoveTitle
		if p.Move.Denied {
			data.Title = data.DeniedTitle
		}
		data.To = template.URL(p.Move.To) //nolint:gosec // as Back
		data.Refresh = "0; url=" + p.Move.To
	default:
		data.Explanation = data.Problems[p.Problem]
		data.Title = data.Explanation.Title
	}
	var out bytes.Buffer
	if err := layout.Execute(&out, data); err != nil {
		panic("pages: a template that does not fit: " + err.Error())
	}
	SetHeader(w.Header())
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Language", string(data.Language))
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("Vary", "Accept-Language, Cookie")
	h.Set("Content-Length", strconv.Itoa(out.Len()))
	w.WriteHeader(cmp.Or(p.Status, http.StatusOK))
	_, _ = w.Write(out.Bytes()) // the browser is gone
}

// SetHeader sets what every answer to a browser has, redirects included.
func SetHeader(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
}
