package server_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/server"
)

type scheduleRequest = fireoncev1.ScheduleJobRequest

const scheduleJob = jobsPath + "ScheduleJob"

func at(t time.Time) func(*scheduleRequest) {
	return func(r *scheduleRequest) { r.ScheduleTime = timestamppb.New(t) }
}

func TestRepeatIsTheStoredJob(t *testing.T) {
	f := start(t)
	c := overConnect(f)
	when := f.clock.Now().Add(time.Hour).Add(1999 * time.Nanosecond)
	first := f.schedule(f.request("k", at(when)))
	if got, want := first.GetScheduleTime().AsTime(), when.Truncate(time.Microsecond); !got.Equal(want) {
		t.Errorf("canonical time %s, want %s", got, want)
	}
	repeat := func(why string, r *scheduleRequest) {
		t.Helper()
		var res fireoncev1.ScheduleJobResponse
		if err := c.call(t.Context(), scheduleJob, r, &res); err != nil {
			t.Fatalf("%s: %v", why, err)
		}
		if res.GetCreated() || res.GetJob().GetJobId() != first.GetJobId() ||
			!proto.Equal(res.GetJob().GetScheduleTime(), first.GetScheduleTime()) {
			t.Errorf("%s: %v", why, &res)
		}
	}
	repeat("the same", f.request("k", at(when)))
	repeat("digits below a microsecond", f.request("k", at(when.Add(-900*time.Nanosecond))))
	repeat("another case of the id", f.request("k", at(when), func(r *scheduleRequest) { r.Connection = onConnection(strings.ToUpper(r.GetConnectionId())) }))
	repeat("other labels and another display zone", f.request("k", at(when), func(r *scheduleRequest) {
		r.Labels, r.TimeZone = map[string]string{"a": "b"}, "Asia/Tokyo"
	}))
	repeat("validate_only", f.request("k", at(when), func(r *scheduleRequest) { r.ValidateOnly = true }))
	f.clock.advance(24 * time.Hour)
	repeat("a day late, when its time would be refused", f.request("k", at(when)))
	if jobs, _ := f.stored(); jobs != 2 {
		t.Errorf("%d jobs and connections are stored, want 2", jobs)
	}
}

// TestLateRepeat: a client that has no answer to its submit repeats it when its time has passed
// by more than a minute. A stored key is answered with the stored job, or with its end; a new key
// is refused with advice, and stores nothing.
func TestLateRepeat(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		when := at(f.clock.Now().Add(time.Second))
		stored := f.schedule(f.request("stored", when))
		f.clock.advance(62 * time.Second)
		before, end := f.stored()

		only := func(r *scheduleRequest) { r.ValidateOnly = true }
		for name, r := range map[string]*scheduleRequest{
			"the same": f.request("stored", when), "validate_only": f.request("stored", when, only),
		} {
			res, err := ask[fireoncev1.ScheduleJobResponse](t, c, scheduleJob, r)
			if err != nil || res.GetCreated() || res.GetJob().GetJobId() != stored.GetJobId() ||
				!proto.Equal(res.GetJob().GetScheduleTime(), stored.GetScheduleTime()) {
				t.Errorf("%s: %v, %v", name, res, err)
			}
		}
		for name, r := range map[string]*scheduleRequest{
			"never stored": f.request("new", when), "never stored, validate_only": f.request("new", when, only),
		} {
			err := c.call(t.Context(), scheduleJob, r, &fireoncev1.ScheduleJobResponse{})
			wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_TIME_IN_PAST)
			wantAdvice(t, name, err.Error())
		}
		batch, err := ask[fireoncev1.BatchScheduleJobsResponse](t, c, jobsPath+"BatchScheduleJobs", &fireoncev1.BatchScheduleJobsRequest{
			Requests: []*scheduleRequest{f.request("new", when), f.request("stored", when), f.request("stored", when, only)},
		})
		if err != nil || len(batch.GetResults()) != 3 {
			t.Fatalf("batch: %v, %v", batch, err)
		}
		wantAdvice(t, "in a batch", batch.GetResults()[0].GetError().GetMessage())
		for i, r := range batch.GetResults()[1:] {
			if got := r.GetSuccess(); got.GetCreated() || got.GetJob().GetJobId() != stored.GetJobId() {
				t.Errorf("in a batch, repeat %d: %v", i, r)
			}
		}
		if n, e := f.stored(); n != before || e != end {
			t.Errorf("%d jobs and connections and %d events, before %d and %d", n, e, before, end)
		}

		// What it says to do works, under the same key.
		if again := f.schedule(f.request("new")); again.GetJobId() == "" || again.GetJobId() == stored.GetJobId() {
			t.Errorf("sent without a time: %v", again)
		}
		// Under another request the key is a conflict, late or not.
		err = c.call(t.Context(), scheduleJob, f.request("stored", at(f.clock.Now().Add(time.Hour))), &fireoncev1.ScheduleJobResponse{})
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED)
	})
}

// wantAdvice makes sure that a refusal says that nothing is stored, and what to do.
func wantAdvice(t *testing.T, name, message string) {
	t.Helper()
	for _, words := range []string{"more than 1m0s in the past", "no job is stored under this idempotency key", "with a later time", "without schedule_time"} {
		if !strings.Contains(message, words) {
			t.Errorf("%s: %q does not say %q", name, message, words)
		}
	}
}

// TestKeyReused changes each field of a request in turn.
func TestKeyReused(t *testing.T) {
	f := start(t)
	c := overGRPC(f)
	when := f.clock.Now().Add(time.Hour)
	full := func(r *scheduleRequest) {
		r.ScheduleTime, r.StartWindow = timestamppb.New(when), durationpb.New(time.Hour)
		r.RetryPolicy = &fireoncev1.RetryPolicy{MaxAttempts: 3}
	}
	stored := f.schedule(f.request("k", full))
	changes := map[string]func(*scheduleRequest){
		"connection_id": func(r *scheduleRequest) { r.Connection = onConnection("018f0000-0000-7000-8000-000000000000") },
		"payload":       func(r *scheduleRequest) { r.Payload = custom("good/v1", "hello!") },
		"schedule_time": func(r *scheduleRequest) { r.ScheduleTime = nil },
		"start_window":  func(r *scheduleRequest) { r.StartWindow = nil },
		"retry_policy":  func(r *scheduleRequest) { r.RetryPolicy = &fireoncev1.RetryPolicy{} },
		"delivery": func(r *scheduleRequest) {
			r.Delivery = fireoncev1.Delivery_DELIVERY_ONCE_OR_ASK // the default, but said
		},
		"reply_to_job_id": func(r *scheduleRequest) { r.ReplyTo = replyingTo(stored.GetJobId()) },
	}
	for field, change := range changes {
		t.Run(field, func(t *testing.T) {
			err := c.call(t.Context(), scheduleJob, f.request("k", full, change), &fireoncev1.ScheduleJobResponse{})
			e := wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED)
			conflict := e.detail.GetIdempotencyConflict()
			if conflict.GetJobId() != stored.GetJobId() || conflict.GetState() != stored.GetState() ||
				!proto.Equal(conflict.GetScheduleTime(), stored.GetScheduleTime()) ||
				strings.Join(conflict.GetMismatchedFields(), " ") != field {
				t.Errorf("conflict %v, want field %s of job %s", conflict, field, stored.GetJobId())
			}
		})
	}
}

// TestManyAtOnce sends one request 1,000 times concurrently.
func TestManyAtOnce(t *testing.T) {
	const calls = 1000
	f := start(t, func(c *server.Config) { // a machine under load is no failure
		c.Limits.DefaultDeadline, c.Limits.MaxDeadline = 10*time.Minute, 10*time.Minute
	})
	clients := []client{overConnect(f), overGRPC(f), overGRPCWeb(f), overCurl(f)}
	results := make([]*fireoncev1.ScheduleJobResponse, calls)
	errs := make([]error, calls)
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for i := range calls {
		wg.Go(func() {
			<-begin
			results[i] = &fireoncev1.ScheduleJobResponse{}
			errs[i] = clients[i%len(clients)].call(t.Context(), scheduleJob, f.request("once"), results[i])
		})
	}
	close(begin)
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	created, ids, times := 0, map[string]bool{}, map[string]bool{}
	for _, r := range results {
		if r.GetCreated() {
			created++
		}
		ids[r.GetJob().GetJobId()] = true
		times[r.GetJob().GetScheduleTime().String()] = true
	}
	if created != 1 || len(ids) != 1 || len(times) != 1 {
		t.Errorf("created %d times, %d jobs, %d canonical times; want 1 each", created, len(ids), len(times))
	}
	if jobs, _ := f.stored(); jobs != 2 {
		t.Errorf("%d jobs and connections are stored, want 2", jobs)
	}
}

func TestTwoKeysAreTwoJobs(t *testing.T) {
	f := start(t)
	if a, b := f.schedule(f.request("a")), f.schedule(f.request("b")); a.GetJobId() == b.GetJobId() {
		t.Errorf("one job %s for two keys", a.GetJobId())
	}
}

func TestDerivedKey(t *testing.T) {
	f := start(t)
	when := at(f.clock.Now().Add(time.Hour))
	derive := func(r *scheduleRequest) { r.IdempotencyKey, r.DeriveKey = "", true }
	a, b := f.schedule(f.request("", when, derive)), f.schedule(f.request("", when, derive))
	other := f.schedule(f.request("", at(f.clock.Now().Add(2*time.Hour)), derive))
	if a.GetJobId() != b.GetJobId() || a.GetJobId() == other.GetJobId() || !strings.HasPrefix(a.GetIdempotencyKey(), "fireonce:") {
		t.Errorf("jobs %s, %s and %s under %q", a.GetJobId(), b.GetJobId(), other.GetJobId(), a.GetIdempotencyKey())
	}
	err := overConnect(f).call(t.Context(), scheduleJob, f.request("", when, derive, func(r *scheduleRequest) {
		r.StartWindow = durationpb.New(time.Minute)
	}), &fireoncev1.ScheduleJobResponse{})
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED)
}

func TestTimes(t *testing.T) {
	f := start(t)
	now := f.clock.Now()
	for name, tt := range map[string]struct {
		ask, want time.Time
		reason    fireoncev1.ErrorReason
	}{
		"60 s ago is now":         {ask: now.Add(-time.Minute), want: now},
		"now":                     {ask: now, want: now},
		"a microsecond more ago":  {ask: now.Add(-time.Minute - time.Microsecond), reason: fireoncev1.ErrorReason_ERROR_REASON_TIME_IN_PAST},
		"5 years ahead":           {ask: now.Add(5 * 365 * 24 * time.Hour), want: now.Add(5 * 365 * 24 * time.Hour)},
		"5 years and more ahead":  {ask: now.Add(5*365*24*time.Hour + time.Microsecond), reason: fireoncev1.ErrorReason_ERROR_REASON_TIME_TOO_FAR},
		"1970":                    {ask: time.Unix(0, 0), reason: fireoncev1.ErrorReason_ERROR_REASON_TIME_IN_PAST},
		"a zero time.Time":        {ask: time.Time{}, reason: fireoncev1.ErrorReason_ERROR_REASON_TIME_IN_PAST},
		"the last second of 9999": {ask: time.Unix(253402300799, 0), reason: fireoncev1.ErrorReason_ERROR_REASON_TIME_TOO_FAR},
	} {
		t.Run(name, func(t *testing.T) {
			var res fireoncev1.ScheduleJobResponse
			err := overConnect(f).call(t.Context(), scheduleJob, f.request(strings.ReplaceAll(name, " ", "-"), at(tt.ask)), &res)
			if tt.reason != 0 {
				wantReason(t, err, tt.reason)
				return
			}
			if got := res.GetJob().GetScheduleTime().AsTime(); err != nil || !got.Equal(tt.want) {
				t.Errorf("canonical time %s, %v; want %s", got, err, tt.want)
			}
		})
	}
}

func TestValidateOnly(t *testing.T) {
	f := start(t)
	jobs, end := f.stored()
	j := f.schedule(f.request("k", func(r *scheduleRequest) { r.ValidateOnly = true }))
	if j.GetJobId() != "" || j.GetEtag() != "" || j.GetIdempotencyKey() != "k" || j.GetPayload() == nil ||
		j.GetState() != fireoncev1.JobState_JOB_STATE_UNSPECIFIED {
		t.Errorf("validated job: %v", j)
	}
	if n, e := f.stored(); n != jobs || e != end {
		t.Errorf("validate_only stored something: %d and %d, before %d and %d", n, e, jobs, end)
	}
}

// TestUnknownFieldsAreRefused: a server that ignores what it does not know sends immediately what
// a newer client, or one that misspells, wanted later.
func TestUnknownFieldsAreRefused(t *testing.T) {
	f := start(t)
	unknown := protowire.AppendVarint(protowire.AppendTag(nil, 999, protowire.VarintType), 1)
	for name, spoil := range map[string]func(*scheduleRequest){
		"request": func(r *scheduleRequest) { r.ProtoReflect().SetUnknown(unknown) },
		"payload": func(r *scheduleRequest) { r.GetPayload().ProtoReflect().SetUnknown(unknown) },
		"deep":    func(r *scheduleRequest) { r.GetPayload().GetCustom().ProtoReflect().SetUnknown(unknown) },
	} {
		err := overGRPC(f).call(t.Context(), scheduleJob, f.request("k", spoil), &fireoncev1.ScheduleJobResponse{})
		if e := new(wireError); !errors.As(err, &e) || e.code.String() != "invalid_argument" {
			t.Errorf("%s: %v", name, err)
		}
	}
	body := fmt.Sprintf(`{"idempotencyKey":"k","connectionId":%q,"payload":{"custom":{"schema":"good/v1"}},"scheduleTme":"2027-01-01T00:00:00Z"}`, f.conn)
	err := postJSON(t.Context(), defaultHTTP(t), "http://"+f.addr+scheduleJob, body, nil)
	if e := new(wireError); !errors.As(err, &e) || e.code.String() != "invalid_argument" || !strings.Contains(e.msg, `did you mean "scheduleTime"?`) {
		t.Errorf("misspelt JSON: %v", err)
	}
	if n, _ := f.stored(); n != 1 {
		t.Errorf("%d jobs and connections are stored, want 1", n)
	}
}

func TestIDsComeFromConfig(t *testing.T) {
	f := start(t, func(c *server.Config) { c.NewID = fixedID })
	if got := f.schedule(f.request("k")).GetJobId(); got != "018f0000-0000-7000-8000-000000000001" {
		t.Errorf("job id %s", got)
	}
}
