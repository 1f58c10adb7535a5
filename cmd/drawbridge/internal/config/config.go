// Package config answers the question what a config file says. It reads the config file
// and the files that it includes and names, checks everything that needs no network,
// warns of settings that work but may not be meant, and tells when a file has changed. It
// also reads the JSON files in which clients such as editors list their servers, and
// checks those servers by the same rules. It is the only package that reads environment
// variables for the config.
//
// It starts and connects nothing, and it does not know what becomes of a setting: the
// commands of package main build the gateway from the Config.
//
// How bytes become a checked Config; a name on the right is a file of this package:
//
//	bytes of the config file
//	   |  scan into tokens, refuse what is unused or too deep, parse     yaml, syntax
//	   v
//	tree of nodes
//	   |  each has its file, line and column; ${VAR} is replaced         node, environment
//	   |  join the trees of the included files to it                     include
//	   v
//	one tree, of which the tenants of included files are unread
//	   |  read the value of each key, by one table of keys; issuers last format
//	   v
//	Config, key by key
//	   |  checks that need several keys: is there data for sign_in?      checkTogether
//	   |  parse, read and check the tenants, file by file                part, tenants
//	   v
//	checked Config, or a RefusedError with every problem
//	   |  warn of what works and may not be meant                        warnings
//	   v
//	Config with Warnings
//
// A Loader does all this again for a reload, except for tenants that cannot have become
// others.
//
// No step stops at its first problem if the next step can still be done, so that an
// operator sees all problems at once and not one after each attempt.
//
// To read the package, begin at the top of this table. A file uses only what stands below
// it or on its line:
//
//	who calls         load; signers: for tokens alone; watch: has a file changed?
//	files of clients  clientfile, jsonc
//	the whole file    format: the keys at the top; warnings; records: the keys of audit
//	parts of it       tenants, issuers, redis, link, signin
//	  servers         servers, builtin; serverauth: what they are told of who calls
//	    parts of one  urls, rights, patterns, openapi, pairs, network, data
//	the tree          include, part, yaml, syntax
//	one value         acknowledge, values: how each kind is read; reader: what is wrong;
//	                  memory: what was so in the config before
//	what there is     config, files, node, codes, problem, environment;
//	                  acknowledged: what is acknowledged in vain
package config

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/auth/signin"
	"github.com/drawbridge-mcp/drawbridge/auth/signin/clients"
	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/registry/builtin"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/process"
)

// Config is everything that a config file says, checked, with the documented defaults in
// place. The comment of each field names the key of the file that sets the field. A
// Config does not change once it is in use, so any goroutine may read it. Only the
// commands that complete a Default change one, before anybody else sees it.
type Config struct {
	File     string // that was loaded, as the operator wrote its name; "" for a Default
	Included int    // how many other files the config was joined from
	// of the contents of all its files, those of keys included: 8 hexadecimal digits; ""
	// for a Default
	Digest string

	Listen   string // listen: host:port for clients; the host is an IP address or localhost
	Operator string // operator: host:port for the operator's page and the metrics
	// public_url: what clients type, without /mcp and without a slash at the end; "": see
	// PublicAddress
	PublicURL string

	// allowed_origins: of pages in browsers that may call, beside the gateway's own
	AllowedOrigins []string
	AllowedHosts   []string // allowed_hosts, beside those that follow from listen and public_url
	// trusted_proxies, whose word on the client's address is taken; none without
	TrustedProxies []netip.Prefix
	LegacySSE      bool // revisions.legacy_sse: whether HTTP+SSE of 2024-11-05 is served to clients

	Issuers []Issuer               // issuers, at least one, in the order of the files
	Tenants []gateway.TenantConfig // tenants, at least one, in the order of the files
	Servers []Server               // servers, in the order of the files

	Logins       []Login              // sign_in of issuers, and github, in the order of the files
	Clients      []clients.Fixed      // clients, which need not register themselves
	Registration clients.Registration // registration
	// spent_tokens: for how long a spent refresh token is answered; zero: the default
	SpentTokens time.Duration
	// advertise: issuers, and SignInKeyword, that the metadata of /mcp names; nil: what
	// follows
	Advertise []string
	// scopes_supported: what metadata says of scopes; nil: those of the rules
	ScopesSupported []string

	// key_sets_dir: where the last key set of each issuer is kept; "": in Redis, if there
	// is that
	KeySetsDir string

	Data       Data // data: where it is kept what outlives a restart; without, nothing is
	AccessKeys bool // access_keys: whether access keys are taken

	Replicas  int          // replicas: processes that serve the same tenants at most; zero: 1
	Redis     Redis        // redis
	Link      Link         // link
	Sessions  Sessions     // sessions
	Audit     audit.Config // audit: File, Always and Drop alone; the functions are for whoever opens the log
	Records   Records      // audit: what is on record
	LogLevel  slog.Level   // log.level
	LogFormat string       // log.format: "json" or "text"
	// lists.page_size: items in one answer of a list; zero: the default of package
	// gateway
	PageSize int
	Limits   Limits // limits
	Card     Card   // card: what the gateway says of itself to everybody; without a name, nothing
	// extensions.pass: identifiers of extensions that are let through though nobody here
	// knows them
	PassedExtensions []string

	Sources Sources // the files that the config was read from, to be watched
	// that no acknowledge silences, in the order of the files; Judge has those of
	// patterns too
	Warnings []Warning

	patterns map[gateway.PatternPosition]awaited // about each pattern, with its text as written
	// The items of lists acknowledge that silence nothing so far. Whether one of no-match
	// is needed depends on what the servers offer, see Judge.
	idle       []*node
	positions  map[string]Problem  // where each server and issuer stands; keys as of Position
	releases   map[release]Problem // where each release stands, with its text as written
	largeBody  awaited             // the warning about the largest body
	muchMemory awaited             // the warning about limits.memory
}

// Records is what the file says under audit of the content of records.
type Records struct {
	Claims    []string           // claims: of tokens, by their paths
	Arguments []gateway.Recorded // arguments, in the order of the file
	Keys      [][]byte           // the content of key_file, the newest first; nil: no digests of arguments
	KeyFile   string             // key_file; "": none
}

// Card is what stands in server cards, as server.Card.
type Card struct {
	Name        string // card.name
	Title       string // card.title; "": none
	Description string // card.description
}

// Sessions is what the file says under sessions. Zero of a field stands for the default
// of package server or, of the events, of package session.
type Sessions struct {
	Idle   time.Duration // idle: a legacy session that nobody uses ends after it
	MaxAge time.Duration // max_age: every legacy session ends after it

	// the content of keys_file, the newest first; nil: keys that are made at the start,
	// or are in Data.Dir
	Keys     [][]byte
	KeysFile string // keys_file; "": none

	EventAge time.Duration // events.age: how long an event is kept
}

// Limits is what the file says under limits; it bounds the whole process. Zero of a field
// stands for the default of package server.
type Limits struct {
	MaxBody            int64 // max_body: bytes of one request
	MaxRequests        int   // max_requests: requests in work at once
	MaxStreams         int   // max_streams: event streams open at once
	MaxConnections     int   // max_connections: of clients, open at once
	AddressConnections int   // address_connections: of one address, unless trusted_proxies has it
	// memory: bytes that requests may hold together; zero: what the process may have
	// decides
	Memory int64
}

// Default returns a new config with the documented defaults of what a file may leave out.
// It has no issuers, tenants and servers, and its limits are zero: their defaults live in
// the packages that enforce them.
func Default() *Config {
	return &Config{
		Listen:    "127.0.0.1:8080",
		Redis:     Redis{Memory: DefaultRedisMemory},
		Link:      Link{Listen: ":0"},
		Operator:  "127.0.0.1:9090",
		LegacySSE: true, Registration: clients.RegistrationOn,
		LogLevel:  slog.LevelInfo,
		LogFormat: "json",
		patterns:  map[gateway.PatternPosition]awaited{},
		positions: map[string]Problem{},
		releases:  map[release]Problem{},
	}
}

// ReachedServers returns the servers that at least one tenant reaches. The others need
// not run.
func (c *Config) ReachedServers() []Server {
	reached := c.reached()
	return slices.DeleteFunc(slices.Clone(c.Servers), func(s Server) bool { return !reached[s.Name] })
}

// reached has the names of the servers that at least one tenant reaches.
func (c *Config) reached() map[string]bool {
	reached := map[string]bool{}
	for i := range c.Tenants {
		for _, name := range c.Tenants[i].Servers {
			reached[name] = true
		}
	}
	return reached
}

// Position returns where a server, an issuer or a login stands in the files, as a Problem
// without a text. The name is "server NAME", "login NAME", an EntryName, or the key of a
// part of which there is one. For a name that the config does not have, the result is the
// zero Problem.
func (c *Config) Position(name string) Problem { return c.positions[name] }

// EntryName is the name for Position of one of Issuers, of which several may have one
// name.
func EntryName(i int) string { return fmt.Sprintf("entry %d", i) }

// TenantIDs returns the ids of the tenants, in the order of the files.
func (c *Config) TenantIDs() []string {
	ids := make([]string, len(c.Tenants))
	for i := range c.Tenants {
		ids[i] = c.Tenants[i].ID
	}
	return ids
}

// Speakers returns pairs of an issuer and a tenant that its tokens, or its people, may be
// for. The gateway itself is one, for access keys and for clients with tokens of their
// own.
func (c *Config) Speakers() [][2]string {
	return c.speakers(c.TenantIDs())
}

func (c *Config) speakers(tenants []string) (all [][2]string) {
	seen := map[[2]string]bool{}
	add := func(issuer string, tenants ...string) {
		for _, tenant := range slices.Sorted(slices.Values(tenants)) {
			if pair := [2]string{issuer, tenant}; !seen[pair] && tenant != "" {
				seen[pair] = true
				all = append(all, pair)
			}
		}
	}
	for i := range c.Issuers {
		add(c.Issuers[i].Issuer.Issuer, c.Issuers[i].AllTenants()...)
	}
	for i := range c.Logins {
		add(c.Logins[i].Issuer.Issuer, c.Logins[i].AllTenants()...)
	}
	for i := range c.Clients {
		add(c.PublicAddress(), c.Clients[i].Tenant)
	}
	if c.AccessKeys {
		add(c.PublicAddress(), tenants...)
	}
	return all
}

// PublicAddress is the beginning of the address that clients type, without /mcp:
// PublicURL or, without that, Listen.
func (c *Config) PublicAddress() string {
	return cmp.Or(c.PublicURL, "http://"+c.Listen)
}

// Issuer is one issuer whose tokens are accepted: what verifying its tokens takes, and
// from where its keys may be fetched. Its audiences are never empty. Where the file
// leaves them out, they follow from the address of the gateway, so that a token made for
// another service is not accepted here.
type Issuer struct {
	auth.Issuer
	PrivateAddresses bool // private_addresses: the key set may be fetched from a loopback or private address
	// Discover says that JWKSURL is the provider's document, which has the address of the
	// key set.
	Discover bool
}

// DefaultRedisMemory is how many bytes replicas keep in Redis if the file does not say.
const DefaultRedisMemory = 256 << 20

// Data is where it is kept what outlives a restart. At most one of its fields is set.
type Data struct {
	Dir          string // data.dir: a folder of this machine, for a gateway of one replica
	PostgresFile string // data.postgres_file: has the address of a PostgreSQL server
}

// Exists tells whether anything is kept.
func (d Data) Exists() bool { return d != Data{} }

// Login is a provider where people sign in with a browser: sign_in of an issuer, or
// github. The embedded Issuer says what its claims mean; it has keys only of an issuer,
// which is in Config.Issuers, too.
type Login struct {
	auth.Issuer

	GitHub           bool      // the provider is GitHub
	PrivateAddresses bool      // as that of the issuer
	Name             string    // name: in addresses, as that of the callback
	Title            string    // title: for people who choose; "": the name
	ClientID         string    // client_id
	Secret           string    // the content of client_secret_file; "": there is a key
	Key              *auth.Key // of client_key_file; nil: there is a secret
	Scopes           []string  // scopes: asked for at the provider; never empty

	// Toy is a provider in this process; nil, as with any config file: it is elsewhere.
	Toy signin.Provider
}

// ClaimsRead returns the names of the claims by which people are told apart, sorted.
func (l *Login) ClaimsRead() []string {
	claims := slices.Concat(l.ScopeClaims, []string{l.TenantClaim, l.SubjectClaim, l.NameClaim},
		slices.Collect(maps.Keys(l.Require)))
	for i, path := range claims {
		claims[i] = auth.TopClaim(path)
	}
	slices.Sort(claims)
	return slices.DeleteFunc(slices.Compact(claims), func(name string) bool { return name == "" })
}

// SignsIn tells whether the gateway gives tokens of its own to clients.
func (c *Config) SignsIn() bool { return len(c.Logins) > 0 || len(c.Clients) > 0 }

// Redis is what the file says under redis. Without Addresses there is none, and one
// replica.
type Redis struct {
	Addresses []string // url: host:port; of sentinels if Master is set, of nodes of a cluster if Cluster is
	Master    string   // url: what the sentinels call the master; "": there are none
	Cluster   bool     // url: the addresses are those of a cluster
	Secure    bool     // url: with TLS
	Database  int      // url: the number at the end

	User                 string // user
	PasswordFile         string // password_file; "": no password
	SentinelUser         string // sentinel_user
	SentinelPasswordFile string // sentinel_password_file; "": no password

	// Patience is how long a call waits for its answer; zero: 500 ms.
	Patience time.Duration // patience
	// Memory is how many bytes all replicas together may keep there.
	Memory int64 // memory

	CAFile            string // ca_file; "": the authorities of the system
	CertificateFile   string // certificate_file, of the gateway; "": none
	CertificateSecret string // certificate_key_file
	Authorities       []byte // digest of what CAFile holds, which is read once: another needs a restart
}

// Link is what the file says under link: where the other replicas reach this one.
type Link struct {
	// Listen is host:port. Without a host it is the address of the connection to Redis;
	// the port 0 is any that is free.
	Listen string // listen
	// Address is what others are told in place of that, with or without a port; "": they
	// are told Listen.
	Address string // address
}

// API is what only a server that is an HTTP API has.
type API struct {
	Document      []byte   // the content of the file openapi; nil: the server is no HTTP API
	BaseURL       string   // base_url: what the paths of the document begin at
	Include       []string // include: operations by name or pattern; empty: those that only read
	OutputSchemas bool     // output_schemas: what the document says of answers is declared and checked

	Files  map[string]File // those to which the document refers, by their path from its folder
	folder string          // of the document

	// Notes tell the operator what is left out: operations that a pattern includes and
	// that cannot be offered, and parts of operations that are offered without them.
	Notes []string
}

// File is the content of a file, or why it cannot be read.
type File struct {
	Content []byte
	Problem string // "": it was read
}

// file returns one of a.Files. None is read from the disk here: what runs is what was
// checked.
func (a *API) file(name string) ([]byte, error) {
	one, known := a.Files[name]
	if !known {
		one.Problem = "it was not read with the config"
	}
	if one.Problem != "" {
		return nil, errors.New(one.Problem)
	}
	return one.Content, nil
}

// Server is one server of the config. Exactly one of Builtin, Command, URL and
// API.Document is set, and says what the server is: built-in tools, a program, an MCP
// server at an address, or the document of an HTTP API. The keys of the file have the
// names of the fields unless a comment says otherwise. A Server is plain data, without
// functions or connections, so that a reload can compare it with the one that runs.
type Server struct {
	Name string // the key of the server
	// before the names of what it offers; the name unless the file says otherwise, "":
	// the names are unchanged
	Prefix string

	Builtin      []string // names of built-in tools
	CSVRoot      string   // builtin.analyze_csv.csv_root: the directory below which it reads
	WeatherURL   string   // builtin.get_weather.weather_url: where it asks for forecasts
	GeocodingURL string   // builtin.get_weather.geocoding_url: where it asks for places

	Databases []builtin.Database // builtin.query_database.databases, the first by default

	Command     string            // the program, as a name in PATH or with a path
	Args        []string          // of the program
	Dir         string            // cwd: where the program runs; "": where the gateway runs
	Env         map[string]string // of the program, beside the few variables that every program gets
	Rights      process.Rights    // user and limits: which of the gateway's the program has
	MaxChildren int               // processes at once; zero: the default of package upstream
	// how long the program may take until it answers; a minute unless the file says
	// otherwise
	StartTimeout time.Duration

	URL string // the address
	// type: "http", "streamable-http" or "sse", as in upstream.Config.Type; "": what is
	// found
	Transport string
	Headers   map[string]string // sent with every request, to an address or an API
	Auth      Auth              // auth: what requests carry beside that, and on whose behalf

	Revision string // that the server is spoken to in, as in upstream.Config.Revision; "": what is found
	Shared   bool   // one session may serve every tenant and user
	OneUser  bool   // one user is behind all calls; dev says so, and no key does

	API API

	// how long lists keep what a lost server offered; 30 s unless the file says otherwise
	Grace time.Duration
	// of one call; zero: the default of the package that makes the call
	Timeout time.Duration
	// patterns of its own tool names that do no harm when they are called twice
	Idempotent       []string
	ToolTimeouts     map[string]time.Duration // of one call, by its own tool names
	PrivateAddresses bool                     // it may be on a loopback or private address

	// digests of definitions that are let in although they hold hidden text, as of
	// registry.Admit, or although the server is Pinned
	Released     []string
	IdleReleases bool // acknowledge unused-release: what Released names, if any, need not be there
	Pinned       bool // tools and prompts that Released does not name are left out
}

// IsElsewhere tells whether the server is a program or an address. What such a server
// offers shows only when it is connected to, whereas built-in tools and HTTP APIs are
// known from the config.
func (s Server) IsElsewhere() bool { return s.Command != "" || s.URL != "" }

// release is one digest in released of a server.
type release struct{ server, digest string }

// awaited is where a warning belongs that follows from what is not known here: the memory
// of the machine, or what servers offer.
type awaited struct {
	Problem

	acknowledged []*node // the items of lists acknowledge that silence it
}

// Auth is what requests to a server carry beside its headers, and on whose behalf.
type Auth struct {
	credential.Spec // auth of the server

	Tenants  map[string]credential.Spec // auth.SERVER of tenants, in place of that
	Issuer   string                     // the gateway's address, as identities name it; "" without any
	OwnLists bool                       // lists are read for each user
}

// IsZero tells whether requests carry nothing.
func (a Auth) IsZero() bool { return a.Spec.IsZero() && len(a.Tenants) == 0 }

// specs returns all ways in which requests get what they carry.
func (a Auth) specs() []credential.Spec {
	return append(slices.Collect(maps.Values(a.Tenants)), a.Spec)
}

// ExchangesTokens tells whether a server is given tokens in exchange for those of
// callers.
func (c *Config) ExchangesTokens() bool {
	return slices.ContainsFunc(c.Servers, func(s Server) bool {
		return slices.ContainsFunc(s.Auth.specs(),
			func(spec credential.Spec) bool { return spec.Exchange != nil })
	})
}

// IdentityClaims returns the names of the claims of callers that servers are told, each
// once.
func (c *Config) IdentityClaims() (names []string) {
	for i := range c.Servers {
		for _, spec := range c.Servers[i].Auth.specs() {
			if spec.Identity != nil {
				names = append(names, spec.Identity.Claims...)
			}
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

// ListsForUsers tells whether a server lists for each user, so that it alone decides what
// a person is listed.
func (c *Config) ListsForUsers(server string) bool {
	return slices.ContainsFunc(c.Servers, func(s Server) bool { return s.Name == server && s.Auth.OwnLists })
}
