//go:build failpoints

package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector/feed/feedtest"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/receiver"
)

// Times of the jobs that are sent to targets.
const (
	sendTimeout = time.Second
	// mostAttempts is more than the attempts that a machine under load loses because arms
	// are too late for their send window.
	mostAttempts = 50
	firstRetry   = 200 * time.Millisecond
	lastRetry    = 2 * time.Second
	feedLag      = 200 * time.Millisecond
)

// target receives the effects of jobs and judges them. A subject names an effect that must
// happen once.
type target interface {
	connection() *connectionsv1.Connection
	payload(subject string) *fireoncev1.Payload
	Effects(subject string) int
	Requests(subject string) int
}

// jobFor returns a request for a subject's effect, due immediately, with its name as key.
func jobFor(to target, connection, subject string) *fireoncev1.ScheduleJobRequest {
	return &fireoncev1.ScheduleJobRequest{
		IdempotencyKey: subject, Connection: &fireoncev1.ScheduleJobRequest_ConnectionId{ConnectionId: connection}, Payload: to.payload(subject),
		AttemptTimeout: durationpb.New(sendTimeout),
		RetryPolicy: &fireoncev1.RetryPolicy{
			MaxAttempts: mostAttempts,
			MinBackoff:  durationpb.New(firstRetry), MaxBackoff: durationpb.New(lastRetry),
		},
	}
}

// hooks is a webhook receiver that dedupes (KEYED) or does not (OPAQUE).
type hooks struct {
	*receiver.Receiver
	dedupes bool
}

func startHooks(t *testing.T, dedupes bool, plan func(receiver.Request) receiver.Answer) hooks {
	t.Helper()
	r, err := receiver.Start(receiver.Options{Dedupes: dedupes, Plan: plan})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return hooks{r, dedupes}
}

func (h hooks) connection() *connectionsv1.Connection {
	settings := &connectionsv1.WebhookSettings{ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_NO}
	if h.dedupes {
		settings.ReceiverDedupes = connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_YES
		settings.KeyWindow = durationpb.New(time.Hour)
	}
	return &connectionsv1.Connection{Connector: "webhook", Settings: &connectionsv1.Connection_Webhook{Webhook: settings}}
}

func (h hooks) payload(subject string) *fireoncev1.Payload {
	return &fireoncev1.Payload{Kind: &fireoncev1.Payload_Webhook{Webhook: &fireoncev1.Webhook{
		Url: h.URL(subject), Content: &fireoncev1.Webhook_BodyText{BodyText: `{"test":true}`},
	}}}
}

// posts is a feed (OBSERVABLE). A subject is a text.
type posts struct {
	*feedtest.Platform
	settings time.Duration // the read lag in the connection's settings
}

func startPosts(t *testing.T, opts feedtest.Options) posts {
	t.Helper()
	if opts.ReadLag == 0 {
		opts.ReadLag = feedLag
	}
	p, err := feedtest.Start(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return posts{p, feedLag}
}

func (p posts) connection() *connectionsv1.Connection {
	return &connectionsv1.Connection{Connector: "feed", Settings: &connectionsv1.Connection_Feed{Feed: &connectionsv1.FeedSettings{
		BaseUrl: p.URL(), ReadLag: durationpb.New(p.settings),
	}}}
}

func (p posts) payload(subject string) *fireoncev1.Payload {
	return &fireoncev1.Payload{Kind: &fireoncev1.Payload_SocialPost{SocialPost: &fireoncev1.SocialPost{Text: subject}}}
}

var classes = []fireoncev1.EffectClass{
	fireoncev1.EffectClass_EFFECT_CLASS_KEYED, fireoncev1.EffectClass_EFFECT_CLASS_OPAQUE,
	fireoncev1.EffectClass_EFFECT_CLASS_OBSERVABLE,
}

func className(c fireoncev1.EffectClass) string {
	return strings.TrimPrefix(c.String(), "EFFECT_CLASS_")
}

// lose reports whether a request loses its answer after its effect, by subject and number of
// the request. Nil: none does.
type lose func(subject string, number int) bool

// startTarget runs a target of a class.
func startTarget(t *testing.T, class fireoncev1.EffectClass, lost lose) target {
	t.Helper()
	if class == fireoncev1.EffectClass_EFFECT_CLASS_OBSERVABLE {
		return startPosts(t, feedtest.Options{Plan: func(r feedtest.Request) feedtest.Answer {
			if r.Method == http.MethodPost && lost != nil && lost(r.Text, r.Number) {
				return feedtest.Reset
			}
			return feedtest.Reply
		}})
	}
	return startHooks(t, class == fireoncev1.EffectClass_EFFECT_CLASS_KEYED, func(r receiver.Request) receiver.Answer {
		if lost != nil && lost(r.Subject, r.Number) {
			return receiver.Reset
		}
		return receiver.Reply
	})
}

// firstLost loses the first answer for each subject.
func firstLost(_ string, number int) bool { return number == 1 }

// lostFor loses the first answers of targets that can be asked again. A lost answer ends a
// job of an OPAQUE target, so there only other faults lose answers.
func lostFor(class fireoncev1.EffectClass) lose {
	if class == fireoncev1.EffectClass_EFFECT_CLASS_OPAQUE {
		return nil
	}
	return firstLost
}

// judge checks how a subject's job ended.
func judge(t *testing.T, to target, class fireoncev1.EffectClass, subject string, events []*fireoncev1.JobChanged) {
	t.Helper()
	state := fireoncev1.JobState_JOB_STATE_UNSPECIFIED
	if n := len(events); n > 0 {
		state = events[n-1].GetNewState()
	}
	effects, requests := to.Effects(subject), to.Requests(subject)
	ok := effects == 1 && state == fireoncev1.JobState_JOB_STATE_SUCCEEDED
	if class == fireoncev1.EffectClass_EFFECT_CLASS_OPAQUE {
		unknown := state == fireoncev1.JobState_JOB_STATE_NEEDS_RESOLUTION
		ok = requests <= 1 && effects <= 1 && (unknown || ok)
	}
	if ok {
		return
	}
	t.Errorf("%s is %v with %d requests and %d effects", subject, state, requests, effects)
	for _, e := range events {
		t.Logf("  #%d %v → %v %v by %s attempt %d: %s", e.GetSequence(), e.GetOldState(), e.GetNewState(), e.GetCause(),
			e.GetActor(), e.GetAttempt().GetNumber(), e.GetDetail())
	}
}
