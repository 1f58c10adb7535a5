package doctest_test

import (
	"fmt"
	"go/ast"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drawbridge-mcp/drawbridge/metrics"
	"github.com/drawbridge-mcp/drawbridge/server/admin"
)

const (
	codesPage    = "docs/reference/codes.md"
	metricsPage  = "docs/reference/metrics.md"
	recordsPage  = "docs/reference/records.md"
	commandsPage = "docs/reference/commands.md"
)

// TestEveryWarningIsInTheReference compares the table of warnings with the codes that
// package config has.
func TestEveryWarningIsInTheReference(t *testing.T) {
	t.Parallel()
	r := surveyed(t)
	want := map[string]string{}
	for _, s := range r.product {
		if s.name != configPackage+"codes.go" {
			continue
		}
		ast.Inspect(s.tree, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) == 0 || !strings.HasPrefix(strings.ToLower(spec.Names[0].Name),
				"code") {
				return true
			}
			code, ok := textOf(spec.Values[0])
			if from, isSelector := spec.Values[0].(*ast.SelectorExpr); isSelector {
				code, ok = r.values[fmt.Sprint(from.X)+"."+from.Sel.Name]
			}
			if ok {
				want[code] = s.at(spec)
			}
			return true
		})
	}
	(&reference{
		page: configPage, first: "warning", kind: "warning", want: want,
		template: "| `NAME` | what it means |",
		place:    func(string) string { return "under ## Warnings" },
	}).check(t)
}

// TestEveryCodeIsInTheReference compares the tables of codes with the codes that stand in
// the product, and the numbers in them with those that the product puts beside each.
func TestEveryCodeIsInTheReference(t *testing.T) {
	t.Parallel()
	r := surveyed(t)
	want, beside := map[string]string{}, map[string][]int{}
	for _, s := range r.product {
		ast.Inspect(s.tree, func(n ast.Node) bool {
			if text, ok := textOf(n); ok && code.MatchString(text) && !strings.HasSuffix(text, "-") {
				want[text] = s.at(n)
			}
			numberBeside(s, n, beside)
			return true
		})
	}
	if len(want) < 60 {
		t.Fatalf("found %d codes in the product", len(want))
	}
	rows := (&reference{
		page: codesPage, first: "`data.code`", kind: "code", want: want,
		template: "| <a id=\"NAME in small letters\"></a>`NAME` | HTTP status | error.code | what it means | cure |",
	}).check(t)
	for _, row := range rows {
		name := row.names[0]
		anchor := `<a id="` + strings.ToLower(name) + `"></a>`
		if !strings.Contains(row.cells["`data.code`"], anchor) {
			t.Errorf("%s: the row of `%s` does not begin with %s, by which others link to it", codesPage,
				name, anchor)
		}
		got := numbers.FindAllString(row.cells["error"], -1)
		statuses := numbers.FindAllString(row.cells["HTTP"], -1)
		for _, number := range beside[name] {
			if number > 0 && !slices.Contains(statuses, strconv.Itoa(number)) { // it is the status, too
				t.Errorf("%s: the row of `%s` has %q in the column HTTP, and the code sends %d",
					codesPage, name, row.cells["HTTP"], number)
			}
			if !slices.Contains(got, strconv.Itoa(number)) {
				t.Errorf("%s: the row of `%s` has %q in the column error, and the code puts %d beside it",
					codesPage, name, row.cells["error"], number)
			}
		}
	}
}

// numberBeside notes the number that stands beside a code: in a call such as
// mcp.Stable(mcp.CodeLimited, "DB-…", …), or as the key of an element.
func numberBeside(s source, n ast.Node, into map[string][]int) {
	var expr ast.Expr
	var text string
	switch n := n.(type) {
	case *ast.CallExpr:
		if len(n.Args) < 2 {
			return
		}
		text, _ = textOf(n.Args[1])
		expr = n.Args[0]
	case *ast.KeyValueExpr:
		text, _ = textOf(n.Value)
		expr = n.Key
	}
	if !code.MatchString(text) {
		return
	}
	name := ""
	switch e := expr.(type) {
	case *ast.SelectorExpr:
		name = e.Sel.Name
	case *ast.Ident:
		name = e.Name
	}
	if number, ok := codeNumbers()[name]; ok && !slices.Contains(into[text], number) && s.name != "" {
		into[text] = append(into[text], number)
	}
}

// codeNumbers are the numbers of errors by the names of their constants.
func codeNumbers() map[string]int {
	all := map[string]int{
		"CodeParse": -32700, "CodeInvalidRequest": -32600, "CodeMethodNotFound": -32601,
		"CodeInvalidParams": -32602,
		"CodeInternal":      -32603, "CodeHeaderMismatch": -32020, "CodeMissingCapability": -32021,
		"CodeUnsupportedVersion": -32022, "CodeForbidden": 403, "CodeLimited": 429, "CodeUnavailable": 503,
	}
	for status := 400; status < 600; status++ {
		if text := http.StatusText(status); text != "" {
			all["Status"+strings.ReplaceAll(text, " ", "")] = status
		}
	}
	return all
}

// TestEveryOutcomeIsInTheReference compares the table of outcomes with the table of
// package gateway.
func TestEveryOutcomeIsInTheReference(t *testing.T) {
	t.Parallel()
	r := surveyed(t)
	const table = "internal/gateway/errors.go"
	text := read(t, table)
	want := map[string]string{}
	outcome := regexp.MustCompile(`(?:kind:|kind\w* +=|outcome\w+ +=) *"(\w+)"`)
	for _, found := range outcome.FindAllStringSubmatch(text, -1) {
		want[found[1]] = table
	}
	if len(want) < 20 {
		t.Fatalf("found %d outcomes in %s", len(want), table)
	}
	for _, other := range []string{"ok", "unauthenticated", "ended"} {
		if !r.literals[other] {
			t.Errorf("nothing in the product is called %q", other)
		}
		want[other] = "the product"
	}
	(&reference{
		page: codesPage, first: "outcome", kind: "outcome", want: want,
		template: "| `NAME` | what it means |",
		place:    func(string) string { return "under ## Outcomes" },
	}).check(t)
}

// descriptions collects what is registered.
type descriptions struct{ all []string }

func (d *descriptions) Register(c prometheus.Collector) error {
	out := make(chan *prometheus.Desc)
	go func() {
		defer close(out)
		c.Describe(out)
	}()
	for description := range out {
		d.all = append(d.all, description.String())
	}
	return nil
}

func (d *descriptions) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		_ = d.Register(c) // never fails
	}
}

func (d *descriptions) Unregister(prometheus.Collector) bool { return false }

// TestEveryMetricIsInTheReference compares the tables of metrics with what package
// metrics registers, labels included.
func TestEveryMetricIsInTheReference(t *testing.T) {
	t.Parallel()
	registered := &descriptions{}
	metrics.New(registered).LogLost(nil)
	want, labels := map[string]string{}, map[string]string{}
	form := regexp.MustCompile(`fqName: "(drawbridge_\w+)".*variableLabels: \{([^}]*)\}`)
	for _, text := range registered.all {
		if found := form.FindStringSubmatch(text); found != nil {
			want[found[1]], labels[found[1]] = "package metrics", found[2]
		}
	}
	if len(want) < 40 {
		t.Fatalf("found %d metrics", len(want))
	}
	rows := (&reference{
		page: metricsPage, first: "metric", kind: "metric", want: want,
		template: "| `NAME` | counter, gauge or histogram | labels | what it counts | what to do with it |",
	}).check(t)
	for _, row := range rows {
		var got []string
		for _, label := range span.FindAllStringSubmatch(row.cells["labels"], -1) {
			got = append(got, label[1])
		}
		if got, want := strings.Join(got, ","), labels[row.names[0]]; got != want {
			t.Errorf("%s: the row of `%s` has the labels %q, want %q", metricsPage, row.names[0], got, want)
		}
	}
}

// TestEveryFieldOfTheLogIsInTheReference compares the tables of fields with the keys that
// the product gives to slog.
func TestEveryFieldOfTheLogIsInTheReference(t *testing.T) {
	t.Parallel()
	r := surveyed(t)
	const here = "slog itself"
	want := map[string]string{"Log|time": here, "Log|level": here, "Log|msg": here}
	for _, s := range r.product {
		ast.Inspect(s.tree, func(n ast.Node) bool {
			for _, key := range fieldsIn(n) {
				want["Log|"+key] = s.at(n)
			}
			return true
		})
	}
	if len(want) < 50 {
		t.Fatalf("found %d fields in the product", len(want))
	}
	auditField := regexp.MustCompile(`,?"(\w+)\\*":`)
	for _, found := range auditField.FindAllStringSubmatch(read(t, "internal/audit/record.go"), -1) {
		want["Audit|"+found[1]] = "internal/audit/record.go"
	}
	for key := range viewFields("", reflect.TypeFor[admin.View]()) {
		want["readyz|"+key] = "server/admin/admin.go"
	}
	(&reference{
		page: recordsPage, first: "field", kind: "field", want: want, template: "| `NAME` | what it holds |",
		chapters: func(r row) string { return r.chapter + "|" },
		place:    chapterOf,
	}).check(t)
}

// fieldsIn returns the keys of a call of slog: of a constructor of attributes, of a
// method that logs, with the key and the value as two arguments, or of With.
func fieldsIn(n ast.Node) []string {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return nil
	}
	function, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 {
		return nil
	}
	name := function.Sel.Name
	if from, ok := function.X.(*ast.Ident); ok && from.Name == "slog" {
		if key, ok := textOf(call.Args[0]); ok && name != "New" && name != "NewRecord" {
			return []string{key}
		}
		return nil
	}
	rest := call.Args
	switch {
	case regexp.MustCompile(`^(Debug|Info|Warn|Error)Context$`).MatchString(name):
		rest = rest[2:]
	case name != "With" || !isLogger(function.X):
		return nil
	}
	var keys []string
	for i := 0; i < len(rest); i++ {
		if key, ok := textOf(rest[i]); ok {
			keys = append(keys, key)
			i++ // its value
		}
	}
	return keys
}

// isLogger tells whether an expression is called as loggers are.
func isLogger(e ast.Expr) bool {
	name := ""
	switch e := e.(type) {
	case *ast.Ident:
		name = e.Name
	case *ast.SelectorExpr:
		name = e.Sel.Name
	}
	return name == "log" || name == "logger" || name == "Logger"
}

// viewFields returns the names that a type has as JSON, those within it with a dot
// between, and * for what is found by name.
func viewFields(before string, kind reflect.Type) map[string]bool {
	names := map[string]bool{}
	for field := range kind.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names[before+name] = true
		inner := field.Type
		if inner.Kind() == reflect.Map && inner.Elem().Kind() == reflect.Struct {
			for below := range viewFields(before+name+".*.", inner.Elem()) {
				names[below] = true
			}
		}
	}
	return names
}

// TestMessagesOfTheLogAreThere looks for the messages of the page in the product: an
// operator searches for them. Each that asks somebody to act has a row.
func TestMessagesOfTheLogAreThere(t *testing.T) {
	t.Parallel()
	r := surveyed(t)
	told := map[string]bool{}
	for _, row := range rowsOf(t, recordsPage, "message") {
		told[row.names[0]] = true
		if !r.literals[row.names[0]] {
			t.Errorf("%s: nothing logs %q: correct the row, or remove it", recordsPage, row.names[0])
		}
	}
	for _, s := range r.product {
		ast.Inspect(s.tree, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) < 2 {
				return true
			}
			if f, ok := call.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "ErrorContext" {
				if message, _ := textOf(call.Args[1]); !told[message] {
					t.Errorf("%s: %q, of %s, has no row", recordsPage, message, s.at(n))
				}
			}
			return true
		})
	}
}

// TestEveryCommandIsInTheReference compares the page of commands with what the program
// says of itself.
func TestEveryCommandIsInTheReference(t *testing.T) {
	t.Parallel()
	r := surveyed(t)
	want, flags := map[string]string{}, map[string]string{}
	for name, all := range r.flags {
		want[name] = "package main"
		for _, flag := range all {
			if flag != "-h" {
				flags[name+"|"+flag] = "drawbridge " + name
			}
		}
	}
	(&reference{
		page: commandsPage, first: "command", kind: "command", want: want,
		template: "| [`NAME`](#NAME) | what it does |",
	}).check(t)
	rows := rowsOf(t, commandsPage, "flag")
	for i := range rows {
		for j, name := range rows[i].names {
			rows[i].names[j], _, _ = strings.Cut(name, " ")
		}
	}
	seen := map[string]bool{}
	for _, row := range rows {
		for _, name := range row.names {
			full := row.chapter + "|" + name
			if seen[full] = true; flags[full] == "" {
				t.Errorf("%s, under %q, has a row for `%s`, and the command has no such flag: remove the row",
					commandsPage, row.chapter, name)
			}
		}
	}
	for full, from := range flags {
		if command, name, _ := strings.Cut(full, "|"); !seen[full] {
			t.Errorf(
				"%s has no row for `%s` (%s): write this under ## %s:\n\t| `%s value` | default | what it does |",
				commandsPage, name, from, command, name)
		}
	}
}
