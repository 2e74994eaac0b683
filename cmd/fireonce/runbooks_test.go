package main

import (
	"fmt"
	"maps"
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

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/clients/go/subscriptionsv1"
)

const (
	alertRules = "deploy/prometheus/alerts.yml"
	runbookURL = "https://github.com/fireonce/fireonce/blob/main/"
)

func readPage(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// pagesIn returns the pages of a folder of docs, without README.md.
func pagesIn(t *testing.T, folder string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join("..", "..", folder, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range found {
		if filepath.Base(f) != "README.md" {
			names = append(names, folder+"/"+filepath.Base(f))
		}
	}
	return names
}

// alerts returns the severities of each alert, and the page that it links to.
func alerts(t *testing.T) (severities map[string][]string, pages map[string]string) {
	t.Helper()
	severities, pages = make(map[string][]string), make(map[string]string)
	for _, rule := range strings.Split(readPage(t, alertRules), "- alert: ")[1:] {
		name, rest, _ := strings.Cut(rule, "\n")
		severity := regexp.MustCompile(`severity: (critical|warning)\}`).FindStringSubmatch(rest)
		url := regexp.MustCompile(`runbook_url: (\S+)\n`).FindStringSubmatch(rest)
		if severity == nil || url == nil || !strings.Contains(rest, "summary: ") || !strings.Contains(rest, "description: ") {
			t.Errorf("%s has no severity, runbook_url, summary or description", name)
			continue
		}
		severities[name] = append(severities[name], severity[1])
		pages[name] = strings.TrimPrefix(url[1], runbookURL)
	}
	return severities, pages
}

// TestRunbooks: each alert has a page, and each page an alert, in the list of README.md too, with the
// four parts in their order. The tests of the rules see each alert fire.
func TestRunbooks(t *testing.T) {
	t.Parallel()
	severities, pages := alerts(t)
	if len(severities) < 20 {
		t.Fatalf("%d alerts", len(severities))
	}
	index := readPage(t, "docs/runbooks/README.md")
	incidents := readPage(t, "deploy/prometheus/alerts_test.yml") + readPage(t, "deploy/prometheus/alerts_days_test.yml")
	var want []string
	for _, name := range slices.Sorted(maps.Keys(severities)) {
		page := "docs/runbooks/" + name + ".md"
		want = append(want, page)
		if pages[name] != page {
			t.Errorf("%s links to %s", name, pages[name])
		}
		if row := fmt.Sprintf("| [%s](%s.md) | %s |", name, name, strings.Join(severities[name], " or ")); !strings.Contains(index, row) {
			t.Errorf("README.md has no %s", row)
		}
		for _, severity := range severities[name] {
			if fires := fmt.Sprintf(`{alertname="%s",severity="%s"}`, name, severity); !strings.Contains(incidents, fires) {
				t.Errorf("no incident fires %s", fires)
			}
		}
	}
	got := pagesIn(t, "docs/runbooks")
	if !slices.Equal(got, want) {
		t.Errorf("the pages are\n%s\nand the alerts\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, page := range got {
		text := readPage(t, page)
		var headings []string
		for _, h := range mdHeading.FindAllStringSubmatch(text, -1) {
			headings = append(headings, h[1])
		}
		if title := strings.TrimSuffix(filepath.Base(page), ".md"); !slices.Equal(headings, []string{title, "You see", "It means", "Do", "Escalate"}) {
			t.Errorf("%s: %q", page, headings)
		}
		if lines := strings.Count(text, "\n"); lines > 70 {
			t.Errorf("%s has %d lines: nobody reads them at night", page, lines)
		}
	}
}

var (
	shellBlock   = regexp.MustCompile("(?ms)^ *```sh\n(.*?)^ *```")
	inlineRun    = regexp.MustCompile("`(fireonce [^`]+)`")
	capitalWords = regexp.MustCompile(`\b[A-Z][A-Z_]+\b`)
	// noCommands are the first parts of digests.
	noCommands = map[string]bool{"fireonce idempotency key 1": true, "fireonce erased object 1": true}
)

// TestRunbookCommands: shells parse each block of the pages for the night, and each command there is
// one that the program has, with its flags. Those that need no database of their own are run against a
// server that has what they name: none is refused for how it is written.
func TestRunbookCommands(t *testing.T) {
	if crashRun {
		t.Skip("needs no failpoints")
	}
	t.Parallel()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip(err)
	}
	var started bool
	root := Program{Version: "test"}.command(&started)
	place := newNight(t)
	ran := 0
	for _, page := range slices.Concat(pagesIn(t, "docs/runbooks"), pagesIn(t, "docs/tasks"), []string{"docs/runbooks/README.md", "docs/operations.md"}) {
		text := readPage(t, page)
		var lines []string
		for _, block := range shellBlock.FindAllStringSubmatch(text, -1) {
			check := exec.CommandContext(waiting(t), "bash", "-n")
			check.Stdin = strings.NewReader(block[1])
			if out, err := check.CombinedOutput(); err != nil {
				t.Errorf("%s: %v %s\n%s", page, err, out, block[1])
			}
			for line := range strings.Lines(block[1]) {
				if line = strings.TrimSpace(line); strings.HasPrefix(line, "fireonce ") && !strings.HasSuffix(line, `\`) {
					lines = append(lines, line)
				}
			}
		}
		for _, line := range slices.Concat(lines, matches(inlineRun, text)) {
			if noCommands[line] {
				continue
			}
			if wrong := wrongWord(root, strings.Fields(line)[1:]); wrong != "" {
				t.Errorf("%s: in %q there is no %s", page, line, wrong)
			}
		}
		if page == "docs/operations.md" {
			continue // it has commands of a setup
		}
		for _, line := range lines {
			if place.run(t, page, line) {
				ran++
			}
		}
	}
	if ran < 40 {
		t.Errorf("only %d commands were run", ran)
	}
}

func matches(pattern *regexp.Regexp, text string) (all []string) {
	for _, found := range pattern.FindAllStringSubmatch(text, -1) {
		all = append(all, found[1])
	}
	return all
}

// night is a server with a connection, a job that needs a decision, one that FAILED, and a schedule.
type night struct {
	cliPlace
	named map[string]string
}

func newNight(t *testing.T) night {
	t.Helper()
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/lost" {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusGone)
	}))
	t.Cleanup(target.Close)
	p := newCLIPlace(t)
	var server string
	for _, v := range p.env {
		if url, found := strings.CutPrefix(v, "FIREONCE_SERVER="); found {
			server = url
		}
	}
	api := dial(t, server)
	conn := connect(t, api, false)
	n := night{p, map[string]string{"CONNECTION": conn, "FILE": "secret", "ID": "0123456789abcdef", "ETAG": "W/x"}}
	for key, path := range map[string]string{"lost": "/lost", "gone": "/gone"} {
		if _, err := api.Jobs.ScheduleJob(waiting(t), hook(conn, key, target.URL+path, 5*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	h, err := settle(waiting(t), t, api, 2)
	if err != nil {
		t.Fatal(err)
	}
	for id, events := range h.events {
		if events[len(events)-1].GetNewState() == fireoncev1.JobState_JOB_STATE_NEEDS_RESOLUTION {
			n.named["JOB"] = id
		}
	}
	incidents, err := api.Incidents.ListIncidents(waiting(t), &adminv1.ListIncidentsRequest{Kinds: []adminv1.IncidentKind{adminv1.IncidentKind_INCIDENT_KIND_UNKNOWN}})
	if err != nil || len(incidents.GetIncidents()) != 1 {
		t.Fatalf("%v, %v", incidents, err)
	}
	n.named["INCIDENT"] = incidents.GetIncidents()[0].GetIncidentId()
	now := time.Now().UTC()
	n.named["TIME"] = now.Add(-time.Hour).Format(time.RFC3339)
	made, err := api.Schedules.CreateSchedule(waiting(t), &schedulesv1.CreateScheduleRequest{
		IdempotencyKey: "nightly", Spec: &schedulesv1.ScheduleSpec{
			TimeZone: "UTC", CronExpressions: []string{"0 3 1 1 *"},
		}, JobTemplate: &schedulesv1.JobTemplate{
			Connection: &schedulesv1.JobTemplate_ConnectionId{ConnectionId: conn},
			Content:    &schedulesv1.JobTemplate_Payload{Payload: hook(conn, "k", target.URL, time.Second).GetPayload()},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	n.named["SCHEDULE"] = made.GetSchedule().GetScheduleId()
	told, err := api.Connections.CreateConnection(waiting(t), &connectionsv1.CreateConnectionRequest{
		IdempotencyKey: "told",
		Connection: &connectionsv1.Connection{Connector: "webhook", Settings: &connectionsv1.Connection_Webhook{Webhook: &connectionsv1.WebhookSettings{
			ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_YES, KeyWindow: durationpb.New(48 * time.Hour), CallbackUrl: target.URL,
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	pager, err := api.Subscriptions.CreateSubscription(waiting(t), &subscriptionsv1.CreateSubscriptionRequest{
		IdempotencyKey: "pager",
		Connection:     &subscriptionsv1.CreateSubscriptionRequest_ConnectionId{ConnectionId: told.GetConnection().GetConnectionId()},
	})
	if err != nil {
		t.Fatal(err)
	}
	n.named["SUBSCRIPTION"] = pager.GetSubscription().GetSubscriptionId()
	pause, err := api.Pauses.CreatePause(waiting(t), &adminv1.CreatePauseRequest{
		Target: &adminv1.PauseTarget{Target: &adminv1.PauseTarget_Destination{Destination: "https://elsewhere.example.com:443"}}, Note: "ill",
	})
	if err != nil {
		t.Fatal(err)
	}
	n.named["PAUSE"] = pause.GetPause().GetPauseId()
	if err := os.WriteFile(filepath.Join(n.dir, "secret"), []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return n
}

// run runs a command with what its words in capitals name, and reports whether it is one for a server.
// Exit code 2 is that of a command that is not written as the program reads it, or that a server
// refuses as invalid.
func (n night) run(t *testing.T, page, line string) bool {
	t.Helper()
	words := strings.Fields(line)
	switch {
	case slices.Contains([]string{"doctor", "recover", "serve", "namespace"}, words[1]), strings.Contains(line, "--confirm"):
		return false // of a database, or of the dry run before it
	case slices.Contains(words, "login"), slices.Contains(words, "rotate"):
		return false // of another connector
	}
	line = capitalWords.ReplaceAllStringFunc(line, func(word string) string {
		value, known := n.named[word]
		if !known {
			t.Errorf("%s: %s names %s", page, line, word)
		}
		return value
	})
	if strings.Contains(line, "--until") {
		line = strings.Replace(line, "--until "+n.named["TIME"], "--until "+time.Now().UTC().Format(time.RFC3339), 1)
	}
	out, err := n.cliPlace.run(t, line)
	code := 0
	if ended, failed := err.(*exec.ExitError); failed { //nolint:errorlint // as exec returns it
		code = ended.ExitCode()
	}
	reads := slices.Contains([]string{"list", "get", "count", "stats", "servers", "health", "firings"}, words[len(words)-1]) ||
		slices.Contains([]string{"list", "get", "count", "stats", "servers", "health"}, words[1])
	if code == 2 || reads && code != 0 {
		t.Errorf("%s: %s: exit code %d\n%s", page, line, code, out)
	}
	return true
}
