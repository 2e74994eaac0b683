package outages_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/connector/webhook"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/memory"
)

// anHourSlow is how wrong the clock of a receiver is.
const anHourSlow = -time.Hour

// limit is a form in which a receiver asks for patience.
type limit struct {
	name   string
	status int
	// asks is how long the n-th answer asks to wait, and header says so.
	asks   func(n int) time.Duration
	header func(wait time.Duration, now time.Time) []string
	class  job.Class
}

func always30s(int) time.Duration { return 30 * time.Second }

func inSeconds(wait time.Duration, _ time.Time) []string {
	return []string{"Retry-After", strconv.Itoa(int(wait / time.Second))}
}

var limits = []limit{
	{"429, 30 s", 429, always30s, inSeconds, job.Opaque},
	{"429, five minutes, on keys", 429, func(int) time.Duration { return 5 * time.Minute }, inSeconds, job.Keyed},
	{"429, zero seconds", 429, func(int) time.Duration { return 0 }, inSeconds, job.Opaque},
	{"429, a date that has passed", 429, func(int) time.Duration { return 0 }, func(_ time.Duration, now time.Time) []string {
		return []string{"Retry-After", now.Add(-time.Minute).UTC().Format(http.TimeFormat)}
	}, job.Opaque},
	{"429, nonsense, which is no wait: half a minute", 429, always30s, func(time.Duration, time.Time) []string { return []string{"Retry-After", "soon"} }, job.Opaque},
	{"503, 90 s, on keys", 503, func(int) time.Duration { return 90 * time.Second }, inSeconds, job.Keyed},
	{"403, nothing remains until a reset", 403, func(int) time.Duration { return 4 * time.Minute }, func(wait time.Duration, now time.Time) []string {
		return []string{"X-Ratelimit-Remaining", "0", "X-Ratelimit-Reset", strconv.FormatInt(now.Add(wait).Unix(), 10)}
	}, job.Opaque},
	{"425, 5 s", 425, func(int) time.Duration { return 5 * time.Second }, inSeconds, job.Opaque},
	{"429, a date by a clock that is an hour slow", 429, func(n int) time.Duration { return time.Duration(n) * time.Minute }, func(wait time.Duration, now time.Time) []string {
		return []string{
			"Date", now.Add(anHourSlow).UTC().Format(http.TimeFormat), "Retry-After", now.Add(anHourSlow + wait).UTC().Format(http.TimeFormat),
		}
	}, job.Opaque},
}

// limiter is a receiver that limits its first requests, and then acts.
type limiter struct {
	receiver
	limit limit
	most  int

	mu   sync.Mutex
	at   []time.Time
	asks []time.Duration
}

func (l *limiter) Open(context.Context, connector.Opening) (connector.Session, error) {
	return limited{l}, nil
}

type limited struct{ l *limiter }

func (limited) Close() {}

func (s limited) Publish(c connector.Commit) job.Outcome {
	l := s.l
	if err := c.MaySend(); err != nil {
		return job.Outcome{Attempt: c.Attempt, Result: job.ResultNotSent, Kind: job.FailTransient, Message: err.Error()}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a := transport.Response{Written: 500, Sent: true, Complete: true, Status: 200, Header: make(http.Header), At: time.Now()}
	l.at = append(l.at, a.At)
	if n := len(l.at); n <= l.most {
		wait := l.limit.asks(n)
		a.Status, l.asks = l.limit.status, append(l.asks, wait)
		for lines := l.limit.header(wait, a.At); len(lines) > 0; lines = lines[2:] {
			a.Header.Set(lines[0], lines[1])
		}
	} else {
		l.effects[c.EffectKey]++
	}
	o, err := webhook.Judge(l.settings, l.class, a)
	if err != nil {
		panic(err)
	}
	o.Attempt = c.Attempt
	return o
}

// TestLimits has a receiver ask for patience in the forms that are in use, and compares the
// times of its requests with what it asked for, and with our own waits.
func TestLimits(t *testing.T) {
	own := webhook.New(webhook.Config{}).Describe().Retry
	for _, form := range limits {
		t.Run(form.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				settings := &connectionsv1.WebhookSettings{ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_NO}
				if form.class == job.Keyed {
					settings = &connectionsv1.WebhookSettings{
						ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_YES, KeyWindow: durationpb.New(keyWindow),
					}
				}
				encoded, err := proto.Marshal(settings)
				if err != nil {
					t.Fatal(err)
				}
				l := &limiter{limit: form, most: 5, receiver: receiver{class: form.class, settings: encoded, effects: make(map[string]int)}}
				s := memory.Open(memory.Options{})
				defer func() { _ = s.Close() }()
				id := submit(t, s, &l.receiver, 1)[0]
				stop := start(t, s, l)
				defer stop()
				var j job.Snapshot
				for begin := time.Now(); time.Since(begin) < longest && !j.State.Terminal() && j.State != job.NeedsResolution; {
					time.Sleep(time.Minute)
					if j, err = s.Job(t.Context(), store.Ref{Project: "default", ID: id}); err != nil {
						t.Fatal(err)
					}
				}
				if j.State != job.Succeeded || len(l.effects) != 1 || l.effects[j.RoundKey] != 1 || len(l.at) != l.most+1 {
					t.Errorf("%s after %d requests, %d effects: %+v", j.State, len(l.at), l.effects[j.RoundKey], j.LastError)
				}
				l.compare(t, own)
			})
		})
	}
}

// compare writes and checks the times between the requests.
func (l *limiter) compare(t *testing.T, own job.RetryPolicy) {
	t.Helper()
	var table strings.Builder
	for i := 1; i < len(l.at) && i <= len(l.asks); i++ {
		gap, asked := l.at[i].Sub(l.at[i-1]), l.asks[i-1]
		most := max(own.Delays[i-1], asked, time.Second)
		least := max(asked, own.Delays[i-1]*4/5)
		fmt.Fprintf(&table, "asked for %-8v own wait %-8v next request after %v\n", asked, own.Delays[i-1], gap.Round(time.Second))
		// A second for whole seconds of a date, and for the engine's polls.
		if gap < least-time.Second || gap > most+2*time.Second {
			t.Errorf("request %d came after %v; asked for %v, our own wait is %v", i+1, gap, asked, own.Delays[i-1])
		}
	}
	t.Logf("\n%s", table.String())
}
