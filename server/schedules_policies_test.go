package server_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/fireonce/fireonce/clients/go/schedulesv1"
)

// TestPoliciesStay: a schedule shows each policy that it was given, also one that only its
// jobs have, and an update of one alone is a change.
func TestPoliciesStay(t *testing.T) {
	t.Parallel()
	f := start(t)
	given := &schedulesv1.SchedulePolicies{
		Overlap: schedulesv1.OverlapPolicy_OVERLAP_POLICY_SKIP, WhileUnresolved: schedulesv1.OverlapPolicy_OVERLAP_POLICY_ALLOW,
		CatchUp: schedulesv1.CatchUpPolicy_CATCH_UP_POLICY_ALL, CatchUpWindow: durationpb.New(2 * time.Hour),
		PauseAfterFailures: 3, PauseOnAuthHold: true, CoolDown: durationpb.New(time.Hour), MaxPerDay: 4,
	}
	fields := given.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		if !given.ProtoReflect().Has(fields.Get(i)) {
			t.Fatalf("the test does not set %s", fields.Get(i).Name())
		}
	}
	sched := f.recurring(t.Context(), overConnect(f), f.newSchedule("all", func(r *createScheduleRequest) { r.Policies = given }))
	if !proto.Equal(sched.GetPolicies(), given) {
		t.Errorf("policies %v, want %v", sched.GetPolicies(), given)
	}

	sched = f.recurring(t.Context(), overConnect(f), f.newSchedule("one"))
	for i := range fields.Len() {
		field := fields.Get(i)
		want := proto.CloneOf(sched.GetPolicies())
		want.ProtoReflect().Set(field, given.ProtoReflect().Get(field))
		res, err := ask[schedulesv1.UpdateScheduleResponse](t, overConnect(f), schedsPath+"UpdateSchedule", &schedulesv1.UpdateScheduleRequest{
			Schedule: &schedulesv1.UpdateScheduleRequest_ScheduleId{ScheduleId: sched.GetScheduleId()}, Etag: sched.GetEtag(),
			UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"policies"}}, Policies: want,
		})
		f.must(err)
		got := res.GetSchedule()
		if !proto.Equal(got.GetPolicies(), want) || got.GetEtag() == sched.GetEtag() {
			t.Errorf("%s: policies %v, want %v; etag changed: %t", field.Name(), got.GetPolicies(), want, got.GetEtag() != sched.GetEtag())
		}
		sched = got
	}
}
