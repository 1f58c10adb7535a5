package deploy_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestPrometheusAcceptsConfigAndRules(t *testing.T) {
	promtool := tool(t, "promtool", "prometheus")
	for _, file := range []string{"prometheus.yml", "alerts.yml", "alerts_test.yml"} {
		read(t, "prometheus/"+file)
	}
	for _, args := range [][]string{
		{"check", "config", "prometheus.yml"},
		{"check", "rules", "alerts.yml"},
		{"test", "rules", "alerts_test.yml"},
	} {
		if out, code := run(t.Context(), t, "prometheus", promtool, args...); code != 0 {
			t.Errorf("promtool %s: exit %d\n%s", strings.Join(args, " "), code, out)
		}
	}
}

func TestEveryAlertIsSeenToFireAndToStaySilent(t *testing.T) {
	tests := read(t, "prometheus/alerts_test.yml")
	for _, alert := range alerts(t) {
		if !strings.Contains(tests, "{alertname: "+alert+", eval_time: ") {
			t.Errorf("%s has no test in which it stays silent", alert)
		}
		if !strings.Contains(tests, "- alertname: "+alert+"\n") {
			t.Errorf("%s has no test in which it fires", alert)
		}
	}
}

// An alert on a metric that nobody records never fires.
func TestAlertsUseMetricsThatExist(t *testing.T) {
	recorded := recorded(t)
	used := regexp.MustCompile(`drawbridge_[a-z_]+`).FindAllString(read(t, "prometheus/alerts.yml"), -1)
	if len(used) < len(alerts(t))-1 {
		t.Fatalf("found %d metrics in %d alerts", len(used), len(alerts(t)))
	}
	for _, name := range used {
		if !slices.Contains(recorded, strings.TrimSuffix(name, "_bucket")) {
			t.Errorf("no metric is called %s", name)
		}
	}
}

// TestSizingNamesWhatExists looks up the metrics, alerts and settings that the page on
// sizing names.
func TestSizingNamesWhatExists(t *testing.T) {
	page, settings := read(t, "../docs/sizing.md"), ""
	for _, file := range []string{"format.go", "network.go", "servers.go", "tenants.go"} {
		settings += read(t, "../cmd/drawbridge/internal/config/"+file)
	}
	named := 0
	for _, match := range regexp.MustCompile(
		"`(drawbridge_[a-z_]+|Drawbridge[A-Za-z]+|[a-z_]+(?:\\.[a-z_]+)*(?:: [a-z0-9-]+)?)[`{]").FindAllStringSubmatch(page, -1) {
		name := match[1]
		parts := strings.Split(strings.Split(name, ":")[0], ".")
		last := parts[len(parts)-1]
		switch {
		case strings.HasPrefix(name, "drawbridge_"):
			if !slices.Contains(recorded(t), name) {
				t.Errorf("no metric is called %s", name)
			}
		case strings.HasPrefix(name, "Drawbridge"):
			if !slices.Contains(alerts(t), name) {
				t.Errorf("no alert is called %s", name)
			}
		case strings.Contains(name, ".") || strings.Contains(name, ":") || strings.HasPrefix(name, "max_"):
			if !strings.Contains(settings, `"`+last+`"`) {
				t.Errorf("no setting is called %s", name)
			}
		default:
			continue
		}
		named++
	}
	if named < 20 {
		t.Errorf("found %d names, want all", named)
	}
}

// recorded returns the names of all metrics.
func recorded(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("../metrics/*.go")
	if err != nil || len(files) < 3 {
		t.Fatalf("found %d files of metrics, %v", len(files), err)
	}
	text := ""
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") {
			text += read(t, file)
		}
	}
	named := regexp.MustCompile(`(?:Name:\s+|\[2\]string\{\s*)"(drawbridge_[a-z_]+)"`)
	for _, match := range named.FindAllStringSubmatch(text, -1) {
		names = append(names, match[1])
	}
	return names
}

func alerts(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, match := range regexp.MustCompile(`(?m)^ +- alert: (\w+)$`).FindAllStringSubmatch(read(t,
		"prometheus/alerts.yml"), -1) {
		names = append(names, match[1])
	}
	if len(names) == 0 {
		t.Fatal("no alert found")
	}
	return names
}
