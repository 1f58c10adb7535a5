package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
)

func TestAFolderIsTried(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{
		"a.yaml": "openapi: 3.0.0\ninfo: {title: a, version: '1'}\npaths:\n  /a: {get: {operationId: a, responses: {}}}\n" +
			"  /b: {get: {operationId: b, parameters: [{$ref: '#/x'}], responses: {}}}\n" +
			"  /c: {get: {operationId: c, parameters: [{name: s, in: cookie, schema: {}}], responses: {}}}\n",
		"deep/b.json": `{"openapi":"3.1.0","info":{"title":"b","version":"1"},"webhooks":{}}`,
		"deep/c.yml":  "swagger: '2.0'\n",
		"notes.txt":   "no document",
	} {
		file := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const swagger = `the document does not begin with "openapi": "3.0.x" or "3.1.x"; convert documents of Swagger 2.0`
	want := strings.Join([]string{
		`a.yaml: 2 tools, 1 left out`,
		`  left out: b: at #/paths/~1b/get/parameters/0: $ref "#/x" leads nowhere`,
		`  changed: operation "c": cookie parameter "s" is left out: no argument may set a cookie`,
		filepath.FromSlash("deep/b.json") + `: refused: the document has no operations`,
		filepath.FromSlash("deep/c.yml") + `: refused: ` + swagger,
		``,
		`1 documents read, 2 refused; 2 operations are tools, 1 are left out`,
		`     1 refused: the document does not begin with …: … or …; convert documents of Swagger 2.0`,
		`     1 refused: the document has no operations`,
		`     1 left out: at #/paths/~1b/get/parameters/0: $ref … leads nowhere`,
		`     1 changed: cookie parameter … is left out: no argument may set a cookie`,
		``,
	}, "\n")
	var out strings.Builder
	if err := run(t.Context(), []string{folder}, &out); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFoldersThatCannotBeTried(t *testing.T) {
	empty := t.TempDir()
	for want, args := range map[string][]string{
		"name one folder": nil, "make openapi DIR=": {""}, "no such file": {filepath.Join(empty, "x")},
		"ends in .json, .yaml or .yml": {empty},
	} {
		if err := must.Try(func() { must.OK(run(t.Context(), args, &strings.Builder{})) }); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want %q", args, err, want)
		}
	}
}
