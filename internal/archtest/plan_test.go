package archtest

const module = "github.com/drawbridge-mcp/drawbridge"

// layers lists the packages, the highest layer first. A package imports only from layers
// below its own: never sideways, never up. Test files may import what they like.
func layers() [][]string {
	return [][]string{
		{"cmd/drawbridge"}, // parts wired, lifecycle, the operator's commands
		{
			"cmd/drawbridge/internal/config", // what a config file says: read, checked, warned of
			"server",                         // front door: HTTP, transports, eras of clients
		},
		{
			"server/legacy", // clients of the legacy era
			"server/modern", // clients of the modern era
		},
		{
			"server/sessions/directory", // sessions of older eras: opened, found, ended, and who leads them
		},
		{
			"server/sessions", // the state of sessions of older eras
		},
		{
			"server/forward", // requests that another replica answers
			"server/notices", // what clients are told without asking
			"server/streams", // event streams that are open to clients
		},
		{
			"server/exchange", // one HTTP request of a client: read, refused, answered, logged
			"server/lowering", // what older revisions make of results and items
		},
		{
			"internal/gateway",  // the desk: one request, one path
			"registry/builtin",  // tools that run here
			"registry/openapi",  // tools of HTTP APIs
			"registry/upstream", // back door: other MCP servers
		},
		{
			"registry",               // the shared catalogue
			"registry/upstream/wire", // transports of other MCP servers, which know no catalogue
			"auth/provider",          // identity providers: who is this person?
		},
		{
			"registry/schema",            // JSON Schemas of strangers: compiled, bounded, checked, explained
			"internal/sanitize",          // output cleaning
			"internal/database/sqlite",   // queries on files of SQLite
			"internal/database/postgres", // queries on PostgreSQL servers
			"registry/upstream/seats",    // who gets which session of a server, and who waits
			"server/once",                // which requests were made before, and what their answers were
			"server/ticket",              // what the id of a session says
			"server/primary",             // which replica leads a session
			"auth/accesskey",             // long-lived keys of machines
			"auth/signin",                // people sign in, and clients get tokens
			"registry/credential",        // what requests to servers carry, and on whose behalf
		},
		{
			"internal/mcp",        // the words: messages, revisions, codes
			"auth/signin/clients", // which program asks for tokens, and where the answers go
			"auth/signin/pages",   // what a person sees who signs in
			"auth", "ratelimit", "metrics", "internal/audit", "internal/sse",
			"internal/database", // what a query may ask, and what comes of it
			"server/eventlog",   // what was sent on streams of sessions, for whoever connects again
			"internal/allot",    // how many of a tenant's slots this replica may give out
			"server/admin",      // the operator's page
		},
		{
			"internal/replica",        // which other processes serve the same tenants, and how messages reach them
			"internal/store/sqlite",   // what outlives a restart, in a file
			"internal/store/postgres", // the same at a server, for several replicas
		},
		{
			"internal/redis",      // what replicas share, and how to reach it
			"internal/link",       // how one replica reaches another
			"internal/store",      // what outlives a restart
			"internal/pgdial",     // how to reach PostgreSQL servers
			"internal/sqlitefile", // how files of SQLite are opened
		},
		{"internal/fairqueue"}, // whose turn it is to keep a processor or a connection busy
		{
			"internal/strictjson", "internal/seal", "internal/share", "internal/lifetime", "internal/cgroup",
			"internal/batch", "internal/connlimit", "internal/dial", "internal/evict", "internal/fetch",
			"internal/pace", "internal/tlsfile", "registry/upstream/process", "docs",
		},
	}
}

// labLayers lists the packages of the labs, by the same rule. They are a module of their
// own, and may import all else.
func labLayers() [][]string {
	return [][]string{
		// a measure each, behind its targets of the Makefile
		{"bench", "chaos", "fair", "scoreboard", "siege", "survey"},
		{
			"quiet",       // the tenant that they must take nothing of
			"raid",        // attacks, one by one
			"chaos/crowd", // clients of all revisions that use a gateway as good ones do
		},
		{
			"world",    // a gateway and what it needs, as processes of this machine
			"upstream", // servers behind it
		},
		{
			"client", // clients that write their requests by hand
			"ledger", // what was asked, done and recorded, compared
			"page",   // Markdown, numbers and charts
		},
		{"must"}, // what a lab cannot go on without
	}
}

// door says which packages may import a library, by the beginning of its import path.
// Test files may import it anyway.
type door struct {
	library string
	open    []string // "*": every package
	why     string
}

// doors lists every library in use outside tests; one that is not here may be imported by
// nobody. Of the standard library it lists what is dangerous.
func doors() []door {
	return []door{
		{"github.com/go-chi/chi/v5", []string{"server"}, "routes are one page"},
		{"github.com/golang-jwt/jwt/v5", []string{"auth"}, "its gaps are closed there"},
		{"github.com/go-jose/go-jose/v4", []string{"auth"}, "it takes keys with private parts"},
		{"github.com/coreos/go-oidc/v3", []string{"auth/provider"}, "its answers have no bounds"},
		{"golang.org/x/oauth2", []string{"auth/provider"}, "its errors repeat what providers say"},
		{
			"golang.org/x/time/rate",
			[]string{"ratelimit", "internal/fairqueue", "registry/upstream"},
			"one way to count",
		},
		{"github.com/kaptinlin/jsonschema", []string{"registry/schema"}, "its defaults are unsafe"},
		{"github.com/go-json-experiment/json", []string{"internal/strictjson"}, "its API is experimental"},
		{
			"github.com/prometheus/client_golang",
			[]string{"metrics", "cmd/drawbridge"},
			"names and labels are one page",
		},
		{"github.com/oasdiff/yaml", []string{"registry/openapi"}, "documents of APIs may be YAML"},
		{"github.com/goccy/go-yaml", []string{"cmd/drawbridge/internal/config"}, "only the config is YAML"},
		{
			"github.com/redis/rueidis",
			[]string{"internal/redis"},
			"no call may wait longer than it is allowed to there",
		},
		{"code.dny.dev/ssrf", []string{"internal/dial"}, "one dialer"},
		{
			"golang.org/x/text",
			[]string{"internal/strictjson", "internal/sanitize"},
			"what text means is decided there",
		},
		{
			"github.com/ncruces/go-sqlite3",
			[]string{"internal/database/sqlite", "internal/sqlitefile", "internal/store/sqlite"},
			"it runs what strangers wrote in this process",
		},
		{
			"github.com/jackc/pgx/v5",
			[]string{"internal/database/postgres", "internal/pgdial", "internal/store/postgres"},
			"it takes settings from the environment, and several statements at once",
		},
		{"golang.org/x/sync", []string{"*"}, "harmless"},
		{
			"golang.org/x/sys",
			[]string{"registry/upstream/process", "cmd/drawbridge"},
			"what the kernel does to processes, and to a listener at its end, is asked for there",
		},

		{
			"net/http",
			[]string{
				"server", "server/exchange", "server/forward", "server/legacy", "server/modern",
				"server/streams", "server/admin", "auth", "registry/upstream", "registry/upstream/wire",
				"registry/credential",
				"registry/builtin", "registry/openapi", "internal/dial", "internal/connlimit", "internal/fetch",
				"internal/link", "internal/replica", "cmd/drawbridge", "metrics", "auth/provider",
				"auth/signin", "auth/signin/clients", "auth/signin/pages",
			},
			"the desk and the catalogue are free of transport",
		},
		{"html/template", []string{"auth/signin/pages"}, "what is markup is decided there"},
		{"net/http/httptest", nil, "for tests"},
		{"net/http/pprof", []string{"server/admin", "cmd/drawbridge"}, "it registers handlers when imported"},
		{"os/exec", []string{"registry/upstream/process"}, "only the operator's config starts programs"},
		{"testing", nil, "for tests"},
		{"unsafe", []string{"internal/strictjson"}, "names are cut from texts that do not change any more"},
		{"plugin", nil, "no"},
		{"encoding/gob", nil, "no"},
		{"expvar", nil, "it registers handlers when imported"},
	}
}

// dialers lists what opens connections, by package and the beginning of the name. Only
// internal/dial uses them: everyone else is handed an *http.Client. An http.Client that
// is no pointer counts too, since an empty one dials by itself.
func dialers() map[string][]string {
	return map[string][]string{
		"net":        {"Dial", "Resolver", "Lookup", "DefaultResolver"},
		"crypto/tls": {"Dial"},
		"net/http": {
			"Client", "Transport", "DefaultTransport", "DefaultClient", "Get", "Head", "Post",
			"PostForm",
		},
	}
}

const dialPackage = "internal/dial"

// tokenPackage is the one package that may ask a principal for the token that it came
// with.
const tokenPackage = "registry/credential"
