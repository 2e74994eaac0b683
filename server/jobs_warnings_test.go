package server_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/server"
)

// files is a host of media: those whose URL says so are gone, others never answer.
type files struct {
	mu    sync.Mutex
	asked int
}

func (f *files) Probe(ctx context.Context, ref *fireoncev1.MediaRef) error {
	f.mu.Lock()
	f.asked++
	f.mu.Unlock()
	switch {
	case strings.HasSuffix(ref.GetUrl(), "gone"):
		return &connector.Refusal{Kind: job.FailPermanent, Msg: "the media file at media.example is not there"}
	case strings.HasSuffix(ref.GetUrl(), "silent"):
		<-ctx.Done()
		return &connector.Refusal{Kind: job.FailTransient, Msg: "the media file at media.example could not be fetched: out of time"}
	default:
		return nil
	}
}

func post(urls ...string) func(*fireoncev1.ScheduleJobRequest) {
	return func(r *fireoncev1.ScheduleJobRequest) {
		p := &fireoncev1.SocialPost{Text: "words"}
		for _, u := range urls {
			p.Media = append(p.Media, &fireoncev1.MediaRef{Url: "https://media.example/" + u})
		}
		r.Payload = &fireoncev1.Payload{Kind: &fireoncev1.Payload_SocialPost{SocialPost: p}}
	}
}

// scheduled stores a job over Connect.
func (f *fixture) scheduled(r *fireoncev1.ScheduleJobRequest) *fireoncev1.ScheduleJobResponse {
	f.tb.Helper()
	var res fireoncev1.ScheduleJobResponse
	f.must(overConnect(f).call(f.tb.Context(), "/fireonce.v1.JobService/ScheduleJob", r, &res))
	return &res
}

// A file that is gone when its job is scheduled has a warning, and keeps nothing from being
// stored; a repeat probes nothing.
func TestWarnings(t *testing.T) {
	t.Parallel()
	m := &files{}
	f := start(t, func(c *server.Config) { c.Media = m })
	want := []*fireoncev1.Warning{{
		Field: "payload.social_post.media[1]", Code: fireoncev1.WarningCode_WARNING_CODE_MEDIA_UNUSABLE,
		Message: "the media file at media.example is not there",
	}, {
		Field: "payload.social_post.media[2]", Code: fireoncev1.WarningCode_WARNING_CODE_MEDIA_UNREACHABLE,
		Message: "the media file at media.example could not be fetched: out of time",
	}}
	dry := f.request("one", post("there", "gone", "silent"))
	dry.ValidateOnly = true
	for i, r := range []*fireoncev1.ScheduleJobRequest{dry, f.request("one", post("there", "gone", "silent"))} {
		got := f.scheduled(r)
		if !slices.EqualFunc(got.GetWarnings(), want, func(a, b *fireoncev1.Warning) bool { return proto.Equal(a, b) }) || got.GetCreated() != (i == 1) {
			t.Errorf("call %d: created %v, warnings %v", i, got.GetCreated(), got.GetWarnings())
		}
	}
	if again := f.scheduled(f.request("one", post("there", "gone", "silent"))); len(again.GetWarnings()) != 0 || again.GetCreated() || m.asked != 6 {
		t.Errorf("a repeat: %v, %d files asked about", again, m.asked)
	}
	if plain := f.scheduled(f.request("two")); len(plain.GetWarnings()) != 0 || m.asked != 6 {
		t.Errorf("no media: %v", plain)
	}
}

// Without a prober there are no warnings.
func TestNoWarnings(t *testing.T) {
	t.Parallel()
	f := start(t)
	if got := f.scheduled(f.request("one", post("gone"))); len(got.GetWarnings()) != 0 || !got.GetCreated() {
		t.Errorf("%v", got)
	}
}
