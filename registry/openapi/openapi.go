// Package openapi makes tools of an HTTP API that an OpenAPI 3 document describes: one operation, one tool. It reads no
// file, follows no reference out of the document and believes nothing in it about where the API is; it knows neither
// tenants nor sessions.
package openapi

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/registry"
)

const (
	defaultTimeout = 30 * time.Second
	maxDocument    = 16 << 20 // bytes
)

// Config says which operations of which API to offer, and how to reach it.
type Config struct {
	Name     string // of the server in the config
	Document []byte // OpenAPI 3.0 or 3.1, as JSON or YAML
	// BaseURL is what the paths of the document begin at; http or https. The document's own servers mean nothing.
	BaseURL string
	// Include names operations by operationId or as "METHOD /path", both with * for any run of characters. Empty: those
	// that only read, which are the GETs. One that matches nothing is an error of Load.
	Include []string
	// Headers go with every request, credentials for example. No argument can set or change one of them.
	Headers map[string]string
	// OutputSchemas declares what the document says of answers as the tools' output schemas. An answer that breaks its
	// schema is then an error, although the API did what was asked, and documents are often wrong about answers: only for
	// those that are known to be right.
	OutputSchemas bool
	Client        *http.Client  // must follow no redirect
	Timeout       time.Duration // of one call; zero: 30 s
}

// Loaded is what became of the included operations, in the order of their paths.
type Loaded struct {
	Offers   []registry.Offer
	Refusals []registry.Refusal // operations that cannot be offered, by operationId or as "METHOD /path"
	Notes    []string           // for the operator: what offers have otherwise than the document
}

// Load makes offers of the included operations. The error is for a document, or a config, of which nothing can be used.
func Load(cfg Config) (loaded *Loaded, err error) {
	defer contain(&err)
	base, err := baseURL(cfg.BaseURL)
	if err != nil {
		return nil, err
	}
	if cfg.Client == nil || cfg.Client.CheckRedirect == nil {
		return nil, errors.New("needs an HTTP client that follows no redirect")
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = defaultTimeout
	}
	doc, err := parse(cfg.Document)
	if err != nil {
		return nil, err
	}
	all := doc.operations()
	if len(all) == 0 {
		return nil, errors.New("the document has no operations")
	}
	included, err := choose(all, cfg.Include)
	if err != nil {
		return nil, err
	}
	target := &target{
		server: cfg.Name, base: base, client: cfg.Client,
		header: make(http.Header, len(cfg.Headers)), secrets: secretsOf(cfg.Headers),
	}
	for name, value := range cfg.Headers {
		target.header.Set(name, value)
	}
	loaded = &Loaded{}
	for _, o := range included {
		offer, notes, err := newOffer(&cfg, doc, target, o)
		if err != nil {
			loaded.Refusals = append(loaded.Refusals, registry.Refusal{
				Server: cfg.Name, Kind: registry.KindTool, Item: o.label(), Reason: "operation", Err: err,
			})
			continue
		}
		loaded.Offers = append(loaded.Offers, offer)
		for _, note := range notes {
			loaded.Notes = append(loaded.Notes, fmt.Sprintf("operation %q: %s", o.label(), note))
		}
	}
	return loaded, nil
}

// contain makes an error of a panic of a library: a reload must survive whatever is in the file.
func contain(err *error) {
	if p := recover(); p != nil {
		*err = errors.New("it cannot be read")
	}
}

func baseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("base_url is not an address")
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, errors.New("base_url must begin with http:// or https:// and a host")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("base_url must have no user, query or fragment")
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	if !plainPath(path) {
		return nil, errors.New("base_url has a path with dot segments, empty segments or encoded characters")
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: path}, nil
}

// choose returns the operations that a pattern of include matches.
func choose(all []*operation, include []string) ([]*operation, error) {
	used := make([]bool, len(include))
	chosen := all[:0:0]
	for _, o := range all {
		wanted := len(include) == 0 && (o.method == http.MethodGet || o.method == anyMethod)
		for i, pattern := range include {
			if o.matches(pattern) {
				wanted, used[i] = true, true
			}
		}
		if wanted {
			chosen = append(chosen, o)
		}
	}
	if i := slices.Index(used, false); i >= 0 {
		known := make([]string, len(all))
		for j := range all {
			known[j] = all[j].label()
		}
		return nil, &IncludeError{Pattern: include[i], Known: known}
	}
	return chosen, nil
}

// IncludeError says which pattern of Include matches nothing.
type IncludeError struct {
	Pattern string
	Known   []string // what the document calls its operations
}

func (e *IncludeError) Error() string {
	return fmt.Sprintf("include: no operation of the document matches %q", e.Pattern)
}

// matches tells whether a pattern names the operation.
func (o *operation) matches(pattern string) bool {
	method, path, both := strings.Cut(pattern, " ")
	if both {
		return (o.method == anyMethod || registry.MatchName(strings.ToUpper(method), o.method)) &&
			registry.MatchName(strings.TrimSpace(path), o.path)
	}
	return registry.MatchName(pattern, o.id) && o.id != "" || pattern == "*"
}
