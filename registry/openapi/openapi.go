// Package openapi turns an HTTP API that an OpenAPI 3 document describes into tools: one
// operation becomes one tool. It answers which tools a document makes, and serves their
// calls. It follows references to files through Config.Files and to nowhere else, and
// believes nothing in a document about where the API is: the operator says that in the
// config. It knows neither tenants nor sessions.
//
// Two sides are not trusted. A document may be hostile or simply wrong, so it is bounded,
// and a fault in it costs only the operations that use the faulty part. And a model
// chooses arguments, so no argument may change the host, the operation, another parameter
// or a header of the operator.
//
// Once, when the config is loaded:
//
//	Load ──parse──▶ document ──operations, choose──▶ operation ──maker──▶ tool ──▶ registry.Offer
//	                                                              │
//	                         arguments, body, schemas, then as small as the catalogue wants it
//
// For every call:
//
//	caller.run ──▶ request (address, headers, content) ──▶ HTTP client ──▶ answer ──▶ result
//
// Reading order: this file, document.go (the document) with reference.go and files.go,
// offer.go (from an operation to a tool) with name.go, argument.go, body.go, schema.go
// and size.go, then request.go with integer.go and value.go, and answer.go. All read
// text.go.
package openapi

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
)

const defaultTimeout = 30 * time.Second

// Config says which operations of which API to offer, and how to reach the API.
type Config struct {
	Name     string // the server's name in the config
	Document []byte // OpenAPI 3.0 or 3.1, as JSON or YAML
	// Files reads a file below the document's folder to which the document refers, by its
	// path from there with slashes. It must let no path lead elsewhere, by links for
	// example, and bound what it reads. nil: references to files are refused.
	Files func(name string) ([]byte, error)
	// BaseURL is the address to which the paths of operations are appended; http or
	// https. The servers that the document names are ignored: otherwise whoever writes
	// the document could direct the operator's credentials to any host.
	BaseURL string
	// Include names operations by operationId or as "METHOD /path", in which * stands for
	// any number of characters. A pattern that matches no operation is an error of Load.
	// When Include is empty, the GET operations are included, because they only read.
	Include []string
	// Headers are sent with every request, for example credentials. No argument can set
	// or change one of them.
	Headers map[string]string
	// Credential is what requests carry beside Headers, by who calls. No argument can set
	// one of its headers either. nil: nothing.
	Credential *credential.Source
	// OutputSchemas makes what the document says about answers the output schemas of the
	// tools. The gateway then turns an answer that breaks its schema into an error,
	// although the API did what was asked. Documents are often wrong about answers, so it
	// should be set only for those that are known to be right.
	OutputSchemas bool
	// Client is no http.Client, so that no redirect carries credentials to an address
	// that nobody configured.
	Client  http.RoundTripper
	Timeout time.Duration // limit of one call; zero: 30 s
	// Turns is where large answers wait to be made results. nil: they are made at once.
	Turns *fairqueue.Queue
	// Released are digests of tools with hidden text in strings that are never edited.
	// The operator lets these in nevertheless; see registry.Admit. The digest is that of
	// the definition which Load makes, before it is cleaned.
	Released []string
}

// Loaded is what became of the included operations, in the order of their paths.
type Loaded struct {
	Offers   []registry.Offer
	Refusals []registry.Refusal // operations that cannot be tools, named by operationId or as "METHOD /path"
	Notes    []string           // for the operator: in what the tools differ from the document
	Idle     []string           // digests of Config.Released that release nothing
}

// Load makes tools of the included operations. An operation that cannot become a tool is
// refused alone. The error, which may be an *IncludeError, is for a document or config of
// which nothing can be used. Load starts no goroutine and makes no request; the offers
// keep what they need of the document.
func Load(cfg Config) (loaded *Loaded, err error) {
	defer contain(&err)
	base, err := baseURL(cfg.BaseURL)
	if err != nil {
		return nil, err
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = defaultTimeout
	}
	doc, err := parse(cfg.Document, cfg.Files)
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
		turns: cfg.Turns, credential: cfg.Credential, header: make(http.Header, len(cfg.Headers)),
		secrets: secretsOf(cfg.Headers), own: append(cfg.Credential.Names(),
			slices.Collect(maps.Keys(cfg.Headers))...),
	}
	for name, value := range cfg.Headers {
		target.header.Set(name, value)
	}
	loaded = &Loaded{Idle: slices.Clone(cfg.Released)}
	for _, o := range included {
		made, err := newOffer(&cfg, doc, target, o)
		if err != nil {
			loaded.Refusals = append(loaded.Refusals, refusal(&cfg, o, err))
			continue
		}
		loaded.Offers = append(loaded.Offers, made.offer)
		loaded.Idle = slices.DeleteFunc(loaded.Idle,
			func(digest string) bool { return digest == made.released })
		for _, note := range made.notes {
			loaded.Notes = append(loaded.Notes, fmt.Sprintf("operation %q: %s", o.label(), note))
		}
	}
	return loaded, nil
}

// refusal notes that an operation cannot become a tool, or that its tool is quarantined.
func refusal(cfg *Config, o *operation, err error) registry.Refusal {
	if _, ok := errors.AsType[*registry.QuarantineError](err); ok {
		return registry.Quarantined(cfg.Name, registry.KindTool, o.label(), err)
	}
	return registry.Refusal{
		Server: cfg.Name, Kind: registry.KindTool, Item: o.label(), Reason: "operation",
		Err: err,
	}
}

// contain turns a panic of a library, such as that for YAML, into an error: a running
// gateway must survive a reload, whatever is in the file. It must be deferred directly,
// since recover works nowhere else.
func contain(err *error) {
	if p := recover(); p != nil {
		*err = errors.New("it cannot be read")
	}
}

// baseURL returns the parsed address without a slash at its end.
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
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: path, RawPath: path}, nil
}

// choose returns the operations that a pattern of include matches, or the GETs when there
// are no patterns. A path whose methods nobody knows is chosen with the GETs, so that the
// operator learns that it was refused. The error is an *IncludeError.
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

// IncludeError says which pattern of Include matches no operation.
type IncludeError struct {
	Pattern string
	// all operations of the document, by operationId or as "METHOD /path", for a hint at
	// the nearest
	Known []string
}

func (e *IncludeError) Error() string {
	return fmt.Sprintf("include: no operation of the document matches %q", e.Pattern)
}

// matches tells whether a pattern of Include names the operation. An operationId may have
// spaces, too. A path whose methods nobody knows matches any method.
func (o *operation) matches(pattern string) bool {
	if o.id != "" && registry.MatchName(pattern, o.id) || pattern == "*" {
		return true
	}
	method, path, both := strings.Cut(pattern, " ")
	return both && (o.method == anyMethod || registry.MatchName(strings.ToUpper(method), o.method)) &&
		registry.MatchName(strings.TrimSpace(path), o.path)
}
