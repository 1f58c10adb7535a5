package kubernetes_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestWrongValuesAreRefused changes one of the examples for the worse: the message says
// what is wrong and, where that is not plain, what to write.
func TestWrongValuesAreRefused(t *testing.T) {
	type changes map[string]any
	for _, test := range []struct {
		name, of string
		changes  changes
		message  string
	}{
		// What the schema knows.
		{
			"a name that there is not", "single",
			changes{"replicas": 2},
			`additional properties 'replicas' not allowed`,
		},
		{
			"one below", "single",
			changes{"image.name": "x"},
			`at '/image': additional properties 'name' not allowed`,
		},
		{
			"a key that the gateway's config has not", "single",
			changes{"config.tenats": map[string]any{}},
			`at '/config': additional properties 'tenats' not allowed`,
		},
		{
			"a number as text", "single",
			changes{"replicaCount": "2"},
			`at '/replicaCount': got string, want integer`,
		},
		{"no replica", "single", changes{"replicaCount": 0}, `at '/replicaCount': minimum: got 0, want 1`},
		{
			"a percentage", "single",
			changes{"rollout.maxSurge": "25%"},
			`at '/rollout/maxSurge': got string, want integer`,
		},
		{
			"a tag that YAML made a number", "single",
			changes{"image.tag": 1.10},
			`at '/image/tag': got number, want string`,
		},
		{
			"a digest that is none", "single",
			changes{"image.digest": "latest"},
			`at '/image/digest': 'latest' does not match pattern`,
		},
		{
			"another monitor", "single",
			changes{"monitor.kind": "Probe"},
			`at '/monitor/kind': value must be one of 'none', 'ServiceMonitor', 'PodMonitor'`,
		},
		{
			"a secret with its content", "single",
			changes{"secrets": []any{map[string]any{"key": "abc"}}},
			`at '/secrets/0': got object, want string`,
		},
		{
			"a variable without a value", "single",
			changes{"env": []any{map[string]any{"name": "TOKEN"}}},
			`at '/env/0'`,
		},
		{
			"two volumes for audit", "single",
			changes{"audit.volume": map[string]any{
				"emptyDir": map[string]any{},
				"hostPath": map[string]any{},
			}},
			`at '/audit/volume': maxProperties: got 2, want 1`,
		},
		{
			"a server that is none", "single",
			changes{"config.servers": map[string]any{"a": nil}},
			`at '/config/servers/a': got null, want object`,
		},
		{
			"an issuer that is a text", "single",
			changes{"config.issuers": []any{"x"}},
			`at '/config/issuers/0': got string, want object`,
		},
		{
			"a record that is a number", "single",
			changes{"config.audit": map[string]any{"file": 5}},
			`at '/config/audit/file': got number, want string`,
		},
		{
			"a grace in words", "single",
			changes{"rollout.terminationGracePeriodSeconds": "45s"},
			`at '/rollout/terminationGracePeriodSeconds': got string, want integer`,
		},

		// What does not go together.
		{
			"no image", "single",
			changes{"image.tag": ""},
			`image.tag or image.digest is missing: say which image`,
		},
		{
			"no tenants", "single",
			changes{"config.tenants": nil},
			`config.tenants is missing: the gateway's own config stands under config`,
		},
		{
			"no address for clients", "single",
			changes{"config.public_url": nil},
			`config.public_url is missing: write what clients type`,
		},
		{
			"loopback", "single",
			changes{"config.listen": "127.0.0.1:8080"},
			`config.listen is "127.0.0.1:8080": in a pod it must be all addresses`,
		},
		{
			"loopback of the operator", "single",
			changes{"config.operator": "localhost:9090"},
			`config.operator is "localhost:9090": in a pod`,
		},
		{
			"a port that there is not", "single",
			changes{"config.listen": "0.0.0.0:99999"},
			`config.listen has the port 99999: write one from 1 to 65535`,
		},
		{
			"one port for both", "single",
			changes{"config.operator": "0.0.0.0:8080"},
			`config.listen and config.operator both have the port 8080`,
		},
		{
			"a label that selects", "single",
			changes{"podLabels": map[string]any{"app.kubernetes.io/name": "x"}},
			`podLabels has app.kubernetes.io/name, which the chart sets itself`,
		},
		{
			"an annotation of the chart", "single",
			changes{"podAnnotations": map[string]any{"drawbridge/restart-settings": "x"}},
			`podAnnotations has drawbridge/restart-settings`,
		},
		{
			"a variable of the chart", "single",
			changes{"env": []any{map[string]any{"name": "POD_NAME", "value": "x"}}},
			`env has POD_NAME twice`,
		},
		{
			"an autoscaler that has nothing to go by", "replicas",
			changes{"resources": map[string]any{"requests": map[string]any{"cpu": nil}}},
			`autoscaling.enabled needs resources.requests.cpu`,
		},
		{
			"several replicas that share nothing", "single",
			changes{"replicaCount": 3},
			`3 replicas need config.redis and config.sessions.keys_file`,
		},
		{
			"an autoscaler and nothing shared", "single",
			changes{"autoscaling.enabled": true},
			`6 replicas need config.redis`,
		},
		{
			"several replicas without common keys", "replicas",
			changes{"config.sessions": nil},
			`6 replicas need config.redis and config.sessions.keys_file`,
		},
		{"one replica with Redis and no keys", "replicas", changes{
			"config.sessions":     nil,
			"autoscaling.enabled": false,
		}, `config.redis needs config.sessions.keys_file`},
		{
			"fewer shares than replicas", "replicas",
			changes{"config.replicas": 6},
			`config.replicas is 6, but 12 can live at once: 6, and in a rollout as many that still drain`,
		},
		{
			"no share for one that drains", "replicas",
			changes{"config.replicas": 11},
			`config.replicas is 11, but 12 can live at once`,
		},
		{"no share for the only one that drains", "replicas", changes{
			"autoscaling.enabled": false,
			"config.replicas":     1,
		}, `config.replicas is 1, but 2 can live at once`},
		{
			"a floor above the ceiling", "replicas",
			changes{"autoscaling.minReplicas": 7},
			`autoscaling.minReplicas is 7, which is more than maxReplicas, 6`,
		},
		{
			"a grace that the drain does not fit in", "single",
			changes{"rollout.terminationGracePeriodSeconds": 64},
			`rollout.terminationGracePeriodSeconds is 64: the gateway may take 60 s to drain, after preStopSeconds (5); allow 65`,
		},
		{
			"a Secret that is not mounted", "single",
			changes{"secrets": []any{}},
			`config names a file below /run/secrets/drawbridge, but secrets has no "drawbridge"`,
		},
		{
			"a ConfigMap that is not mounted", "single",
			changes{"config.include": []any{"/etc/drawbridge.d/teams/*.yaml"}},
			`config names a file below /etc/drawbridge.d/teams, but configMaps has no "teams"`,
		},
		{
			"a record where nothing is writable", "single",
			changes{"config.audit": map[string]any{"file": "/var/log/audit.jsonl"}},
			`config.audit.file is "/var/log/audit.jsonl": nothing else is writable`,
		},
		{
			"a record without a volume", "single",
			changes{"config.audit": map[string]any{"file": "/var/lib/drawbridge/a.jsonl"}},
			`say which volume that is`,
		},
		{
			"two pods with one record", "single", changes{
				"config.audit": map[string]any{"file": "/var/lib/drawbridge/a.jsonl"},
				"audit.volume": map[string]any{"persistentVolumeClaim": map[string]any{"claimName": "audit"}},
			}, `write ${POD_NAME} in config.audit.file`,
		},
		{
			"data where nothing is writable", "single",
			changes{"config.data": map[string]any{"dir": "/data"}},
			`config.data.dir is "/data": nothing else is writable than /var/lib/drawbridge`,
		},
		{
			"data without a volume", "single",
			changes{"config.data": map[string]any{"dir": "/var/lib/drawbridge/data"}},
			`config.data.dir is "/var/lib/drawbridge/data": nothing else is writable`,
		},
		{
			"data that ends with its pod", "single", changes{
				"config.data":  map[string]any{"dir": "/var/lib/drawbridge/data"},
				"audit.volume": map[string]any{"emptyDir": map[string]any{}},
			}, `config.data.dir is on audit.volume, which ends with its pod`,
		},
		{
			"key sets beside the volume", "single", changes{
				"config.key_sets_dir": "/var/lib/drawbridge-sets",
				"audit.volume":        map[string]any{"emptyDir": map[string]any{}},
			}, `config.key_sets_dir is "/var/lib/drawbridge-sets": nothing else is writable`,
		},
		{
			"a policy that lets nobody in", "single",
			changes{"networkPolicy.clients": []any{}},
			`networkPolicy.clients is empty`,
		},
		{
			"a policy that lets nothing out", "replicas",
			changes{"networkPolicy.egress": []any{}},
			`would not reach redis, issuer https://login.example.com/, server tracker`,
		},
		{
			"a policy between people and their provider", "single",
			changes{"config.issuers": []any{
				map[string]any{"issuer": "https://login.example.com/", "sign_in": map[string]any{"client_id": "x"}},
				map[string]any{"github": map[string]any{"client_id": "x"}},
			}},
			`would not reach issuer https://login.example.com/, issuer github.com`,
		},
		{
			"a monitor before a closed door", "single",
			changes{"monitor.kind": "PodMonitor"},
			`networkPolicy.monitoring is empty`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := render(with(t, test.of, test.changes))
			if err == nil || !strings.Contains(err.Error(), test.message) {
				t.Errorf("got %v, want %q", err, test.message)
			}
		})
	}
}

// TestTheSchemaKnowsTheKeysOfTheConfig compares the keys that values may have under
// config with those that the gateway reads: one that is new there must not be refused
// here.
func TestTheSchemaKnowsTheKeysOfTheConfig(t *testing.T) {
	source := read(t, "../../../cmd/drawbridge/internal/config/format.go")
	_, table, _ := strings.Cut(source, "topFields() fields {")
	table, _, _ = strings.Cut(table, "\n}")
	var keys []string
	for _, found := range regexp.MustCompile(`(?m)^\t\t"(\w+)":`).FindAllStringSubmatch(table, -1) {
		keys = append(keys, found[1])
	}
	if len(keys) < 15 {
		t.Fatalf("found the keys %q in the gateway's source", keys)
	}
	for _, key := range slices.Compact(slices.Sorted(slices.Values(keys))) {
		_, _, err := render(with(t, "single", map[string]any{"config." + key: true}))
		if err != nil && strings.Contains(err.Error(), "additional properties '"+key+"'") {
			t.Errorf("the schema of the chart has no config.%s", key)
		}
	}
}
