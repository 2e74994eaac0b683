package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/memdir"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/sqlite"
)

// promtool returns the path of the program that evaluates alert rules.
func promtool(t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("promtool"); err == nil {
		return path
	}
	path, err := filepath.Abs("../../.tools/bin/promtool")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skip("promtool is missing: .ci/need-promtool")
	}
	return path
}

var opsURL = regexp.MustCompile(`, operations ([^,]+),`)

// watched is a real server that Prometheus would scrape, on a database with a past.
type watched struct {
	*process
	metrics string
}

func watch(t *testing.T, path string, flags ...string) watched {
	t.Helper()
	binary, err := exec.LookPath("fireonce") // this test's binary, see TestMain
	if err != nil {
		t.Fatal(err)
	}
	p, err := startProcess(binary, memdir.New(t), os.Environ(), append([]string{
		"--dev", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--database", "sqlite:" + path,
	}, flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	found := opsURL.FindStringSubmatch(p.line)
	if found == nil {
		t.Fatalf("no operations listener: %s", p.line)
	}
	return watched{p, "http://" + found[1] + "/metrics"}
}

// scrape returns the series as Prometheus would store them, also for a failed scrape.
func (w watched) scrape(t *testing.T) (series []string) {
	t.Helper()
	const target = `job="fireonce",instance="server"`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.metrics, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return []string{`up{` + target + `} 0`}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%d %s: %v", res.StatusCode, body, err)
	}
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, "fireonce_") {
			name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			base, labels, has := strings.Cut(name, "{")
			if has {
				labels = "," + labels
			} else {
				labels = "}"
			}
			series = append(series, base+"{"+target+labels+" "+value)
		}
	}
	return append(series, `up{`+target+`} 1`)
}

// firesOn returns which of the shipped alerts fire if the scraped series last for an hour, after five
// minutes of the series before. Prometheus' own tool evaluates the rules.
func firesOn(t *testing.T, before, series []string) map[string]bool {
	t.Helper()
	was := make(map[string]string)
	for _, s := range before {
		name, value, _ := strings.Cut(s, " ")
		was[name] = value
	}
	rules, err := os.ReadFile("../../deploy/prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var names []string
	for _, found := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(string(rules), -1) {
		names = append(names, found[1])
	}
	if len(names) < 10 {
		t.Fatalf("only %d rules", len(names))
	}
	if err := os.WriteFile(filepath.Join(dir, "alerts.yml"), rules, 0o600); err != nil {
		t.Fatal(err)
	}
	// Each test expects one alert to fire, so the failing tests name the alerts that do not.
	out := make(map[string]bool)
	var text strings.Builder
	text.WriteString("rule_files: [alerts.yml]\nevaluation_interval: 15s\ntests:\n  - interval: 15s\n    input_series:\n")
	for _, s := range series {
		name, value, _ := strings.Cut(s, " ")
		first := was[name]
		if first == "" {
			first = "_" // it is new
		}
		fmt.Fprintf(&text, "      - {series: '%s', values: '%sx20 %sx240'}\n", name, first, value)
	}
	text.WriteString("    promql_expr_test:\n")
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		fmt.Fprintf(&text, "      - {eval_time: 20m, expr: 'ALERTS{alertname=\"%s\",alertstate=\"firing\"}', exp_samples: []}\n", name)
		fmt.Fprintf(&text, "      - {eval_time: 60m, expr: 'ALERTS{alertname=\"%s\",alertstate=\"firing\"}', exp_samples: []}\n", name)
	}
	file := filepath.Join(dir, "test.yml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	said, err := exec.CommandContext(t.Context(), promtool(t), "test", "rules", file).CombinedOutput()
	if ended := (*exec.ExitError)(nil); err != nil && !errors.As(err, &ended) || !strings.Contains(string(said), "Unit Testing") {
		t.Fatalf("promtool: %v\n%s", err, said)
	}
	if strings.Contains(string(said), "error") || err == nil != strings.Contains(string(said), "SUCCESS") ||
		err != nil && !strings.Contains(string(said), "FAILED") {
		t.Fatalf("promtool: %v\n%s", err, said)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the series:\n%s\npromtool:\n%s", strings.Join(series, "\n"), said)
		}
	})
	for _, name := range names {
		if strings.Contains(string(said), `got: {__name__=\"ALERTS\", alertname=\"`+name) || strings.Contains(string(said), `got: {__name__="ALERTS", alertname="`+name) {
			out[name] = true
		}
	}
	return out
}

func wantFires(t *testing.T, fires map[string]bool, want, may []string) {
	t.Helper()
	for _, name := range want {
		if !fires[name] {
			t.Errorf("%s does not fire", name)
		}
		delete(fires, name)
	}
	for name := range fires {
		if !slices.Contains(may, name) {
			t.Errorf("%s fires", name)
		}
	}
}

// await scrapes until a series matches.
func (w watched) await(t *testing.T, pattern string) []string {
	t.Helper()
	ctx, wanted := waiting(t), regexp.MustCompile(pattern)
	for ctx.Err() == nil {
		if series := w.scrape(t); slices.ContainsFunc(series, wanted.MatchString) {
			return series
		}
	}
	t.Fatalf("no %s", pattern)
	return nil
}

// past is a database in which hours have passed.
type past struct {
	*testing.T
	store.Store
	conn store.Connection
}

func newPast(t *testing.T, path string, ago time.Duration) past {
	t.Helper()
	then := time.Now().Add(-ago)
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Readers: 1, Now: func() time.Time { return then }, Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	settings, err := proto.Marshal(&connectionsv1.WebhookSettings{ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_NO})
	if err != nil {
		t.Fatal(err)
	}
	p := past{T: t, Store: s}
	p.conn, _, err = s.CreateConnection(t.Context(), store.NewConnection{Key: "past", Connection: store.Connection{
		ID: p.id(), Project: "default", Connector: "webhook", Class: job.Opaque, Settings: settings,
	}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p past) id() job.ID { return job.ID(uuid.Must(uuid.NewV7())) }

// submit stores a job that was due then and may start within a day.
func (p past) submit(url string) {
	p.Helper()
	payload, err := proto.Marshal(&fireoncev1.Payload{Kind: &fireoncev1.Payload_Webhook{Webhook: &fireoncev1.Webhook{
		Url: url, Content: &fireoncev1.Webhook_BodyText{BodyText: "{}"},
	}}})
	if err != nil {
		p.Fatal(err)
	}
	id := p.id()
	out, err := p.Create(p.Context(), []store.NewJob{{Actor: "tester", Spec: job.Spec{
		ID: id, Project: "default", Key: id.String(), Connection: p.conn.ID, HoldKey: "there", PayloadKind: "webhook", Payload: payload,
		StartWindow: 24 * time.Hour, Delivery: job.OnceOrAsk,
	}}})
	if err = errors.Join(err, out[0].Err); err != nil {
		p.Fatal(err)
	}
}

// claim claims a job that is due.
func (p past) claim() store.Leased {
	p.Helper()
	all, err := p.Claim(p.Context(), store.ClaimParams{Worker: "worker", Lease: time.Minute, Limit: 1})
	if err != nil || len(all) != 1 {
		p.Fatal(len(all), err)
	}
	return all[0]
}

func (p past) apply(s job.Snapshot, e job.Evidence) {
	p.Helper()
	d, err := job.Decide(s.View(job.Traits{Class: s.Class}, 0), e)
	if err != nil {
		p.Fatal(err)
	}
	out, err := p.Apply(p.Context(), []store.Change{{Job: s.ID, Version: s.Version, Decision: d, Actor: "worker"}})
	if err = errors.Join(err, out[0].Err); err != nil {
		p.Fatal(err)
	}
}

func (p past) close() {
	p.Helper()
	if err := p.Close(); err != nil {
		p.Fatal(err)
	}
}

// TestAlertsFire puts a real server into each state that needs an operator. Its metrics,
// scraped for half an hour, fire the alert in deploy/ for that state, and no alert for
// another state.
func TestAlertsFire(t *testing.T) {
	long(t)
	promtool(t)
	silent := make(chan struct{})
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-silent:
		case <-r.Context().Done():
		}
	}))
	defer receiver.Close()
	defer close(silent)
	for _, tt := range []struct {
		name  string
		ago   time.Duration
		make  func(p past)
		flags []string
		fires []string
		// may fire, too: the server is at work while it is scraped.
		may []string
	}{
		{"all is well", 2 * time.Hour, func(past) {}, nil, nil, nil},
		{"an unknown outcome that is too old", 31 * time.Hour, func(p past) {
			p.submit("http://127.0.0.1:1/")
			l := p.claim()
			digest := sha256.Sum256(nil)
			armed, err := p.Arm(p.Context(), []store.Arm{{
				Job: l.ID, Version: l.Version, Claim: l.ClaimToken, Token: p.id(), Worker: "worker", Class: job.Opaque, EffectKey: "key",
				Digest: digest[:], SendBy: time.Second, AnswerBy: time.Second, Fence: time.Minute,
			}})
			if err = errors.Join(err, armed[0].Err); err != nil {
				p.Fatal(err)
			}
			p.apply(armed[0].Snapshot.Of(l.Spec), job.Outcome{Attempt: 1, Result: job.ResultUnknown, Kind: job.FailAmbiguous})
		}, nil, []string{"FireonceUnknownTooOld"}, []string{"FireonceNeedsResolution"}},
		{"a refused credential", 2 * time.Hour, func(p past) {
			p.submit("http://127.0.0.1:1/")
			p.apply(p.claim().Snapshot, job.Deferred{Kind: job.FailAuth, Message: "refused", Auth: job.AuthRefused})
		}, nil, []string{"FireonceConnectionsHeld"}, nil},
		{"a backlog", 2 * time.Hour, func(p past) {
			for range 5 {
				p.submit(receiver.URL)
			}
		}, []string{"--senders", "1"}, []string{"FireonceBacklog"}, []string{"FireonceSaturated"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(memdir.New(t), "fireonce.db")
			p := newPast(t, path, tt.ago)
			tt.make(p)
			p.close()
			w := watch(t, path, tt.flags...)
			series := w.scrape(t)
			wantFires(t, firesOn(t, series, series), tt.fires, tt.may)
		})
	}
	for _, tt := range []struct {
		name  string
		acts  func(w http.ResponseWriter, r *http.Request)
		until string
		fires []string
	}{
		{"a receiver that takes all", func(http.ResponseWriter, *http.Request) {}, `fireonce_jobs_ended_total{.*state="SUCCEEDED".* 25$`, nil},
		{"a receiver that is gone for good", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) },
			`fireonce_jobs_ended_total{.*state="FAILED".* 25$`, []string{"FireonceJobsFail", "FireonceDestinationFails"}},
		{"a receiver that loses its answers", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			`fireonce_jobs{.*phase="needs_resolution".* 25$`, []string{"FireonceNeedsResolution", "FireonceDestinationFails"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			target := httptest.NewServer(http.HandlerFunc(tt.acts))
			defer target.Close()
			w := watch(t, filepath.Join(memdir.New(t), "fireonce.db"), "--breaker-after", "0")
			before := w.scrape(t)
			api := dial(t, w.url)
			conn := connect(t, api, false)
			for i := range 25 {
				if _, err := api.Jobs.ScheduleJob(waiting(t), hook(conn, fmt.Sprint(i), target.URL, 5*time.Second)); err != nil {
					t.Fatal(err)
				}
			}
			wantFires(t, firesOn(t, before, w.await(t, tt.until)), tt.fires, nil)
		})
	}
	t.Run("a dead server", func(t *testing.T) {
		w := watch(t, filepath.Join(memdir.New(t), "fireonce.db"))
		w.Kill()
		series := w.scrape(t)
		fires := firesOn(t, series, series)
		if !fires["FireonceServerDown"] || !fires["FireonceNoServer"] || len(fires) != 2 {
			t.Errorf("what fires: %v", fires)
		}
	})
}
