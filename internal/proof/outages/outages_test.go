package outages_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/connector/webhook"
	"github.com/fireonce/fireonce/internal/engine"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/memory"
)

var perRow = flag.Int("jobs", 60, "jobs of each row")

const (
	keyWindow = 48 * time.Hour
	// longest bounds a row: longer than every profile keeps trying.
	longest = 72 * time.Hour
)

// outage is how a receiver fails. The jobs fall due evenly spread over its time.
type outage struct {
	name   string
	length time.Duration
	// refuses is why no connection can be opened; empty: it can.
	refuses string
	// answer is what the n-th request gets; acts reports whether the receiver has acted
	// before.
	answer func(n int) (status int, acts bool)
	// opaque reports whether jobs of a receiver without keys need no person either.
	opaque bool
}

var outages = []outage{
	{name: "a deploy of 20 s behind nginx (502, 503)", length: 20 * time.Second, answer: func(n int) (int, bool) {
		switch n % 4 {
		case 0:
			return 502, true // the old process was stopped after it had acted, before it answered
		case 1:
			return 502, false
		default:
			return 503, false
		}
	}},
	{name: "45 minutes down (refused)", length: 45 * time.Minute, refuses: "connection refused", opaque: true},
	{name: "404 from a cold router, 5 minutes", length: 5 * time.Minute, answer: always(404), opaque: true},
	{name: "no DNS for ten minutes", length: 10 * time.Minute, refuses: "no such host", opaque: true},
	{name: "429 for an hour", length: time.Hour, answer: always(429), opaque: true},
}

func always(status int) func(int) (int, bool) { return func(int) (int, bool) { return status, false } }

// receiver is a connector for a receiver that is out at first. It acts once on each key if it
// dedupes, and otherwise on each request.
type receiver struct {
	outage   outage
	class    job.Class
	settings []byte
	// before judges as Fireonce did before webhooks had a profile of their own.
	before bool
	until  time.Time

	mu       sync.Mutex
	requests int
	effects  map[string]int
}

func (r *receiver) Describe() connector.Description {
	d := webhook.New(webhook.Config{}).Describe()
	if r.before {
		d.Retry = job.RetryPolicy{}
	}
	return d
}

func (r *receiver) Check([]byte, connector.Credential) (connector.Capability, error) {
	t := job.Traits{Class: r.class}
	if r.class == job.Keyed {
		t.KeyWindow = keyWindow
	}
	return connector.Capability{Traits: t}, nil
}

func (r *receiver) Prepare(q connector.Request) (connector.Prepared, error) {
	return connector.Prepared{HoldKey: "https://receiver.example", Frozen: q.Payload}, nil
}

func (r *receiver) Open(_ context.Context, _ connector.Opening) (connector.Session, error) {
	if r.outage.refuses != "" && time.Now().Before(r.until) {
		return nil, &connector.Refusal{Kind: job.FailTransient, Msg: r.outage.refuses}
	}
	return session{r}, nil
}

type session struct{ r *receiver }

func (session) Close() {}

func (s session) Publish(c connector.Commit) job.Outcome {
	if err := c.MaySend(); err != nil {
		return job.Outcome{Attempt: c.Attempt, Result: job.ResultNotSent, Kind: job.FailTransient, Message: err.Error()}
	}
	time.Sleep(20 * time.Millisecond) // simulated time
	o := s.r.answers(c)
	o.Attempt = c.Attempt
	return o
}

func (r *receiver) answers(c connector.Commit) job.Outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	status, acts := 200, true
	if time.Now().Before(r.until) {
		status, acts = r.outage.answer(r.requests)
	}
	if acts && (r.class != job.Keyed || r.effects[c.EffectKey] == 0) {
		r.effects[c.EffectKey]++
	}
	a := transport.Response{Written: 500, Sent: true, Complete: true, Status: status, Header: http.Header{"Server": {"nginx"}}, At: time.Now()}
	if r.before {
		return transport.ClassifyNamed(a, "the receiver", nil, r.class == job.Keyed)
	}
	o, err := webhook.Judge(r.settings, r.class, a)
	if err != nil {
		panic(err)
	}
	return o
}

// row is what has become of the jobs of one outage.
type row struct {
	succeeded, failed, person, duplicates, missing int
	// late is how long after the outage the last job succeeded.
	late time.Duration
}

func (r row) String() string {
	return fmt.Sprintf("%5d succeeded, %5d failed, %5d for a person, %d duplicates, %d missing, last %v after it", r.succeeded, r.failed,
		r.person, r.duplicates, r.missing, r.late.Round(time.Second))
}

// run has jobs fall due in an outage and waits until each has ended or needs a person.
func run(t *testing.T, o outage, class job.Class, before bool) (out row) {
	synctest.Test(t, func(t *testing.T) {
		settings := &connectionsv1.WebhookSettings{ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_NO}
		if class == job.Keyed {
			settings = &connectionsv1.WebhookSettings{
				ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_YES, KeyWindow: durationpb.New(keyWindow),
			}
		}
		encoded, err := proto.Marshal(settings)
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		r := &receiver{outage: o, class: class, settings: encoded, before: before, until: begin.Add(o.length), effects: make(map[string]int)}
		s := memory.Open(memory.Options{})
		defer func() { _ = s.Close() }()
		ids := submit(t, s, r, *perRow)
		stop := start(t, s, r)
		defer stop()
		for left := slices.Clone(ids); len(left) > 0 && time.Since(begin) < longest; {
			time.Sleep(time.Minute)
			left = slices.DeleteFunc(left, func(id job.ID) bool {
				j, err := s.Job(t.Context(), store.Ref{Project: "default", ID: id})
				if err != nil {
					t.Fatal(err)
				}
				return j.State.Terminal() || j.State == job.NeedsResolution
			})
		}
		for _, id := range ids {
			j, err := s.Job(t.Context(), store.Ref{Project: "default", ID: id})
			if err != nil {
				t.Fatal(err)
			}
			out.count(&j, r)
		}
	})
	return out
}

func (r *row) count(j *job.Snapshot, of *receiver) {
	effects := of.effects[j.RoundKey]
	r.duplicates += max(0, effects-1)
	switch j.State {
	case job.Succeeded:
		r.succeeded++
		r.late = max(r.late, j.Ended.Sub(of.until))
		if effects == 0 {
			r.missing++
		}
	case job.Failed, job.Expired, job.Canceled:
		r.failed++
	default:
		r.person++
	}
}

func submit(t *testing.T, s *memory.Store, r *receiver, jobs int) []job.ID {
	t.Helper()
	conn, _, err := s.CreateConnection(t.Context(), store.NewConnection{Key: "c", Connection: store.Connection{
		ID: newID(), Project: "default", Connector: webhook.Name, Class: r.class, KeyWindow: keyWindow, Settings: r.settings,
	}})
	if err != nil {
		t.Fatal(err)
	}
	var ids []job.ID
	for i := range jobs {
		out, err := s.Create(t.Context(), []store.NewJob{{
			ScheduleTime: time.Now().Add(r.outage.length * time.Duration(i) / time.Duration(jobs)), Actor: "test",
			Spec: job.Spec{
				ID: newID(), Project: "default", Key: fmt.Sprint("job ", i), Connection: conn.ID, HoldKey: "https://receiver.example",
				PayloadKind: webhook.Name, Payload: []byte("hello"),
			},
		}})
		if err = cmp.Or(err, out[0].Err); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, out[0].Snapshot.ID)
	}
	return ids
}

func start(t *testing.T, s *memory.Store, r connector.Connector) (stop func()) {
	t.Helper()
	registry, err := connector.NewRegistry(r)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.Config{
		Store: s, Connectors: registry, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Worker: "test", NewID: newID,
		Clock: clock{}, Poll: store.HintAhead,
		Open: func(store.Connection, store.Sealed) (connector.Credential, error) { return connector.Credential{}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func newID() job.ID { return job.ID(uuid.Must(uuid.NewV7())) }

// clock has readings that agree.
type clock struct{}

func (clock) Read() engine.Reading {
	now := time.Now()
	return engine.Reading{Time: now, Boot: now.Sub(time.Unix(0, 0))}
}

// TestOutages checks that webhooks to a receiver with keys need no person in any of the outages,
// that those to one without need no person where each answer is a proof, and that no effect
// is duplicated or missing.
func TestOutages(t *testing.T) {
	var table strings.Builder
	for _, o := range outages {
		for _, class := range []job.Class{job.Keyed, job.Opaque} {
			for _, before := range []bool{true, false} {
				got := run(t, o, class, before)
				when := map[bool]string{true: "before", false: "after"}[before]
				fmt.Fprintf(&table, "%-41s %-6s %-6s %v\n", o.name, class, when, got)
				if got.duplicates != 0 || got.missing != 0 {
					t.Errorf("%s, %s, %s: %v", o.name, class, when, got)
				}
				if !before && (class == job.Keyed || o.opaque) && got.succeeded != *perRow {
					t.Errorf("%s, %s: %v", o.name, class, got)
				}
			}
		}
	}
	t.Logf("%d jobs a row\n%s", *perRow, table.String())
}
