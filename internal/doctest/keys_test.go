package doctest_test

import (
	"go/ast"
	"maps"
	"slices"
	"strings"
	"testing"
)

const (
	configPage    = "docs/reference/config.md"
	configPackage = "cmd/drawbridge/internal/config/"
)

// keyPlace is where the keys that one function of package config reads stand: under which
// chapter of the page, and what is written before each.
type keyPlace struct{ chapter, before string }

// keyPlaces says so of each function that reads a mapping with known keys; no chapter
// means that these are no keys of the config's own.
func keyPlaces() map[string]keyPlace {
	return map[string]keyPlace{
		"topFields":      {"Gateway", ""},
		"networkFields":  {"Gateway", ""},
		"sessions":       {"Gateway", "sessions."},
		"auditFields":    {"Gateway", "audit."},
		"log":            {"Gateway", "log."},
		"card":           {"Gateway", "card."},
		"limits":         {"Gateway", "limits."},
		"redis":          {"Gateway", "redis."},
		"link":           {"Gateway", "link."},
		"data":           {"Gateway", "data."},
		"issuer":         {"Issuers", ""},
		"issuers":        {"Issuers", ""},
		"claims":         {"Issuers", ""},
		"signIn":         {"Signing in", "sign_in."},
		"signInOf":       {"Signing in", "sign_in."},
		"clients":        {"Clients that sign people in", "clients."},
		"tenant":         {"Tenants", ""},
		"rule":           {"Tenants", "rules[]."},
		"tenantLimits":   {"Tenants", "limits."},
		"output":         {"Tenants", "output."},
		"limit":          {"How values are written", ""},
		"serverFields":   {"Servers", ""},
		"apiFields":      {"Servers", ""},
		"auth":           {"Servers", "auth."},
		"serverAuth":     {"Servers", "auth."},
		"authHeader":     {"Servers", "auth.header."},
		"authClient":     {"Servers", "auth.client_credentials."},
		"identity":       {"Servers", "auth.identity."},
		"tokenExchange":  {"Servers", "auth.token_exchange."},
		"builtinFields":  {"Servers", "builtin."},
		"databaseFields": {"Servers", "builtin.query_database.databases.*."},
		"processLimits":  {"Servers", "limits."},
		"server":         {}, // of the files of clients, which are no config of the gateway
	}
}

// TestEveryConfigKeyIsInTheReference compares the tables of config.md with the tables of
// keys in package config, and what they say of restarts with what the gateway does.
func TestEveryConfigKeyIsInTheReference(t *testing.T) {
	t.Parallel()
	r := surveyed(t)
	want := map[string]string{}
	for _, s := range r.product {
		if strings.HasPrefix(s.name, configPackage) {
			keysOf(t, s, want)
		}
	}
	if len(want) < 100 {
		t.Fatalf("found %d keys in %s: does it still have mappings of the type fields?", len(want),
			configPackage)
	}
	rows := (&reference{
		page: configPage, first: "key", kind: "key", want: want,
		template: "| `NAME` | type | default | reload or restart | what it does |",
		chapters: func(r row) string { return r.chapter + "|" },
		place:    chapterOf,
	}).check(t)

	restart := restartNames(t, r)
	for _, row := range rows {
		name, change := row.names[0], row.cells["change"]
		if row.chapter == "How values are written" || change == "" && row.cells["type"] == "mapping" {
			continue
		}
		want := "reload"
		if row.chapter == "Gateway" && needsRestart(restart, name) {
			want = "restart"
		}
		if change != want {
			t.Errorf("%s: the row of `%s` says %q in the column change, want %q: "+
				"restartNeeded in cmd/drawbridge decides", configPage, name, change, want)
		}
	}
}

// keysOf adds the keys that the functions of a file read, each as its chapter and its
// whole name with | between.
func keysOf(t *testing.T, s source, into map[string]string) {
	t.Helper()
	for _, declaration := range s.tree.Decls {
		d, ok := declaration.(*ast.FuncDecl)
		if !ok {
			continue
		}
		for _, key := range keysBelow(d.Body, "") {
			place, known := keyPlaces()[d.Name.Name]
			if !known {
				t.Errorf(
					"%s: %s reads keys of the config: say in keyPlaces of internal/doctest/keys_test.go "+
						"under which chapter of %s they stand", s.at(d), d.Name.Name, configPage)
				break
			}
			if place.chapter != "" {
				into[place.chapter+"|"+place.before+key] = s.at(d)
			}
		}
	}
}

// keysBelow returns the keys in the literals of the type fields below a node, and those
// that are assigned to such a mapping. A literal within the function of a key has the
// keys below it.
func keysBelow(n ast.Node, before string) []string {
	var keys []string
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			if kind, ok := n.Type.(*ast.Ident); !ok || kind.Name != "fields" {
				return true
			}
			for _, element := range n.Elts {
				pair, ok := element.(*ast.KeyValueExpr)
				if !ok {
					continue
				}
				if key, ok := textOf(pair.Key); ok {
					keys = append(keys, before+key)
					keys = append(keys, keysBelow(pair.Value, before+key+".")...)
				}
			}
			return false
		case *ast.AssignStmt:
			if len(n.Lhs) != 1 {
				return true
			}
			to, ok := n.Lhs[0].(*ast.IndexExpr)
			if name, isName := indexed(to, ok); !isName || name != "known" {
				return true
			}
			if key, ok := textOf(to.Index); ok {
				keys = append(keys, before+key)
				keys = append(keys, keysBelow(n.Rhs[0], before+key+".")...)
				return false
			}
		}
		return true
	})
	return keys
}

// indexed returns the name of the variable of which an element is meant.
func indexed(n *ast.IndexExpr, ok bool) (string, bool) {
	if !ok {
		return "", false
	}
	name, ok := n.X.(*ast.Ident)
	if !ok {
		return "", false
	}
	return name.Name, true
}

// restartNames returns the settings that restartNeeded compares.
func restartNames(t *testing.T, r *repository) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, s := range r.product {
		if s.name != "cmd/drawbridge/changes.go" {
			continue
		}
		for _, declaration := range s.tree.Decls {
			d, ok := declaration.(*ast.FuncDecl)
			if !ok || d.Name.Name != "restartNeeded" {
				continue
			}
			ast.Inspect(d, func(n ast.Node) bool {
				if pair, ok := n.(*ast.KeyValueExpr); ok {
					if name, ok := textOf(pair.Key); ok {
						names[name] = true
					}
				}
				return true
			})
		}
	}
	if len(names) < 5 {
		t.Fatalf("found %d settings in restartNeeded of cmd/drawbridge/changes.go", len(names))
	}
	delete(names, "sessions.keys_file") // compared for whether it is set at all
	return names
}

// needsRestart tells whether a key at the top, or what it stands in, changes only at a
// restart. The keys themselves in sessions.keys_file may change at a reload.
func needsRestart(restart map[string]bool, key string) bool {
	if key == "sessions.keys_file" {
		return false
	}
	return slices.ContainsFunc(slices.Collect(maps.Keys(restart)), func(name string) bool {
		return key == name || strings.HasPrefix(key, name+".")
	})
}
