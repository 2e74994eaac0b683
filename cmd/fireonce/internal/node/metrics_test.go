package node

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/metrics"
	"github.com/fireonce/fireonce/internal/proof/memdir"
	"github.com/fireonce/fireonce/store"
)

// running starts a node with an operations listener on a database of its own.
func running(t *testing.T) *Node {
	t.Helper()
	n, err := Start(t.Context(), Config{
		Listen: "127.0.0.1:0", OpsListen: "127.0.0.1:0", Database: "sqlite:" + filepath.Join(memdir.New(t), "fireonce.db"),
		Log: slog.New(slog.DiscardHandler), Version: "test", Dev: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return n
}

func get(t *testing.T, url string, host string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// everything is a database in which all that is measured has a value.
type everything struct{ metrics.Database }

func (everything) Vitals(context.Context) (store.Vitals, error) {
	return store.Vitals{Due: 7, OldestDue: time.Minute, Holds: map[store.HeldBy]int64{{Connector: "x", Cause: store.HoldAuth}: 1}, Connections: map[string]int64{"x": 4}}, nil
}

func (everything) Meta(context.Context) (store.Meta, error) {
	return store.Meta{Quarantined: "why", EventLag: time.Second}, nil
}

// TestMetricsAsDocumented compares docs/metrics.md with what /metrics serves, both ways.
func TestMetricsAsDocumented(t *testing.T) {
	n := running(t)
	m := n.metrics
	m.Watch(everything{})
	m.Armed("x", job.Keyed, 1, time.Second)
	conn := &store.Connection{Connector: "x"}
	m.Settled(conn, "account", job.Keyed, job.Outcome{Result: job.ResultUnknown})
	m.Settled(conn, "account", job.Keyed, job.Looked{Observation: job.Observation{Verdict: job.SawPresent}})
	m.Settled(conn, "account", job.Keyed, job.Deferred{Kind: job.FailTransient})
	before, after := job.Snapshot{}, job.Snapshot{}
	before.State, after.State, after.Class = job.Sending, job.Succeeded, job.Keyed
	m.Wrote("x", &before, &after, &job.Decision{To: job.Succeeded, Effect: &job.Effect{Proof: job.ProofKeyReplay}})
	m.Wrote("x", &before, &after, &job.Decision{Cause: job.CauseDuplicateEffect})
	m.TakenUp(1)
	m.StoreFailed("claim")
	m.Called("/x/Y", "ok", true, time.Second)

	code, text := get(t, n.OpsURL()+"/metrics", "")
	if code != http.StatusOK {
		t.Fatalf("/metrics answered %d: %s", code, text)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	served := make(map[string]string)
	for name, f := range families {
		if strings.HasPrefix(name, "fireonce_") {
			served[name] = fmt.Sprintf("%s of %s", strings.ToLower(f.GetType().String()), strings.Join(labelsOf(f), ", "))
		}
	}
	documented := documentedMetrics(t)
	for _, name := range slices.Sorted(maps.Keys(served)) {
		if documented[name] != served[name] {
			t.Errorf("%s is served as a %s; docs/metrics.md says %q", name, served[name], documented[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(documented)) {
		if served[name] == "" {
			t.Errorf("%s is in docs/metrics.md and is not served", name)
		}
	}
	if len(served) < 30 {
		t.Errorf("only %d metrics are served", len(served))
	}
}

func labelsOf(f *dto.MetricFamily) (out []string) {
	for _, l := range f.GetMetric()[0].GetLabel() {
		out = append(out, l.GetName())
	}
	slices.Sort(out)
	return out
}

var (
	metricRow = regexp.MustCompile("(?m)^\\| `(fireonce_\\w+)` \\| (\\w+) \\|([^|]*)\\|")
	metricArg = regexp.MustCompile("`(\\w+)`")
)

func documentedMetrics(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]string)
	for _, row := range metricRow.FindAllStringSubmatch(string(text), -1) {
		var labels []string
		for _, l := range metricArg.FindAllStringSubmatch(row[3], -1) {
			labels = append(labels, l[1])
		}
		slices.Sort(labels)
		if out[row[1]] != "" {
			t.Errorf("%s has two rows", row[1])
		}
		out[row[1]] = fmt.Sprintf("%s of %s", row[2], strings.Join(labels, ", "))
	}
	return out
}

// TestDeployedNames: the dashboard and the alert rules ask for metrics that there are.
func TestDeployedNames(t *testing.T) {
	documented, name := documentedMetrics(t), regexp.MustCompile(`fireonce_[a-z0-9_]+`)
	for _, file := range []string{"grafana/fireonce.json", "prometheus/alerts.yml", "prometheus/alerts_test.yml", "prometheus/alerts_days_test.yml"} {
		text, err := os.ReadFile("../../../../deploy/" + file)
		if err != nil {
			t.Fatal(err)
		}
		found := name.FindAllString(string(text), -1)
		if len(found) < 4 {
			t.Errorf("%s asks for %d metrics", file, len(found))
		}
		for _, n := range found {
			if documented[strings.TrimSuffix(n, "_bucket")] == "" {
				t.Errorf("%s asks for %s", file, n)
			}
		}
	}
	text, err := os.ReadFile("../../../../deploy/grafana/fireonce.json")
	if err != nil || !json.Valid(text) {
		t.Errorf("the dashboard is no JSON: %v", err)
	}
}

// TestOperationsListener: it is apart from the API's port, answers to loopback names only,
// and /status has the numbers of /metrics.
func TestOperationsListener(t *testing.T) {
	n := running(t)
	n.metrics.Watch(everything{})
	for _, tt := range []struct {
		name, url, host string
		code            int
		says            string
	}{
		{"metrics", n.OpsURL() + "/metrics", "", http.StatusOK, "fireonce_due_jobs 7\n"},
		{"alive", n.OpsURL() + "/livez", "", http.StatusOK, "alive"},
		{"ready", n.OpsURL() + "/readyz", "localhost", http.StatusOK, "ready"},
		{"status", n.OpsURL() + "/status", "", http.StatusOK, `"oldest_due_seconds":60,`},
		{"a name of somebody else's", n.OpsURL() + "/metrics", "evil.example", http.StatusMisdirectedRequest, "loopback"},
		{"not the API", n.OpsURL() + "/fireonce.v1.JobService/GetJob", "", http.StatusNotFound, ""},
		{"not on the API's port", n.URL() + "/metrics", "", http.StatusNotFound, ""},
	} {
		code, text := get(t, tt.url, tt.host)
		if code != tt.code || !strings.Contains(text, tt.says) {
			t.Errorf("%s: %d %s", tt.name, code, text)
		}
	}
}
