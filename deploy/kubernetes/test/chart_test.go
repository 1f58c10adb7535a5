package kubernetes_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	helm "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"
)

const chart = "../../helm/drawbridge"

var update = flag.Bool("update", false, "write the manifests instead of comparing them")

// values are the complete examples: the two that are rendered into the manifests.
var values = []string{"single", "replicas"}

// example returns the values of one of them.
func example(t *testing.T, name string) map[string]any {
	t.Helper()
	v, err := chartutil.ReadValuesFile("../values-" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// with returns the example with some values changed, or without those that become nil. A
// path has dots between its names.
func with(t *testing.T, name string, changes map[string]any) map[string]any {
	t.Helper()
	all := example(t, name)
	for path, value := range changes {
		names := strings.Split(path, ".")
		at := all
		for _, name := range names[:len(names)-1] {
			next, ok := at[name].(map[string]any)
			if !ok {
				next = make(map[string]any)
				at[name] = next
			}
			at = next
		}
		if value == nil {
			delete(at, names[len(names)-1])
			continue
		}
		at[names[len(names)-1]] = value
	}
	return all
}

// loaded is the chart.
var loaded = sync.OnceValues(func() (*helm.Chart, error) { return loader.Load(chart) })

// scratch is a folder for what all tests share, as long as they run.
var scratch string

// TestMain keeps Helm from saying at each test that files/alerts.yml is a link.
func TestMain(m *testing.M) {
	log.SetOutput(io.Discard)
	var err error
	if scratch, err = os.MkdirTemp("", "drawbridge-chart-*"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(scratch) // the system removes it one day
	os.Exit(code)
}

// render returns what `helm install drawbridge` in the namespace drawbridge would send to
// the cluster, and NOTES.txt.
func render(v map[string]any) (manifests, notes string, err error) {
	return renderAt(v, chartutil.DefaultCapabilities, cluster{})
}

// cluster is what the chart can look up: a Deployment, nil if there is none.
type cluster struct {
	dynamic.NamespaceableResourceInterface
	live *unstructured.Unstructured
}

func (c cluster) GetClientFor(string, string) (dynamic.NamespaceableResourceInterface, bool, error) {
	return c, true, nil
}

func (c cluster) Namespace(string) dynamic.ResourceInterface { return c }

func (c cluster) Get(context.Context, string, meta.GetOptions,
	...string,
) (*unstructured.Unstructured, error) {
	if c.live == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, "drawbridge")
	}
	return c.live, nil
}

// renderAt is render for a cluster with these capabilities, and with what the chart can
// look up in it.
func renderAt(v map[string]any, can *chartutil.Capabilities,
	from engine.ClientProvider,
) (manifests, notes string, err error) {
	c, err := loaded()
	if err != nil {
		return "", "", err
	}
	release := chartutil.ReleaseOptions{
		Name: "drawbridge", Namespace: "drawbridge", Revision: 1,
		IsInstall: true,
	}
	all, err := chartutil.ToRenderValues(c, v, release, can)
	if err != nil {
		return "", "", err
	}
	files, err := engine.RenderWithClientProvider(c, all, from)
	if err != nil {
		return "", "", err
	}
	var names []string
	for name, text := range files {
		if strings.HasSuffix(name, ".yaml") && strings.TrimSpace(text) != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var out strings.Builder
	for _, name := range names {
		fmt.Fprintf(&out, "---\n# Source: %s\n%s\n", name, strings.Trim(files[name], "\n"))
	}
	return out.String(), files["drawbridge/templates/NOTES.txt"], nil
}

// rendered is render for values that are right.
func rendered(t *testing.T, v map[string]any) []runtime.Object {
	t.Helper()
	manifests, _, err := render(v)
	if err != nil {
		t.Fatal(err)
	}
	return decoded(t, manifests)
}

// decoded reads manifests strictly: a name that the type has not, or one that comes
// twice, ends the test.
func decoded(t *testing.T, manifests string) []runtime.Object {
	t.Helper()
	all, err := decode(manifests)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func decode(manifests string) ([]runtime.Object, error) {
	known := runtime.NewScheme()
	for _, add := range []func(
		*runtime.Scheme) error{scheme.AddToScheme, monitoring.AddToScheme, gateway.Install} {
		if err := add(known); err != nil {
			return nil, err
		}
	}
	strict := serializer.NewCodecFactory(known, serializer.EnableStrict).UniversalDeserializer()
	var all []runtime.Object
	for _, document := range regexp.MustCompile(`(?m)^---$`).Split(manifests, -1) {
		var meta struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
		}
		if err := yaml.Unmarshal([]byte(document), &meta); err != nil {
			return nil, err
		}
		if meta.Kind == "" || foreign[meta.APIVersion+"/"+meta.Kind] {
			continue
		}
		object, _, err := strict.Decode([]byte(document), nil, nil)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", meta.APIVersion, meta.Kind, err)
		}
		all = append(all, object)
	}
	return all, nil
}

// foreign are the kinds of the examples that only their controller's own modules have
// types of.
var foreign = map[string]bool{
	"gateway.nginx.org/v1alpha1/ProxySettingsPolicy":  true,
	"gateway.nginx.org/v1alpha1/ClientSettingsPolicy": true,
	"gate.v3.haproxy.org/v3/Backend":                  true,
}

// the returns the only object of its type, or the one that has that name.
func the[T runtime.Object](t *testing.T, all []runtime.Object, name ...string) T {
	t.Helper()
	var found []T
	for _, object := range all {
		if one, ok := object.(T); ok &&
			(len(name) == 0 || any(one).(interface{ GetName() string }).GetName() == name[0]) {
			found = append(found, one)
		}
	}
	if len(found) != 1 {
		t.Fatalf("found %d objects of type %T %q, want one", len(found), *new(T), name)
	}
	return found[0]
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestChartIsWithoutFaultsForHelmLint(t *testing.T) {
	capabilities, err := chartutil.ParseKubeVersion("v1.34.0")
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]map[string]any{
		"defaults": {}, "single": example(t, "single"),
		"replicas": example(t, "replicas"),
	} {
		for _, message := range lint.AllWithKubeVersion(chart, v, "drawbridge", capabilities).Messages {
			if !strings.Contains(message.Error(), "icon is recommended") {
				t.Errorf("%s: %s", name, message.Error())
			}
		}
	}
}

// TestManifestsAreWhatTheChartRenders is for those who have no Helm: the files beside the
// examples are its output.
func TestManifestsAreWhatTheChartRenders(t *testing.T) {
	for _, name := range values {
		manifests, _, err := render(example(t, name))
		if err != nil {
			t.Fatal(err)
		}
		head := "# Made of the chart deploy/helm/drawbridge and values-" + name +
			".yaml, where the first steps are: make chart ARGS=-update\n"
		file := filepath.Join("..", name+".yaml")
		if *update {
			if err := os.WriteFile(file, []byte(head+manifests), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, []byte(head+manifests)) {
			t.Errorf(
				"%s is not what the chart renders with values-%s.yaml (%v); make chart ARGS=-update writes it", file, name, err)
		}
		decoded(t, manifests)
	}
}

// TestExamplesOfIngressAreGood reads all that stands in the folder, the examples for
// ingress controllers too.
func TestExamplesOfIngressAreGood(t *testing.T) {
	for _, name := range []string{"ingress-nginx", "ingress-haproxy", "gateway-nginx", "gateway-haproxy"} {
		if all := decoded(t, read(t, "../"+name+".yaml")); len(all) == 0 {
			t.Errorf("%s holds nothing", name)
		}
	}
}

func TestTheDecodingCanFail(t *testing.T) {
	for _, wrong := range []string{
		"apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {prots: []}\n",
		"apiVersion: v1\nkind: Service\nmetadata: {name: a, name: b}\n",
		"apiVersion: monitoring.coreos.com/v1\nkind: PodMonitor\nmetadata: {name: a}\nspec: {endpoint: []}\n",
		"apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: a}\nspec: {rule: []}\n",
		"apiVersion: example.com/v1\nkind: Unknown\nmetadata: {name: a}\n",
	} {
		if _, err := decode(wrong); err == nil {
			t.Errorf("%q was taken", wrong)
		}
	}
}
