package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/subscriptionsv1"
	"github.com/fireonce/fireonce/internal/proof/chaos/fleet"
)

// TestSmallStorm is the storm with few jobs, on both engines.
func TestSmallStorm(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a server and runs PostgreSQL")
	}
	binary := filepath.Join(t.TempDir(), "fireonce")
	if err := fleet.Build(t.Context(), binary, ""); err != nil {
		t.Fatal(err)
	}
	const jobs = "2000"
	for _, engine := range []string{"sqlite", "postgres"} {
		var out strings.Builder
		if err := command(t.Context(), []string{"-jobs", jobs, "-engine", engine, "-binary", binary}, &out); err != nil {
			t.Fatalf("%v\n%s", err, out.String())
		}
		if !strings.Contains(out.String(), engine+": "+jobs+" failures were reported in ") {
			t.Errorf("it prints\n%s", out.String())
		}
	}
}

// TestWeigh: what is missing, told twice or out of order fails the storm.
func TestWeigh(t *testing.T) {
	begun := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	storm := func() *receivers {
		r := &receivers{failure: begun.Add(time.Second)}
		for i, data := range []string{
			`"kind":"NOTICE_KIND_EVENTS","events":[%s]`, `"kind":"NOTICE_KIND_DIGEST","digest":{"eventCount":"7","firstEventTime":"2026-11-28T12:00:01Z"}`,
		} {
			event := `{"eventTime":"2026-11-28T12:00:00Z","jobChanged":{"jobId":"a","newState":"JOB_STATE_FAILED"}}`
			if strings.Contains(data, "%s") {
				data = fmt.Sprintf(data, event)
			}
			n := notice{id: fmt.Sprint(i), at: begun.Add(time.Duration(i+2) * time.Second), bytes: 10 * (i + 1)}
			text := fmt.Sprintf(`{"data":{"number":"%d","afterCursor":"%d","cursor":"%d",%s}}`, i+1, i, i+1, data)
			if err := json.Unmarshal([]byte(text), &n.body); err != nil {
				t.Fatal(err)
			}
			r.notices = append(r.notices, n)
		}
		return r
	}
	got, err := storm().weigh(8)
	want := tally{
		notices: 2, lists: 1, digests: 1, counted: 7, largest: 20, middle: 2 * time.Second, longest: 2 * time.Second, last: 2 * time.Second,
	}
	if err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for name, spoil := range map[string]func(*receivers){
		"too few":        func(r *receivers) { r.notices[1].body.Data.Digest.EventCount-- },
		"a number":       func(r *receivers) { r.notices[1].body.Data.Number = 3 },
		"an early event": func(r *receivers) { r.notices[1].body.Data.Digest.FirstEventTime = begun.Add(-time.Second) },
		"another state":  func(r *receivers) { r.notices[0].body.Data.Events[0].JobChanged.NewState = "JOB_STATE_SUCCEEDED" },
		"told twice": func(r *receivers) {
			d := &r.notices[0].body.Data
			d.Events = append(d.Events, d.Events[0])
		},
		"nothing": func(r *receivers) { r.notices[0].body.Data.Events = nil },
	} {
		r := storm()
		spoil(r)
		if _, err := r.weigh(8); err == nil {
			t.Errorf("%s: it is not found", name)
		}
	}
}

// TestCompare: what the log has otherwise fails the storm, also where the counts agree.
func TestCompare(t *testing.T) {
	storm := func() (*history, []notice) {
		h := &history{
			failed: []string{"a", "b", "c", "d", "e"}, upTo: map[string]int{"from": 0, "between": 2, "to": 5}, sent: make(map[int64]*subscriptionsv1.SentNotice),
		}
		var notices []notice
		for i, data := range []string{
			`"events":[{"jobChanged":{"jobId":"a"}},{"jobChanged":{"jobId":"b"}}],"afterCursor":"from","cursor":"between"`,
			`"digest":{"eventCount":"3","examples":[{"jobChanged":{"jobId":"c"}},{"jobChanged":{"jobId":"e"}}]},"afterCursor":"between","cursor":"to"`,
		} {
			var n notice
			if err := json.Unmarshal(fmt.Appendf(nil, `{"data":{"number":"%d",%s}}`, i+1, data), &n.body); err != nil {
				t.Fatal(err)
			}
			notices = append(notices, n)
			h.sent[int64(i+1)] = &subscriptionsv1.SentNotice{Number: int64(i + 1), Outcome: fireoncev1.JobState_JOB_STATE_SUCCEEDED, EventCount: int64(i + 2)}
		}
		return h, notices
	}
	h, notices := storm()
	if err := h.compare(notices, 5); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*history, []notice){
		"one job twice":        func(h *history, _ []notice) { h.failed[4] = "a" },
		"one less in the log":  func(h *history, _ []notice) { h.failed = h.failed[:4] },
		"a gap":                func(h *history, _ []notice) { h.upTo["from"] = 1 },
		"an end before it":     func(h *history, _ []notice) { h.upTo["to"] = 4 },
		"other counts":         func(h *history, _ []notice) { h.upTo["between"] = 3 },
		"another order":        func(h *history, _ []notice) { h.failed[0], h.failed[1] = "b", "a" },
		"examples of others":   func(_ *history, n []notice) { n[1].body.Data.Digest.Examples[0].JobChanged.JobID = "a" },
		"examples in disorder": func(h *history, _ []notice) { h.failed[2], h.failed[4] = "e", "c" },
		"no outcome":           func(h *history, _ []notice) { h.sent[2].Outcome = fireoncev1.JobState_JOB_STATE_CLAIMED },
		"a notice not listed":  func(h *history, _ []notice) { delete(h.sent, 1) },
		"listed otherwise":     func(h *history, _ []notice) { h.sent[1].EventCount = 1 },
	} {
		h, notices := storm()
		spoil(h, notices)
		if h.compare(notices, 5) == nil {
			t.Errorf("%s: it is not found", name)
		}
	}
}
