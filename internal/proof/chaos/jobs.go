package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
)

// face is where jobs have their effects. Each is one connection, the feed one for
// each of its accounts.
type face int

const (
	keyedHook  face = iota // a webhook whose receiver dedupes, without a lock
	statedHook             // the same, at a connection that states how long its receiver may work
	keyedHTTP              // a plain HTTP request to one that does, with a lock, and names what it made
	opaqueHook
	feedPosts
)

// Times of the jobs.
const (
	attemptTimeout = time.Second
	// mostAttempts is as many as there may be: on a busy machine, arms that come too
	// late for their send window count.
	mostAttempts = 50
	firstRetry   = 200 * time.Millisecond
	lastRetry    = 2 * time.Second
	// readLag is what the feed's connections state, and the longest that the platform
	// takes.
	readLag = 200 * time.Millisecond
	// soonest and latest are how far ahead jobs are scheduled that are not due now.
	soonest, latest = time.Second, 15 * time.Second
	keyWindow       = 24 * time.Hour
	// startWindow is long enough for every job to start. postWindow is a post's: it
	// ends the doubts about one that must not be sent again because something like it
	// was seen. Whatever still holds it back then, it comes to rest.
	startWindow = time.Hour
	postWindow  = 4 * time.Minute
	// accounts is how many feeds there are: a look reads all posts of the last two
	// minutes in its account.
	accounts = 16
)

// spec is one job of a campaign.
type spec struct {
	key     string
	subject string // what is to happen once, or twice where two jobs share it
	path    string // of a hook's URL; empty: the subject, which the body has in any case
	face    face
	account int // of a feed
	class   job.Class
	policy  job.Delivery
	delay   time.Duration // from its first submit; 0: due immediately, without a time
	window  time.Duration // how late it may start
	labeled bool          // has toldLabel
	called  bool          // its end is called back

	kind  *kind // at a platform with a connector of its own; nil: at the face
	after int   // the job that it replies to; where there is a kind, -1: none
}

// keyPrefix begins every idempotency key.
const keyPrefix = "key-"

// specOf returns the i-th job of a seed.
func specOf(seed uint64, i int) spec {
	s := spec{key: fmt.Sprintf("%s%d", keyPrefix, i), subject: fmt.Sprintf("subject-%d", i), policy: job.OnceOrAsk, window: startWindow}
	random := rand.New(rand.NewPCG(seed, uint64(i))) //nolint:gosec // repeatable is what it must be
	if random.IntN(4) == 0 {
		s.delay = soonest + time.Duration(random.Int64N(int64(latest-soonest)))
	}
	pair := rand.New(rand.NewPCG(^seed, uint64(i/2))) //nolint:gosec // the same
	if twins := pair.IntN(50) == 0; twins {
		// Two posts with the same words, on purpose.
		s.face, s.class, s.account, s.window = feedPosts, job.Observable, pair.IntN(accounts), postWindow
		s.subject = fmt.Sprintf("subject-%d-twin", i/2)
		return s
	}
	switch n := random.IntN(100); {
	case n < 30:
		s.face, s.class = keyedHook, job.Keyed
	case n < 42:
		s.face, s.class = keyedHTTP, job.Keyed
	case n < 77:
		s.face, s.class, s.account, s.window = feedPosts, job.Observable, random.IntN(accounts), postWindow
	case n < 87:
		s.face, s.class = opaqueHook, job.Opaque
	case n < 94:
		s.face, s.class, s.policy = opaqueHook, job.Opaque, job.AtMostOnce
	default:
		s.face, s.class, s.policy = opaqueHook, job.Opaque, job.AtLeastOnce
	}
	return s
}

// request is what a client sends for a job. at is when it was to be first asked
// for; the same in every repeat.
func (s spec) request(to targets, at time.Time) *fireoncev1.ScheduleJobRequest {
	req := &fireoncev1.ScheduleJobRequest{
		IdempotencyKey: s.key, Connection: &fireoncev1.ScheduleJobRequest_ConnectionId{ConnectionId: to.connection(s)},
		AttemptTimeout: durationpb.New(attemptTimeout),
		RetryPolicy: &fireoncev1.RetryPolicy{
			MaxAttempts: mostAttempts,
			MinBackoff:  durationpb.New(firstRetry), MaxBackoff: durationpb.New(lastRetry),
		},
		Delivery: policies[s.policy], StartWindow: durationpb.New(s.window),
	}
	if s.kind != nil {
		req.Payload = s.kind.payload(s.subject, to)
		if s.kind.timeout > 0 {
			req.AttemptTimeout = durationpb.New(s.kind.timeout)
		}
	} else {
		req.Payload = s.payload(to)
	}
	if s.delay > 0 {
		req.ScheduleTime = timestamppb.New(at.Add(s.delay))
	}
	if s.labeled {
		req.Labels = map[string]string{toldLabel: "yes"}
	}
	if s.called {
		req.Callback = toldCallback
	}
	return req
}

var policies = map[job.Delivery]fireoncev1.Delivery{
	job.OnceOrAsk:   fireoncev1.Delivery_DELIVERY_ONCE_OR_ASK,
	job.AtMostOnce:  fireoncev1.Delivery_DELIVERY_AT_MOST_ONCE,
	job.AtLeastOnce: fireoncev1.Delivery_DELIVERY_AT_LEAST_ONCE,
}

func (s spec) payload(to targets) *fireoncev1.Payload {
	body, path := fmt.Sprintf(`{"subject":%q}`, s.subject), cmp.Or(s.path, s.subject)
	hook := func(url, kind string) *fireoncev1.Payload {
		return &fireoncev1.Payload{Kind: &fireoncev1.Payload_Webhook{Webhook: &fireoncev1.Webhook{
			Url: url + "/hook/" + kind + "/" + path, Content: &fireoncev1.Webhook_BodyText{BodyText: body},
		}}}
	}
	switch s.face {
	case keyedHook, statedHook:
		return hook(to.url, platform.FaceUnlocked)
	case opaqueHook:
		return hook(to.edge, platform.FaceOpaque)
	case keyedHTTP:
		return &fireoncev1.Payload{Kind: &fireoncev1.Payload_HttpRequest{HttpRequest: &fireoncev1.HttpRequest{
			Method: fireoncev1.HttpMethod_HTTP_METHOD_POST, Url: to.url + "/hook/" + platform.FaceKeyed + "/" + path,
			Content: &fireoncev1.HttpRequest_BodyText{BodyText: body}, IdJsonPointer: "/id",
		}}}
	default:
		return &fireoncev1.Payload{Kind: &fireoncev1.Payload_SocialPost{SocialPost: &fireoncev1.SocialPost{Text: s.subject}}}
	}
}
