package deploy_test

import (
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
	for _, args := range [][]string{{"check", "config", "prometheus.yml"}, {"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"}} {
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
	var recorded []string
	for _, match := range regexp.MustCompile(`Name:\s+"(drawbridge_[a-z_]+)"`).FindAllStringSubmatch(read(t, "../metrics/metrics.go"), -1) {
		recorded = append(recorded, match[1])
	}
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

func alerts(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, match := range regexp.MustCompile(`(?m)^ +- alert: (\w+)$`).FindAllStringSubmatch(read(t, "prometheus/alerts.yml"), -1) {
		names = append(names, match[1])
	}
	if len(names) == 0 {
		t.Fatal("no alert found")
	}
	return names
}
