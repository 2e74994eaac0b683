package server_test

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

// keyed creates a KEYED connection and returns its id.
func (f *fixture) keyed(project string) string {
	f.tb.Helper()
	c, _, err := f.store.CreateConnection(f.tb.Context(), store.NewConnection{Connection: store.Connection{
		ID: job.ID(uuid.New()), Project: project, Connector: "stub", Class: job.Keyed, DisplayName: "keyed",
	}})
	f.must(err)
	return c.ID.String()
}

// charge is a request with an effect key.
func (f *fixture) charge(conn, key, effectKey string, edit ...func(*scheduleRequest)) *scheduleRequest {
	r := f.request(key, func(r *scheduleRequest) { r.Connection, r.EffectKey = onConnection(conn), effectKey })
	for _, e := range edit {
		e(r)
	}
	return r
}

// TestEffectKey: which effect keys a caller may give, to which jobs.
func TestEffectKey(t *testing.T) {
	f := start(t)
	c := overConnect(f)
	conn := f.keyed(server.DefaultProject)
	submit := func(r *scheduleRequest) (*fireoncev1.ScheduleJobResponse, error) {
		return ask[fireoncev1.ScheduleJobResponse](t, c, scheduleJob, r)
	}
	first, err := submit(f.charge(conn, "a", "ch_1"))
	if err != nil || first.GetJob().GetEffectKey() != "ch_1" {
		t.Fatalf("%v, %v", first, err)
	}
	again, err := submit(f.charge(conn, "a", "ch_1"))
	if err != nil || again.GetCreated() || again.GetJob().GetEffectKey() != "ch_1" {
		t.Errorf("the repeat: %v, %v", again, err)
	}
	_, err = submit(f.charge(conn, "a", "ch_2"))
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED)
	_, err = submit(f.charge(conn, "b", "ch_1"))
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_EFFECT_KEY_TAKEN)
	if _, err = submit(f.charge(conn, "b", "ch_2")); err != nil {
		t.Errorf("the key of a job that was refused is not free: %v", err)
	}
	for _, reserved := range []string{"fo1_x", job.EffectKey("n", "p", "k", 1), "FO22_x"} {
		_, err = submit(f.charge(conn, "c", reserved))
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_KEY_RESERVED)
	}
	for what, r := range map[string]*scheduleRequest{
		"effect_key": f.charge(f.conn, "c", "ch_3"), // OPAQUE
		"delivery":   f.charge(conn, "c", "ch_3", func(r *scheduleRequest) { r.Delivery = fireoncev1.Delivery_DELIVERY_AT_LEAST_ONCE }),
	} {
		_, err = submit(r)
		e := wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_REQUEST_INVALID)
		if v := e.detail.GetViolations(); len(v) != 1 || v[0].GetField() != what {
			t.Errorf("%s: %v", what, v)
		}
	}
	if got := f.claim(); got.EffectKey("n") != "ch_1" && got.EffectKey("n") != "ch_2" {
		t.Errorf("claimed with %s", got.EffectKey("n"))
	}
}

// TestEffectKeyScope: it takes a scope of its own, and projects share the receivers.
func TestEffectKeyScope(t *testing.T) {
	f := start(t, requireKey)
	c := overConnect(f)
	with := func(project string, scopes ...string) context.Context {
		return context.WithValue(t.Context(), keyBrought{}, f.issue(project, scopes).Reveal())
	}
	mine := with("mine", server.ScopeJobsWrite, server.ScopeEffectKeysWrite)
	theirs := with("theirs", server.ScopeJobsWrite, server.ScopeEffectKeysWrite)
	poor := with("poor", server.ScopeJobsWrite)
	var res fireoncev1.ScheduleJobResponse
	err := c.call(poor, scheduleJob, f.charge(f.keyed("poor"), "a", "ch_1"), &res)
	e := wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_SCOPE_MISSING)
	if e.detail.GetMetadata()["scope"] != server.ScopeEffectKeysWrite {
		t.Errorf("lacks %v", e.detail.GetMetadata())
	}
	f.must(c.call(poor, scheduleJob, f.charge(f.keyed("poor"), "a", ""), &res))
	f.must(c.call(mine, scheduleJob, f.charge(f.keyed("mine"), "a", "ch_1"), &res))
	err = c.call(theirs, scheduleJob, f.charge(f.keyed("theirs"), "a", "ch_1"), &res)
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_EFFECT_KEY_TAKEN)
}

// TestResendNeedsAnEffectKey: a new effect of a job that was given its effect key.
func TestResendNeedsAnEffectKey(t *testing.T) {
	f := start(t)
	j := f.schedule(f.charge(f.keyed(server.DefaultProject), "a", "ch_1"))
	f.needResolution()
	req := &fireoncev1.ResolveJobRequest{
		Job:      &fireoncev1.ResolveJobRequest_JobId{JobId: j.GetJobId()},
		Decision: fireoncev1.Resolution_DECISION_RESEND, Note: "I looked", Etag: "v0",
	}
	_, err := f.resolve(req)
	req.Etag = wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_ETAG_MISMATCH).detail.GetMetadata()["etag"]
	_, err = f.resolve(req)
	e := wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_REQUEST_INVALID)
	if v := e.detail.GetViolations(); len(v) != 1 || v[0].GetField() != "effect_key" || v[0].GetRule() != "required" {
		t.Errorf("violations %v", v)
	}
	req.EffectKey = "ch_1"
	_, err = f.resolve(req)
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_EFFECT_KEY_TAKEN)
	req.EffectKey = "ch_2"
	got, err := f.resolve(req)
	if err != nil || got.GetEffectKey() != "ch_2" || got.GetResendCount() != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	if l := f.claim(); l.EffectKey("n") != "ch_2" {
		t.Errorf("claimed with %s", l.EffectKey("n"))
	}
}
