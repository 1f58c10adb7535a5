package deploy_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// dashboard is what is checked of one.
type dashboard struct {
	Templating struct {
		List []struct{ Name, Query, AllValue string }
	}
	Panels []struct {
		ID      int
		Type    string
		Title   string
		GridPos struct{ X, Y, W, H int }
		Targets []struct{ RefID, Expr, LegendFormat string }
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	if err := json.Unmarshal([]byte(read(t, "grafana/drawbridge.json")), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestDashboardPanelsAreWhole looks for what Grafana would show wrongly without a word:
// panels that lie over each other or share an id, variables that nobody defines, all of a
// variable where it means more than the values that other variables leave, and labels in
// a legend that the expression has summed away.
func TestDashboardPanelsAreWhole(t *testing.T) {
	d := readDashboard(t)
	variables := []string{"__rate_interval"}
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
		if v.Name == "instance" && (v.AllValue != "" || !strings.Contains(v.Query, "$namespace")) {
			t.Errorf("all instances are %q of %s, want those of the job and the namespace", v.AllValue,
				v.Query)
		}
	}
	taken, ids := make(map[[2]int]string), make(map[int]bool)
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("%s: another panel has the id %d", p.Title, p.ID)
		}
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				place := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if taken[place] != "" || place[0] >= 24 {
					t.Fatalf("%s lies over %q at %v, or leaves the page", p.Title, taken[place], place)
				}
				taken[place] = p.Title
			}
		}
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("%s shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			for _, v := range regexp.MustCompile(`\$(\w+)`).FindAllStringSubmatch(target.Expr, -1) {
				if !slices.Contains(variables, v[1]) {
					t.Errorf("%s: nobody defines $%s", p.Title, v[1])
				}
			}
			by := regexp.MustCompile(`by \(([^)]*)\)`).FindStringSubmatch(target.Expr)
			for _, label := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(
				target.LegendFormat, -1) {
				if by != nil && !slices.Contains(strings.Split(by[1], ", "), label[1]) {
					t.Errorf("%s: the legend has %s, which is not in %s", p.Title, label[1], by[0])
				}
			}
		}
	}
	if len(d.Panels) < 30 {
		t.Errorf("read %d panels, want all", len(d.Panels))
	}
}

// A panel on a metric that nobody records stays empty.
func TestDashboardUsesMetricsThatExist(t *testing.T) {
	recorded, name := recorded(t), regexp.MustCompile(`drawbridge_[a-z_]+`)
	used := make(map[string]bool)
	d := readDashboard(t)
	for _, v := range d.Templating.List {
		for _, metric := range name.FindAllString(v.Query, -1) {
			used[metric] = true
		}
	}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			for _, metric := range name.FindAllString(target.Expr, -1) {
				used[strings.TrimSuffix(metric, "_bucket")] = true
			}
		}
	}
	for _, metric := range slices.Sorted(maps.Keys(used)) {
		if !slices.Contains(recorded, metric) {
			t.Errorf("no metric is called %s", metric)
		}
	}
	if len(used) < 30 {
		t.Errorf("found %d metrics, want all", len(used))
	}
}

// TestDashboardExpressionsParse has promtool read each as a rule of its own.
func TestDashboardExpressionsParse(t *testing.T) {
	promtool := tool(t, "promtool", "prometheus")
	var rules strings.Builder
	rules.WriteString("groups:\n- name: dashboard\n  rules:\n")
	n := 0
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			n++
			expr := strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")
			fmt.Fprintf(&rules, "  - {record: 'panel:%d:%d', expr: %q}\n", p.ID, n, expr)
		}
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "rules.yml"), rules.String())
	out, code := run(t.Context(), t, dir, promtool, "check", "rules", "rules.yml")
	if code != 0 || !strings.Contains(out, fmt.Sprint(n, " rules found")) {
		t.Errorf("promtool check rules: exit %d for %d expressions\n%s", code, n, out)
	}
}
