package main

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
)

// TestAFollowerCountsEachEventOnce: what comes again after a cursor is written, for the
// judge passes it over, and is no further event.
func TestAFollowerCountsEachEventOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), eventsFile)
	var told []string
	f, err := newFollower(nil, path, func(job string) { told = append(told, job) })
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []struct {
		job      string
		sequence int64
		cursor   string
	}{{"a", 1, "c1"}, {"b", 1, "c2"}, {"a", 1, "c1"}, {"", 0, "c3"}, {"a", 2, ""}} {
		event := &fireoncev1.JobEvent{Cursor: e.cursor}
		if e.job != "" {
			event.Event = &fireoncev1.JobEvent_JobChanged{JobChanged: &fireoncev1.JobChanged{
				JobId: e.job, Sequence: e.sequence, NewState: fireoncev1.JobState_JOB_STATE_SCHEDULED,
			}}
		}
		if err := f.take(event); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	if f.events != 3 || f.cursor != "c3" || !slices.Equal(told, []string{"a", "b", "a", "a"}) {
		t.Errorf("%d events, cursor %s, told of %v", f.events, f.cursor, told)
	}
	written := 0
	for e, err := range readEvents(path) {
		if err != nil || e.JobID == "" {
			t.Errorf("%+v, %v", e, err)
		}
		written++
	}
	if written != 4 {
		t.Errorf("%d events are written", written)
	}
}
