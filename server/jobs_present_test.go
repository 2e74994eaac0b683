package server_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

// finder is a connector that finds content which no job has made.
type finder struct{ stub }

func (finder) Traits([]byte) (job.Traits, error) { return job.Traits{Class: job.Observable}, nil }

func (finder) Watermark(context.Context, connector.Opening) (string, error) {
	panic("the server reads no watermark")
}

func (finder) Backdate(string, time.Duration) (string, error) { panic("the server makes no watermark") }

func (finder) Observe(context.Context, connector.Opening, connector.Look) job.Observation {
	panic("the server makes no look")
}

// TestSkipIfPresent: skip_if_present is returned as it was sent, is part of what a repeat is
// compared by, and is refused where the connector cannot look.
func TestSkipIfPresent(t *testing.T) {
	for name, dial := range protocols {
		t.Run(name, func(t *testing.T) {
			f := start(t, finding)
			testSkipIfPresent(t, f, dial(f))
		})
	}
}

func testSkipIfPresent(t *testing.T, f *fixture, c client) {
	for name, class := range map[string]job.Class{"seen": job.Observable, "unseen": job.Keyed} {
		_, _, err := f.store.CreateConnection(t.Context(), store.NewConnection{Key: name, Connection: store.Connection{
			ID: job.ID{15: byte(class)}, Project: server.DefaultProject, Connector: "finder", Class: class,
		}})
		f.must(err)
	}
	within := func(d time.Duration) func(*scheduleRequest) {
		return func(r *scheduleRequest) {
			r.SkipIfPresent = &fireoncev1.SkipIfPresent{MaxAge: durationpb.New(d)}
		}
	}
	made := f.schedule(f.request("k", onKey("seen"), within(24*time.Hour)))
	if made.GetSkipIfPresent().GetMaxAge().AsDuration() != 24*time.Hour {
		t.Errorf("scheduled: %v", made.GetSkipIfPresent())
	}
	if got := f.read(c, made.GetJobId()); got.GetSkipIfPresent().GetMaxAge().AsDuration() != 24*time.Hour {
		t.Errorf("read: %v", got.GetSkipIfPresent())
	}
	if got := f.schedule(f.request("plain", onKey("seen"))); got.GetSkipIfPresent() != nil {
		t.Errorf("of a job that does not ask: %v", got.GetSkipIfPresent())
	}
	for _, other := range []*scheduleRequest{f.request("k", onKey("seen")), f.request("k", onKey("seen"), within(time.Hour))} {
		err := c.call(t.Context(), scheduleJob, other, &fireoncev1.ScheduleJobResponse{})
		e := wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED)
		if fields := e.detail.GetIdempotencyConflict().GetMismatchedFields(); !slices.Equal(fields, []string{"skip_if_present"}) {
			t.Errorf("fields %v", fields)
		}
	}
	for name, refused := range map[string]*scheduleRequest{
		"of another class":      f.request("x", onKey("unseen"), within(time.Hour)),
		"that finds none of it": f.request("x", within(time.Hour)),
		"of files": f.request("x", onKey("seen"), within(time.Hour), func(r *scheduleRequest) {
			r.Payload = &fireoncev1.Payload{Kind: &fireoncev1.Payload_SocialPost{SocialPost: &fireoncev1.SocialPost{
				Text: "look", Media: []*fireoncev1.MediaRef{{Url: "https://example.com/a.png"}},
			}}}
		}),
		"that is only validated": f.request("x", within(time.Hour), func(r *scheduleRequest) { r.ValidateOnly = true }),
	} {
		err := c.call(t.Context(), scheduleJob, refused, &fireoncev1.ScheduleJobResponse{})
		e := wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_PAYLOAD_INVALID)
		if v := e.detail.GetViolations(); len(v) != 1 || v[0].GetField() != "skip_if_present" {
			t.Errorf("%s: violations %v", name, v)
		}
	}
	for _, d := range []time.Duration{0, time.Minute - 1, 30*24*time.Hour + 1} {
		err := c.call(t.Context(), scheduleJob, f.request("x", onKey("seen"), within(d)), &fireoncev1.ScheduleJobResponse{})
		if err == nil || !strings.Contains(err.Error(), "skip_if_present.max_age") {
			t.Errorf("%v: %v", d, err)
		}
	}
}

func finding(c *server.Config) {
	var err error
	c.Connectors, err = connector.NewRegistry(
		stub{"stub", []job.Class{job.Opaque}, true}, stub{"webhook", []job.Class{job.Opaque}, false},
		finder{stub{"finder", []job.Class{job.Observable, job.Keyed}, true}},
	)
	if err != nil {
		panic(err)
	}
}
