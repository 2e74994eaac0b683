package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
