package kubernetes_test

import (
	"maps"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chartutil"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// monitored are the replicas with all that can be switched on.
func monitored(t *testing.T, kind string) map[string]any {
	t.Helper()
	return with(t, "replicas", map[string]any{"monitor.kind": kind, "monitor.rules": true})
}

func TestPodsHaveNoRights(t *testing.T) {
	for _, name := range values {
		all := rendered(t, example(t, name))
		pod := the[*apps.Deployment](t, all).Spec.Template.Spec
		account := the[*core.ServiceAccount](t, all)
		if isTrue(pod.AutomountServiceAccountToken, true) || isTrue(account.AutomountServiceAccountToken,
			true) || pod.ServiceAccountName != account.Name {
			t.Errorf("%s: the pod of account %q can get a token", name, pod.ServiceAccountName)
		}
		if pod.HostNetwork || pod.HostPID || pod.HostIPC || len(pod.Containers) != 1 ||
			len(pod.InitContainers) != 0 {
			t.Errorf("%s: the pod is not one container by itself", name)
		}
		if s := pod.SecurityContext; !isTrue(s.RunAsNonRoot, false) || *s.RunAsUser == 0 ||
			s.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
			t.Errorf("%s: got %v, want a user without rights and the seccomp profile of the runtime", name, s)
		}
		s := pod.Containers[0].SecurityContext
		if isTrue(s.AllowPrivilegeEscalation, true) || isTrue(s.Privileged, true) ||
			!isTrue(s.ReadOnlyRootFilesystem, false) ||
			!reflect.DeepEqual(s.Capabilities, &core.Capabilities{Drop: []core.Capability{"ALL"}}) {
			t.Errorf("%s: got %v, want a container with no rights and a root that cannot be written", name, s)
		}
		for _, mount := range pod.Containers[0].VolumeMounts {
			if !mount.ReadOnly || mount.SubPath != "" {
				t.Errorf("%s: %s can be written, or never changes (subPath)", name, mount.MountPath)
			}
		}
	}
}

// onOpenShift is what the chart makes of an example there.
func onOpenShift(t *testing.T, name string) []runtime.Object {
	t.Helper()
	can := chartutil.DefaultCapabilities.Copy()
	can.APIVersions = append(can.APIVersions, "security.openshift.io/v1")
	manifests, _, err := renderAt(example(t, name), can, cluster{})
	if err != nil {
		t.Fatal(err)
	}
	return decoded(t, manifests)
}

// TestNamesAreResolved asks the name server of the cluster, by the labels and the port of
// its pods.
func TestNamesAreResolved(t *testing.T) {
	for _, name := range values {
		for namespace, all := range map[string][]runtime.Object{
			"kube-system 53": rendered(t, example(t, name)), "openshift-dns 5353": onOpenShift(t, name),
		} {
			names := the[*networking.NetworkPolicy](t, all).Spec.Egress[0]
			in := names.To[0].NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"]
			for _, port := range names.Ports {
				if got := in + " " + port.Port.String(); got != namespace {
					t.Errorf("%s: names are asked for at %s, want %s", name, got, namespace)
				}
			}
		}
	}
}

// TestOpenShiftChoosesTheUser: there a namespace has users of its own, and any other is
// refused.
func TestOpenShiftChoosesTheUser(t *testing.T) {
	s := the[*apps.Deployment](t, onOpenShift(t, "single")).Spec.Template.Spec.SecurityContext
	if s.RunAsUser != nil || s.RunAsGroup != nil || s.FSGroup != nil || !isTrue(s.RunAsNonRoot, false) {
		t.Errorf("got %v, want any user but root", s)
	}
}

// TestTheAutoscalerBeginsWithTheReplicasThatRun: when the field disappears, Kubernetes
// sets it to one, and all pods but one end.
func TestTheAutoscalerBeginsWithTheReplicasThatRun(t *testing.T) {
	four := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": int64(4)}}}
	for name, test := range map[string]struct {
		in   cluster
		want *int32
	}{"four run": {cluster{live: four}, new(int32(4))}, "none is there yet": {cluster{}, nil}} {
		manifests, _, err := renderAt(with(t, "replicas", map[string]any{"autoscaling.enabled": true}),
			chartutil.DefaultCapabilities, test.in)
		if err != nil {
			t.Fatal(err)
		}
		if got := the[*apps.Deployment](t, decoded(t, manifests)).Spec.Replicas; !reflect.DeepEqual(got,
			test.want) {
			t.Errorf("%s: got %v replicas, want %v", name, got, test.want)
		}
	}
}

// TestTrustedProxiesAreNotAllPods: who has an address in them names any as the client's.
func TestTrustedProxiesAreNotAllPods(t *testing.T) {
	for _, name := range values {
		trusted, _ := config(t, rendered(t, example(t, name)))["trusted_proxies"].([]any)
		for _, text := range trusted {
			if network, err := netip.ParsePrefix(text.(string)); err != nil || network.Bits() < 24 {
				t.Errorf("%s: trusts %v, want 256 addresses at most", name, text)
			}
		}
	}
}

func isTrue(value *bool, unset bool) bool {
	if value == nil {
		return unset
	}
	return *value
}

// TestARedisThatIsGoneRestartsNobody wants liveness to ask for the process alone, and
// readiness for what it serves with.
func TestARedisThatIsGoneRestartsNobody(t *testing.T) {
	container := the[*apps.Deployment](t,
		rendered(t, example(t, "replicas"))).Spec.Template.Spec.Containers[0]
	for name, probe := range map[string]struct {
		got  *core.Probe
		path string
	}{
		"startup": {container.StartupProbe, "/healthz"}, "liveness": {container.LivenessProbe, "/healthz"},
		"readiness": {container.ReadinessProbe, "/readyz"},
	} {
		if http := probe.got.HTTPGet; http == nil || http.Path != probe.path ||
			http.Port != intstr.FromString("operator") {
			t.Errorf("%s asks %v, want %s of the operator's port", name, http, probe.path)
		}
	}
}

// TestEverythingSelectsThePods compares every selector with the labels of the pods, and
// every port with theirs.
func TestEverythingSelectsThePods(t *testing.T) {
	all := append(rendered(t, monitored(t, "ServiceMonitor")),
		the[*monitoring.PodMonitor](t, rendered(t, monitored(t, "PodMonitor"))))
	deployment := the[*apps.Deployment](t, all)
	labels := deployment.Spec.Template.Labels
	clients, operator := the[*core.Service](t, all, "drawbridge"), the[*core.Service](t, all,
		"drawbridge-operator")
	pods := the[*monitoring.PodMonitor](t, all)
	services := the[*monitoring.ServiceMonitor](t, all)
	selectors := map[string]map[string]string{
		"the Deployment":          deployment.Spec.Selector.MatchLabels,
		"the clients' Service":    clients.Spec.Selector,
		"the operator's Service":  operator.Spec.Selector,
		"the NetworkPolicy":       the[*networking.NetworkPolicy](t, all).Spec.PodSelector.MatchLabels,
		"the PodDisruptionBudget": the[*policy.PodDisruptionBudget](t, all).Spec.Selector.MatchLabels,
		"the PodMonitor":          pods.Spec.Selector.MatchLabels,
	}
	for _, spread := range deployment.Spec.Template.Spec.TopologySpreadConstraints {
		selectors["the spread over "+spread.TopologyKey] = spread.LabelSelector.MatchLabels
	}
	if len(selectors) != 8 {
		t.Errorf("found %d selectors, want 8 with the spread over zones and nodes", len(selectors))
	}
	for name, selector := range selectors {
		if len(selector) == 0 || !within(selector, labels) {
			t.Errorf("%s selects %v, and the pods have %v", name, selector, labels)
		}
	}
	if !within(services.Spec.Selector.MatchLabels, operator.Labels) ||
		within(services.Spec.Selector.MatchLabels, clients.Labels) {
		t.Errorf("the ServiceMonitor selects %v, want the operator's Service alone",
			services.Spec.Selector.MatchLabels)
	}
	if target := the[*autoscaling.HorizontalPodAutoscaler](t,
		all).Spec.ScaleTargetRef; target.Name != deployment.Name || target.Kind != "Deployment" {
		t.Errorf("the autoscaler scales %v", target)
	}
	var ports []string
	for _, port := range deployment.Spec.Template.Spec.Containers[0].Ports {
		ports = append(ports, port.Name)
	}
	for _, port := range []string{
		clients.Spec.Ports[0].TargetPort.StrVal, operator.Spec.Ports[0].TargetPort.StrVal,
		operator.Spec.Ports[0].Name,
		services.Spec.Endpoints[0].Port, *pods.Spec.PodMetricsEndpoints[0].Port,
	} {
		if !slices.Contains(ports, port) {
			t.Errorf("something asks port %q, and the pods have %q", port, ports)
		}
	}
	for _, monitor := range []string{services.Spec.JobLabel, pods.Spec.JobLabel} {
		if labels[monitor] != "drawbridge" || operator.Labels[monitor] != "drawbridge" {
			t.Errorf("the job is %q, and the alerts are for drawbridge", labels[monitor])
		}
	}
}

func within(few, many map[string]string) bool {
	for key, value := range few {
		if many[key] != value {
			return false
		}
	}
	return true
}

// TestClientsReachOneServiceAndNoMore wants the operator's port, where nobody asks for a
// token, in no Service of clients.
func TestClientsReachOneServiceAndNoMore(t *testing.T) {
	all := rendered(t, example(t, "replicas"))
	clients := the[*core.Service](t, all, "drawbridge")
	if len(clients.Spec.Ports) != 1 || clients.Spec.Ports[0].TargetPort.StrVal != "mcp" ||
		clients.Spec.SessionAffinity == core.ServiceAffinityClientIP {
		t.Errorf("clients get %v, with affinity %q; want the port mcp alone, without", clients.Spec.Ports,
			clients.Spec.SessionAffinity)
	}
	for _, rule := range the[*networking.NetworkPolicy](t, all).Spec.Ingress {
		if len(rule.From) == 0 || len(rule.Ports) != 1 {
			t.Errorf("%v lets in from anywhere, or to more than one port", rule)
		}
	}
	if rules := the[*networking.NetworkPolicy](t,
		rendered(t, example(t, "single"))).Spec; len(rules.Ingress) != 1 ||
		rules.Ingress[0].Ports[0].Port.StrVal != "mcp" ||
		len(rules.Egress) != 1 || rules.Egress[0].Ports[0].Port.IntVal != 53 ||
		!slices.Equal(rules.PolicyTypes, []networking.PolicyType{"Ingress", "Egress"}) {
		t.Errorf("got %v, want clients in and names out, and nothing else", rules)
	}
}

// TestSharesAreForThoseThatDrainToo wants the shares in limits while Redis is away to be
// for as many replicas as live at once: in a rollout every old one may still drain when
// every new one is there, however few Kubernetes starts at a time.
func TestSharesAreForThoseThatDrainToo(t *testing.T) {
	for _, test := range []struct {
		changes map[string]any
		want    float64
	}{
		{nil, 12},
		{map[string]any{"rollout.maxSurge": 2}, 12},
		{map[string]any{"autoscaling.enabled": false, "replicaCount": 3}, 6},
		{map[string]any{"autoscaling.enabled": false}, 2},
		{map[string]any{"config.replicas": 13}, 13},
	} {
		all := rendered(t, with(t, "replicas", test.changes))
		if got := config(t, all)["replicas"]; got != test.want {
			t.Errorf("%v: got replicas: %v, want %v", test.changes, got, test.want)
		}
		rolling := the[*apps.Deployment](t, all).Spec.Strategy.RollingUpdate
		if wait := the[*apps.Deployment](t, all).Spec.MinReadySeconds; wait != 10 {
			t.Errorf("a new pod counts after %d seconds, want 10: until then it may have seen no issuer",
				wait)
		}
		if rolling.MaxUnavailable.IntVal != 0 || rolling.MaxUnavailable.Type != intstr.Int {
			t.Errorf("a rollout has %v fewer than wanted", rolling.MaxUnavailable)
		}
	}
	if got, has := config(t, rendered(t, example(t, "single")))["replicas"]; has {
		t.Errorf("one replica by itself has replicas: %v", got)
	}
}

// config returns the gateway's config in what was rendered.
func config(t *testing.T, all []runtime.Object) map[string]any {
	t.Helper()
	parsed := make(map[string]any)
	if err := yaml.UnmarshalStrict([]byte(the[*core.ConfigMap](t, all).Data["drawbridge.yaml"]),
		&parsed); err != nil {
		t.Fatal(err)
	}
	return parsed
}

// TestWhatOnlyARestartChangesReplacesThePods knows from the gateway's source which
// settings those are. Any other must not touch the pods, because the gateway takes it
// over while it runs.
func TestWhatOnlyARestartChangesReplacesThePods(t *testing.T) {
	_, source, found := strings.Cut(read(t, "../../../cmd/drawbridge/changes.go"), "func restartNeeded(")
	source, _, ended := strings.Cut(source, "\n}")
	settings := regexp.MustCompile(`(?m)^\t\t"([\w.]+)":`).FindAllStringSubmatch(source, -1)
	if !found || !ended || len(settings) < 10 {
		t.Fatalf("found the settings %q in restartNeeded", settings)
	}
	other := map[string]any{
		"listen": "0.0.0.0:8081", "operator": "0.0.0.0:9091", "revisions.legacy_sse": false,
		"audit.file": "/var/lib/drawbridge/${POD_NAME}.jsonl", "audit.when_full": "drop", "audit.sync": "always",
		"audit.arguments": map[string]any{"files__*": []any{"path"}},
		"audit.key_file":  "/run/secrets/drawbridge/audit.key",
		"key_sets_dir":    "/var/lib/drawbridge",
		"data":            map[string]any{"dir": "/var/lib/drawbridge/data"},
		"extensions":      map[string]any{"pass": []any{"com.example/thing"}},
		"sign_in": []any{map[string]any{
			"issuer": "https://login.example.com/", "algorithms": []any{"RS256"}, "tenant": "acme",
			"sign_in": map[string]any{
				"client_id":          "drawbridge",
				"client_secret_file": "/run/secrets/drawbridge/idp.secret",
			},
		}},
		"card":   map[string]any{"name": "com.example/tools", "description": "Tools"},
		"limits": map[string]any{"max_requests": 7}, "link": map[string]any{"listen": ":9099"},
		"lists.page_size": 7, "redis": map[string]any{"url": "redis://other.example.com"}, "replicas": 13,
		"sessions": map[string]any{
			"keys_file": "/run/secrets/drawbridge/session.keys",
			"idle":      "1m",
		},
		"sessions.keys_file": nil, "log.format": "text",
	}
	before := template(t, nil)
	for _, setting := range settings {
		name := setting[1]
		value, known := other[name]
		if !known {
			t.Errorf(
				"%s needs a restart, and nobody looked whether the chart knows: add a value to this test",
				name)
			continue
		}
		before, changes := before, map[string]any{"config." + name: value}
		switch name {
		case "sign_in": // that an issuer, or a client, has begun to use it
			changes = map[string]any{"config.issuers": value}
		case "sessions.keys_file":
			changes["config.redis"] = nil
			changes["autoscaling.enabled"] = false
		case "audit.file", "data", "key_sets_dir": // these want a volume, which replaces the pods by itself
			volume := map[string]any{"persistentVolumeClaim": map[string]any{"claimName": "kept"}}
			before = template(t, map[string]any{"audit.volume": volume})
			changes["audit.volume"] = volume
		}
		if reflect.DeepEqual(before, template(t, changes)) {
			t.Errorf("a change of %s leaves the pods as they are, and needs a restart", name)
		}
	}
	for name, value := range map[string]any{
		"public_url": "https://other.example.com", "log.level": "debug", "access_keys": "on",
		"trusted_proxies": []any{"10.1.0.0/16"},
		"issuers": []any{map[string]any{
			"issuer":   "https://other.example.com/",
			"jwks_url": "https://other.example.com/keys", "tenant": "acme",
		}},
		"sessions":     map[string]any{"keys_file": "/run/secrets/drawbridge/other.keys"},
		"audit.claims": []any{"email"},
	} {
		if after := template(t, map[string]any{"config." + name: value}); !reflect.DeepEqual(before, after) {
			t.Errorf("a change of %s replaces the pods, and the gateway takes it over without:\n%v\n%v", name,
				before.Annotations, after.Annotations)
		}
	}
}

// TestOldPodsFindTheirConfigInAnUpgrade: a pod mounts the config of its own image and
// settings, which stays when another takes its place, and other changes are made where it
// reads them.
func TestOldPodsFindTheirConfigInAnUpgrade(t *testing.T) {
	named := func(changes map[string]any) string {
		t.Helper()
		all := rendered(t, with(t, "replicas", changes))
		made := the[*core.ConfigMap](t, all)
		if got := the[*apps.Deployment](t,
			all).Spec.Template.Spec.Volumes[0].ConfigMap.Name; got != made.Name {
			t.Errorf("%v: the pods mount %s, want %s", changes, got, made.Name)
		}
		if made.Annotations["helm.sh/resource-policy"] != "keep" {
			t.Errorf("%v: Helm removes %s in an upgrade", changes, made.Name)
		}
		return made.Name
	}
	before := named(nil)
	for what, test := range map[string]struct {
		changes map[string]any
		same    bool
	}{
		"the image":              {map[string]any{"image.tag": "v2"}, false},
		"what needs a restart":   {map[string]any{"config.limits": map[string]any{"max_requests": 7}}, false},
		"what is reloaded":       {map[string]any{"config.log.level": "debug"}, true},
		"the number of replicas": {map[string]any{"autoscaling.minReplicas": 3}, true},
	} {
		if got := named(test.changes); (got == before) != test.same {
			t.Errorf("%s changes: the config is %s, and was %s", what, got, before)
		}
	}
}

// template returns the pods' template of the replicas with changes.
func template(t *testing.T, changes map[string]any) core.PodTemplateSpec {
	t.Helper()
	return the[*apps.Deployment](t, rendered(t, with(t, "replicas", changes))).Spec.Template
}

// TestAlertsAreThoseOfTheRepository compares the PrometheusRule with the file that has
// its own unit tests.
func TestAlertsAreThoseOfTheRepository(t *testing.T) {
	var want monitoring.PrometheusRuleSpec
	if err := yaml.UnmarshalStrict([]byte(read(t, "../../prometheus/alerts.yml")), &want); err != nil {
		t.Fatal(err)
	}
	got := the[*monitoring.PrometheusRule](t, rendered(t, monitored(t, "PodMonitor"))).Spec
	if len(got.Groups) == 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("the rules are not those of deploy/prometheus/alerts.yml")
	}
}

// TestRecordsCanGoToAVolume keeps the record of each pod in a file of its own.
func TestRecordsCanGoToAVolume(t *testing.T) {
	all := rendered(t, with(t, "single", map[string]any{
		"config.audit": map[string]any{"file": "/var/lib/drawbridge/${POD_NAME}.jsonl"},
		"audit.volume": map[string]any{"persistentVolumeClaim": map[string]any{"claimName": "audit"}},
	}))
	pod := the[*apps.Deployment](t, all).Spec.Template.Spec
	volume, mount := pod.Volumes[len(pod.Volumes)-1],
		pod.Containers[0].VolumeMounts[len(pod.Containers[0].VolumeMounts)-1]
	if volume.Name != "audit" || volume.PersistentVolumeClaim.ClaimName != "audit" || mount.Name != "audit" ||
		mount.MountPath != "/var/lib/drawbridge" || mount.ReadOnly {
		t.Errorf("got the volume %v at %v", volume, mount)
	}
	if env := pod.Containers[0].Env[0]; env.Name != "POD_NAME" ||
		env.ValueFrom.FieldRef.FieldPath != "metadata.name" {
		t.Errorf("got the variable %v, want the name of the pod", env)
	}
}

// TestDataOfOneReplicaIsOnAVolume is what docs/kubernetes.md says of data without
// PostgreSQL. Most volumes are at one node at a time: in a rollout a pod elsewhere would
// wait for one that goes only after it.
func TestDataOfOneReplicaIsOnAVolume(t *testing.T) {
	all := rendered(t, with(t, "single", map[string]any{
		"config.data":  map[string]any{"dir": "/var/lib/drawbridge/data"},
		"audit.volume": map[string]any{"persistentVolumeClaim": map[string]any{"claimName": "kept"}},
	}))
	pod := the[*apps.Deployment](t, all).Spec.Template
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAffinity == nil {
		t.Fatal("a new pod may run at another node than the old one, which has the volume")
	}
	beside := pod.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if len(beside) != 1 || beside[0].TopologyKey != "kubernetes.io/hostname" ||
		!within(beside[0].LabelSelector.MatchLabels, pod.Labels) {
		t.Errorf("got the affinity %v, want the node of the pod before", beside)
	}
}

// TestABackupCanBeRestoredInAPod wants a folder for the copy of a backup, which data
// restore makes in the temporary folder of a system without data.dir.
func TestABackupCanBeRestoredInAPod(t *testing.T) {
	pod := template(t, map[string]any{
		"config.data": map[string]any{"postgres_file": "/run/secrets/drawbridge/postgres.dsn"},
	}).Spec
	volume, mount := pod.Volumes[len(pod.Volumes)-1],
		pod.Containers[0].VolumeMounts[len(pod.Containers[0].VolumeMounts)-1]
	if volume.EmptyDir == nil || mount.Name != volume.Name || mount.MountPath != "/tmp" || mount.ReadOnly {
		t.Errorf("got the volume %v at %v, want a folder at /tmp that can be written", volume, mount)
	}
}

// TestADigestWinsOverATag pins the image.
func TestADigestWinsOverATag(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0a", 32)
	got := template(t, map[string]any{"image.digest": digest}).Spec.Containers[0].Image
	if want := "registry.example.com/drawbridge@" + digest; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestNotesSayTheNextTwoCommands reads what Helm prints at the end.
func TestNotesSayTheNextTwoCommands(t *testing.T) {
	_, notes, err := render(example(t, "single"))
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile(`(?m)^  kubectl .*$`).FindAllString(notes, -1)
	want := []string{
		"  kubectl -n drawbridge rollout status deployment/drawbridge",
		"  kubectl -n drawbridge exec deploy/drawbridge -- /drawbridge healthcheck -addr 0.0.0.0:9090",
	}
	if !slices.Equal(commands, want) {
		t.Errorf("got %q, want %q", commands, want)
	}
}

// TestOneReplicaHasNothingForSeveral wants neither a budget nor an autoscaler for a
// single replica.
func TestOneReplicaHasNothingForSeveral(t *testing.T) {
	kinds := make(map[string]int)
	for _, object := range rendered(t, example(t, "single")) {
		kinds[object.GetObjectKind().GroupVersionKind().Kind]++
	}
	want := map[string]int{
		"ConfigMap": 1, "Deployment": 1, "NetworkPolicy": 1, "Service": 2,
		"ServiceAccount": 1,
	}
	if !maps.Equal(kinds, want) {
		t.Errorf("got %v, want %v", kinds, want)
	}
}
