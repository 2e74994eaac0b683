package server_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

// TestQuarantineShowsEverywhere, and refuses nothing but the sending.
func TestQuarantineShowsEverywhere(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		healthy := f.schedule(f.request("before"))
		if healthy.GetBlockedReason() != nil {
			t.Errorf("blocked while all is well: %q", healthy.GetBlockedReason().GetMessage())
		}
		f.must(f.store.Quarantine(t.Context(), "restored from last night"))
		f.clock.advance(time.Minute)
		const words = "fireonce recover"
		j := f.schedule(f.request("after"))
		list, err := ask[fireoncev1.ListJobsResponse](t, c, jobsPath+"ListJobs", &fireoncev1.ListJobsRequest{})
		f.must(err)
		changed, _ := c.open(t, fromBeginning, func(r *streamRequest) { r.IncludeJob = true }).changes(t, 2)
		for name, reason := range map[string]string{
			"ScheduleJob": j.GetBlockedReason().GetMessage(), "GetJob": f.read(c, j.GetJobId()).GetBlockedReason().GetMessage(),
			"ListJobs": list.GetJobs()[0].GetBlockedReason().GetMessage(), "event": changed[1].GetJob().GetBlockedReason().GetMessage(),
			"BatchScheduleJobs": f.batch(c, f.request("batch"))[0].GetSuccess().GetJob().GetBlockedReason().GetMessage(),
		} {
			if !strings.Contains(reason, words) || strings.Contains(reason, "last night") {
				t.Errorf("%s: blocked_reason %q", name, reason)
			}
		}
		if _, text := f.do(http.MethodGet, "/", "", nil); !strings.Contains(text, "QUARANTINED") || !strings.Contains(text, words) {
			t.Errorf("landing page: %s", text)
		}
		if _, text := f.do(http.MethodGet, "/status", "", nil); !strings.Contains(text, "restored from last night") {
			t.Errorf("status: %s", text)
		}
		_, err = f.cancel(&fireoncev1.CancelJobRequest{Job: &fireoncev1.CancelJobRequest_JobId{JobId: j.GetJobId()}})
		f.must(err)
		if got := f.read(c, j.GetJobId()); got.GetBlockedReason() != nil {
			t.Errorf("a job that has ended waits: %q", got.GetBlockedReason().GetMessage())
		}
		f.must(f.store.Release(t.Context()))
		f.clock.advance(time.Minute)
		if got := f.read(c, healthy.GetJobId()); got.GetBlockedReason() != nil {
			t.Errorf("still blocked after the release: %q", got.GetBlockedReason().GetMessage())
		}
	})
}

func TestStatus(t *testing.T) {
	f := start(t, func(c *server.Config) { c.APIKey = "open-sesame" })
	res, _ := f.do(http.MethodGet, "/status", "", nil)
	if res.StatusCode != http.StatusUnauthorized {
		t.Errorf("without the key: %d", res.StatusCode)
	}
	res, text := f.do(http.MethodGet, "/status", "", map[string]string{"Authorization": "Bearer open-sesame"})
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "application/json" || res.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
	for _, part := range []string{`"engine":"` + testEngine(t) + `"`, `"version":"test"`, `"quarantine_reason":""`, `"event_lag_seconds":0`, `"stopping":false`, `"store_id":"`, `"tzdata":{"source":"`, `"schedules_left":{"count":0,"missing_time_zones":[],"missing_connectors":[]}`} {
		if !strings.Contains(text, part) {
			t.Errorf("status %s lacks %s", text, part)
		}
	}
	if res, _ := f.do(http.MethodPost, "/status", "", map[string]string{"Authorization": "Bearer open-sesame"}); res.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", res.StatusCode)
	}
	f = start(t, func(c *server.Config) { c.Store = unreadable{c.Store, &atomic.Bool{}} })
	if res, text := f.do(http.MethodGet, "/status", "", nil); res.StatusCode != http.StatusServiceUnavailable || strings.Contains(text, "secret") {
		t.Errorf("without a database: %d %s", res.StatusCode, text)
	}
	if res, text := f.do(http.MethodGet, "/", "", nil); res.StatusCode != http.StatusOK || !strings.Contains(text, "cannot be reached") {
		t.Errorf("landing page without a database: %d %s", res.StatusCode, text)
	}
}

// unreadable is a store that describes itself once, at the start.
type unreadable struct {
	server.Store
	asked *atomic.Bool
}

func (u unreadable) Meta(ctx context.Context) (store.Meta, error) {
	if u.asked.Swap(true) {
		return store.Meta{}, store.ErrUnavailable
	}
	return u.Store.Meta(ctx)
}
