package server_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

const listJobs = jobsPath + "ListJobs"

// TestSearch finds jobs by each filter over each protocol, in lists, counts and calls on
// many.
func TestSearch(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		begun := f.clock.Now()
		f.schedule(f.request("shop-1:order-7"))
		done := f.arm()
		f.learn(done.ID, job.Outcome{Attempt: 1, Result: job.ResultSucceeded, ExternalID: "object-7"})
		f.schedule(f.request("shop-1:order-8"))
		failed := f.fail()
		later := f.schedule(f.request("shop-2:order-7", at(f.clock.Now().Add(time.Hour))))
		all := map[string]string{done.ID.String(): "done", failed.ID.String(): "failed", later.GetJobId(): "later"}
		for _, tt := range []struct {
			name   string
			filter *fireoncev1.JobFilter
			want   string
		}{
			{"a whole key", &fireoncev1.JobFilter{IdempotencyKeyPrefix: "shop-1:order-7"}, "done"},
			{"the beginning of a key", &fireoncev1.JobFilter{IdempotencyKeyPrefix: "shop-1:"}, "done failed"},
			{"a part of a key", &fireoncev1.JobFilter{IdempotencyKeyText: "order-7"}, "done later"},
			{"an external id", &fireoncev1.JobFilter{ExternalId: "object-7"}, "done"},
			{"another external id", &fireoncev1.JobFilter{ExternalId: "object"}, ""},
			{"a kind of error", &fireoncev1.JobFilter{ErrorKinds: []fireoncev1.FailureKind{fireoncev1.FailureKind_FAILURE_KIND_PERMANENT}}, "failed"},
			{"another kind", &fireoncev1.JobFilter{ErrorKinds: []fireoncev1.FailureKind{fireoncev1.FailureKind_FAILURE_KIND_AUTH}}, ""},
			{"a class of no job", &fireoncev1.JobFilter{EffectClasses: []fireoncev1.EffectClass{fireoncev1.EffectClass_EFFECT_CLASS_HANDLE}}, ""},
			{"created since", &fireoncev1.JobFilter{CreateTimeFrom: timestamppb.New(begun)}, "done failed later"},
			{"created before", &fireoncev1.JobFilter{CreateTimeBefore: timestamppb.New(begun)}, ""},
			{"ended since", &fireoncev1.JobFilter{EndTimeFrom: timestamppb.New(begun)}, "done failed"},
			{"ended before", &fireoncev1.JobFilter{EndTimeBefore: timestamppb.New(begun)}, ""},
			{"for a day in its state", &fireoncev1.JobFilter{StateAge: durationpb.New(24 * time.Hour)}, ""},
		} {
			got, err := ask[fireoncev1.ListJobsResponse](t, c, listJobs, &fireoncev1.ListJobsRequest{Filter: tt.filter})
			f.must(err)
			names := make(map[string]bool)
			for _, j := range got.GetJobs() {
				names[all[j.GetJobId()]] = true
			}
			for name := range names {
				if !strings.Contains(tt.want, name) {
					t.Errorf("%s: %s was found, want %q", tt.name, name, tt.want)
				}
			}
			if want := len(strings.Fields(tt.want)); len(got.GetJobs()) != want {
				t.Errorf("%s: %d jobs, want %q", tt.name, len(got.GetJobs()), tt.want)
			}
			counted, err := ask[adminv1.CountJobsResponse](t, c, countJobs, &adminv1.CountJobsRequest{Filter: tt.filter})
			f.must(err)
			if counted.GetCount() != int64(len(got.GetJobs())) {
				t.Errorf("%s: counted %v", tt.name, counted)
			}
			bulk, err := f.bulkCancel(c, &adminv1.BulkCancelJobsRequest{Filter: tt.filter, DryRun: true})
			f.must(err)
			if open := int32(strings.Count(tt.want, "later")); bulk.GetMatched() != open {
				t.Errorf("%s: %d open jobs matched, want %d", tt.name, bulk.GetMatched(), open)
			}
		}
	})
}

// TestSearchRecipient: a job is found by the recipients of its payload, after a change by the new
// ones, and by no key that may not read payloads.
func TestSearchRecipient(t *testing.T) {
	f := start(t)
	c := overConnect(f)
	conn := f.id(f.conn)
	n := store.NewJob{Actor: "ann", Recipients: []string{"ann@example.com"}, Spec: job.Spec{
		ID: job.ID{9}, Project: server.DefaultProject, Key: "mail", Connection: conn, PayloadKind: "email", Payload: []byte("x"),
		StartWindow: time.Hour, Delivery: job.OnceOrAsk,
	}}
	created, err := f.store.Create(t.Context(), []store.NewJob{n})
	f.must(err)
	f.must(created[0].Err)
	by := func(who string) *adminv1.CountJobsRequest {
		return &adminv1.CountJobsRequest{Filter: &fireoncev1.JobFilter{Recipient: who}}
	}
	for who, want := range map[string]int64{
		"ann@example.com": 1, "Ann@Example.COM": 1, "Ann <ann@example.com>": 1, "bob@example.com": 0, "ann": 0,
	} {
		got, err := ask[adminv1.CountJobsResponse](t, c, countJobs, by(who))
		f.must(err)
		if got.GetCount() != want {
			t.Errorf("to %s: %d jobs, want %d", who, got.GetCount(), want)
		}
	}
	blind := bring(t.Context(), f.issue(server.DefaultProject, []string{server.ScopeJobsRead, server.ScopeJobsWrite}).Reveal())
	if _, err := askWith[adminv1.CountJobsResponse](blind, c, countJobs, by("ann@example.com")); err == nil || !strings.Contains(err.Error(), "payloads:read") {
		t.Errorf("a key that may not read payloads: %v", err)
	}
	if _, err := askWith[adminv1.BulkCancelJobsResponse](blind, c, bulkPath+"BulkCancelJobs",
		&adminv1.BulkCancelJobsRequest{Filter: by("ann@example.com").GetFilter(), DryRun: true}); err == nil || !strings.Contains(err.Error(), "payloads:read") {
		t.Errorf("a call on many with a key that may not read payloads: %v", err)
	}
}
