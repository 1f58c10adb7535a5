package redis

import "strings"

// version stands at the beginning of every key, and changes with the form of what is kept
// under any of them, so that two versions of the gateway never read each other's values
// by mistake.
const version = "db2:"

// Key returns a key of what is kept for a tenant. All keys of a tenant are on the same
// node of a cluster, so one script may use several of them; so are those of no tenant,
// "". A tenant has no braces in its name. The parts must be free of colons, except for
// the last.
func Key(tenant string, parts ...string) string {
	if tenant == "" {
		tenant = "-" // an empty tag is none: each key would have a slot of its own
	}
	return version + "{" + tenant + "}:" + strings.Join(parts, ":")
}

// kindOf returns what a key is for: the part of it that our code chose, such as session
// or rate. It is no client's choice, so it may be a label of a metric.
func kindOf(key string) string {
	rest := strings.TrimPrefix(key, version)
	if strings.HasPrefix(rest, "{") {
		_, rest, _ = strings.Cut(rest, "}:")
	}
	kind, _, _ := strings.Cut(rest, ":")
	return kind
}

// tenantOf returns the tenant of a key that Key has made, "" for none.
func tenantOf(key string) string {
	rest, tagged := strings.CutPrefix(key, version+"{")
	tenant, _, closed := strings.Cut(rest, "}")
	if !tagged || !closed || tenant == "-" {
		return ""
	}
	return tenant
}

// CommonKey returns a key of what belongs to no tenant. It shares its node of a cluster
// with nothing on purpose.
func CommonKey(parts ...string) string { return version + strings.Join(parts, ":") }
