// Command schemas makes files that kubeconform can read of the description of Kubernetes'
// own kinds in the module k8s.io/kubernetes, so that it needs no other network than the
// module proxy. It knows nothing of kinds that are not Kubernetes' own.
//
//	schemas swagger.json FOLDER
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// definition is what the description says of one type; only what matters here is named.
type definition = map[string]any

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: schemas swagger.json FOLDER")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "schemas:", err)
		os.Exit(1)
	}
}

// write makes a file for each kind, under the name that kubeconform looks for.
func write(swagger, folder string) error {
	data, err := os.ReadFile(swagger) //nolint:gosec // the caller names it
	if err != nil {
		return err
	}
	var all struct {
		Definitions map[string]definition `json:"definitions"`
	}
	if err := json.Unmarshal(data, &all); err != nil { //nolint:forbidigo // a file of a module, which its checksum pins
		return err
	}
	for _, d := range all.Definitions {
		closed(d) // all of them, before any is written with those that it refers to
	}
	for name, d := range all.Definitions {
		kinds, _ := d["x-kubernetes-group-version-kind"].([]any)
		if len(kinds) != 1 || !strings.Contains(name, ".api.") {
			continue
		}
		kind, _ := kinds[0].(map[string]any)
		group, _, _ := strings.Cut(fmt.Sprint(kind["group"]), ".")
		file := fmt.Sprintf("%v-%s-%v.json", kind["kind"], group, kind["version"])
		file = strings.ToLower(strings.Replace(file, "--", "-", 1)) // the oldest group has no name
		schema := map[string]any{
			"$ref": "#/definitions/" + name, "definitions": needed(all.Definitions, name),
		}
		out, err := json.Marshal(schema)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, file), out, 0o600); err != nil { //nolint:gosec // the caller names the folder
			return err
		}
	}
	return nil
}

// closed refuses properties that a type does not have. What may be a number or a text is
// called a text there.
func closed(d definition) {
	if d["format"] == "int-or-string" {
		d["type"] = []string{"integer", "string"}
	}
	if _, has := d["properties"]; has && d["x-kubernetes-preserve-unknown-fields"] == nil {
		d["additionalProperties"] = false
	}
}

var refers = regexp.MustCompile(`"\$ref":"#/definitions/([^"]+)"`)

// needed returns the definition of that name and all that it refers to.
func needed(all map[string]definition, name string) map[string]definition {
	found := map[string]definition{}
	var visit func(name string)
	visit = func(name string) {
		if _, seen := found[name]; seen {
			return
		}
		found[name] = all[name]
		text, _ := json.Marshal(all[name]) // it was read as JSON
		for _, to := range refers.FindAllStringSubmatch(string(text), -1) {
			visit(to[1])
		}
	}
	visit(name)
	return found
}
