// Package check looks at what a release is made of. It renders the chart by Helm's own engine,
// and reads what comes of it by Kubernetes' own types. It is a module of its own: neither is a
// dependency of the service.
package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

// rendered is the chart with some values; what there is none of is nil.
type rendered struct {
	deployment *appsv1.Deployment
	stateful   *appsv1.StatefulSet
	service    *corev1.Service
	disruption *policyv1.PodDisruptionBudget
}

// render renders the chart as `helm install shop` does. A value that the templates name and
// values.yaml has not, and a field that Kubernetes does not know, are errors.
func render(t *testing.T, values string) (out rendered, err error) {
	t.Helper()
	chart, err := loader.Load("../helm/fireonce")
	if err != nil {
		t.Fatal(err)
	}
	if err := chart.Validate(); err != nil {
		t.Fatal(err)
	}
	own, err := chartutil.ReadValues([]byte(values))
	if err != nil {
		t.Fatal(err)
	}
	for name := range own {
		if _, known := chart.Values[name]; !known {
			t.Fatalf("values.yaml has no %s", name)
		}
	}
	all, err := chartutil.ToRenderValues(chart, own, chartutil.ReleaseOptions{Name: "shop", Namespace: "shop"}, chartutil.DefaultCapabilities)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Engine{Strict: true}.Render(chart, all)
	if err != nil {
		return out, err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text := files[name]
		if strings.TrimSpace(text) == "" || strings.HasSuffix(name, ".tpl") {
			continue
		}
		var kind struct{ Kind string }
		if err := yaml.Unmarshal([]byte(text), &kind); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, text)
		}
		var into any
		switch kind.Kind {
		case "Deployment":
			out.deployment = new(appsv1.Deployment)
			into = out.deployment
		case "StatefulSet":
			out.stateful = new(appsv1.StatefulSet)
			into = out.stateful
		case "Service":
			out.service = new(corev1.Service)
			into = out.service
		case "PodDisruptionBudget":
			out.disruption = new(policyv1.PodDisruptionBudget)
			into = out.disruption
		default:
			t.Fatalf("%s has a %q", name, kind.Kind)
		}
		if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, text)
		}
	}
	return out, nil
}

func environment(c corev1.Container) map[string]string {
	out := make(map[string]string)
	for _, e := range c.Env {
		out[e.Name] = e.Value
		if e.ValueFrom != nil {
			out[e.Name] = fmt.Sprintf("%s of %s", e.ValueFrom.SecretKeyRef.Key, e.ValueFrom.SecretKeyRef.Name)
		}
	}
	return out
}

// unprivileged checks that a pod needs no rights.
func unprivileged(t *testing.T, pod corev1.PodSpec) {
	t.Helper()
	own, c := pod.SecurityContext, pod.Containers[0].SecurityContext
	if !*own.RunAsNonRoot || *own.RunAsUser != 65532 || *c.AllowPrivilegeEscalation || !*c.ReadOnlyRootFilesystem ||
		fmt.Sprint(c.Capabilities.Drop) != "[ALL]" || *pod.AutomountServiceAccountToken {
		t.Errorf("%+v, %+v", own, c)
	}
}

// TestOnPostgreSQL: as the chart comes, two servers on PostgreSQL are replaced one by one.
func TestOnPostgreSQL(t *testing.T) {
	got, err := render(t, "")
	if err != nil {
		t.Fatal(err)
	}
	d := got.deployment
	if d == nil || got.stateful != nil || got.disruption == nil {
		t.Fatalf("%+v", got)
	}
	unprivileged(t, d.Spec.Template.Spec)
	if roll := d.Spec.Strategy.RollingUpdate; *d.Spec.Replicas != 2 || roll.MaxUnavailable.IntValue() != 0 || roll.MaxSurge.IntValue() != 1 {
		t.Errorf("%+v", d.Spec)
	}
	c := d.Spec.Template.Spec.Containers[0]
	if want := map[string]string{
		"FIREONCE_DATABASE": "url of fireonce-database", "FIREONCE_API_KEY": "key of fireonce-api-key",
		"FIREONCE_KEYS": "keys of fireonce-sealing-keys", "FIREONCE_SHUTDOWN_DELAY": "5s",
	}; !maps.Equal(environment(c), want) {
		t.Errorf("%v", environment(c))
	}
	if c.ReadinessProbe.GRPC == nil || len(c.Ports) != 2 || len(got.service.Spec.Ports) != 2 || *got.service.Spec.Ports[0].AppProtocol != "kubernetes.io/h2c" {
		t.Errorf("%+v, %+v", c, got.service)
	}
	for name, value := range got.service.Spec.Selector {
		if d.Spec.Template.Labels[name] != value || d.Spec.Selector.MatchLabels[name] != value || got.disruption.Spec.Selector.MatchLabels[name] != value {
			t.Errorf("%s is %s for the service alone", name, value)
		}
	}
}

// TestOnSQLite: one server, and its database is on a volume.
func TestOnSQLite(t *testing.T) {
	got, err := render(t, "replicas: 1\ndatabase: {secretName: ''}\ntls: {secretName: front}")
	if err != nil {
		t.Fatal(err)
	}
	s := got.stateful
	if s == nil || got.deployment != nil || got.disruption != nil || len(s.Spec.VolumeClaimTemplates) != 1 {
		t.Fatalf("%+v", got)
	}
	unprivileged(t, s.Spec.Template.Spec)
	if c := s.Spec.Template.Spec.Containers[0]; environment(c)["FIREONCE_DATABASE"] != "" || len(s.Spec.Template.Spec.Volumes) != 1 {
		t.Errorf("%+v", s.Spec.Template.Spec)
	}
	if _, err := render(t, "database: {secretName: ''}"); err == nil || !strings.Contains(err.Error(), "SQLite serves one server") {
		t.Errorf("two servers on one file: %v", err)
	}
}

// TestWithEverything: TLS, metrics and the rest of what values.yaml offers.
func TestWithEverything(t *testing.T) {
	got, err := render(t, `
tls: {secretName: front}
connectors: {secretName: own}
metrics: {enabled: true}
podAnnotations: {prometheus.io/scrape: "true"}
env: {FIREONCE_ALLOW_EGRESS: 10.0.0.0/8}
nodeSelector: {disk: fast}
tolerations: [{key: only, operator: Exists}]
affinity: {nodeAffinity: {}}
`)
	if err != nil {
		t.Fatal(err)
	}
	pod := got.deployment.Spec.Template
	c, env := pod.Spec.Containers[0], environment(pod.Spec.Containers[0])
	if env["FIREONCE_TLS_CERT"] != "/etc/fireonce/tls/tls.crt" || env["FIREONCE_OPS_LISTEN"] != "0.0.0.0:9464" || env["FIREONCE_CONNECTORS"] != "/etc/fireonce/connectors/connectors.json" || env["FIREONCE_ALLOW_EGRESS"] != "10.0.0.0/8" {
		t.Errorf("%v", env)
	}
	if c.ReadinessProbe.HTTPGet == nil || c.ReadinessProbe.HTTPGet.Scheme != corev1.URISchemeHTTPS || *got.service.Spec.Ports[0].AppProtocol != "https" {
		t.Errorf("%+v", c.ReadinessProbe)
	}
	if len(c.Ports) != 3 || len(pod.Spec.Volumes) != 3 || len(c.VolumeMounts) != 3 || !c.VolumeMounts[1].ReadOnly ||
		pod.Annotations["prometheus.io/scrape"] != "true" || len(pod.Spec.Tolerations) != 1 || pod.Spec.NodeSelector["disk"] != "fast" {
		t.Errorf("%+v", pod)
	}
}
