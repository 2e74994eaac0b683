package engine_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/connectortest"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/connector/webhook"
	"github.com/fireonce/fireonce/internal/engine"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/sqlite"
)

func TestMain(m *testing.M) {
	if connectortest.Receive() {
		return
	}
	os.Exit(m.Run())
}

// BenchmarkWorked sends a backlog of signed webhooks of 600 bytes to a receiver in
// another process. Over a store that answers immediately it measures the engine, the
// connector and the sender; it runs over SQLite as well. cpu-µs/op is the user and system
// time of this process.
func BenchmarkWorked(b *testing.B) {
	for _, class := range []job.Class{job.Keyed, job.Opaque} {
		b.Run("instant/"+class.String(), func(b *testing.B) {
			s := &instant{sealed: sealed(b), jobs: benchJobs(b, class, b.N), done: make(chan struct{})}
			s.left = len(s.jobs)
			worked(b, s, s.done)
		})
	}
	b.Run("sqlite/KEYED", func(b *testing.B) {
		s, err := sqlite.Open(b.Context(), sqlite.Options{Path: filepath.Join(b.TempDir(), "fireonce.db"), Migrate: true, Now: time.Now})
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		jobs, secret := benchJobs(b, job.Keyed, b.N), sealed(b)
		conn := jobs[0].Connection
		if conn, _, err = s.CreateConnection(b.Context(), store.NewConnection{Connection: conn, Sealed: &secret}); err != nil {
			b.Fatal(err)
		}
		for at := 0; at < len(jobs); at += store.MaxBatch {
			var items []store.NewJob
			for _, l := range jobs[at:min(len(jobs), at+store.MaxBatch)] {
				spec := l.Spec
				spec.Connection, spec.Key = conn.ID, l.ID.String()
				items = append(items, store.NewJob{Spec: spec})
			}
			if _, err := s.Create(b.Context(), items); err != nil {
				b.Fatal(err)
			}
		}
		c := &counting{Store: s, left: b.N, done: make(chan struct{})}
		worked(b, c, c.done)
	})
}

// worked runs an engine over the store until done.
func worked(b *testing.B, s engine.Store, done <-chan struct{}) {
	b.Helper()
	sender := transport.NewSender(transport.Config{Egress: transport.NewEgress(netip.MustParsePrefix("127.0.0.0/8"))})
	defer sender.Close()
	registry, err := connector.NewRegistry(webhook.New(webhook.Config{Sender: sender}))
	if err != nil {
		b.Fatal(err)
	}
	e, err := engine.New(engine.Config{
		Store: s, Connectors: registry, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Worker: "bench", NewID: newID,
		Open: func(_ store.Connection, s store.Sealed) (connector.Credential, error) {
			return connector.Credential{Version: s.Version, Data: s.Data}, nil
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	b.ReportAllocs()
	b.ResetTimer()
	before := cpuTime(b)
	go func() { ended <- e.Run(ctx) }()
	<-done
	spent := cpuTime(b) - before
	b.StopTimer()
	stop()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(spent.Microseconds())/float64(b.N), "cpu-µs/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// sealed is a credential: the secret that signs.
func sealed(b *testing.B) store.Sealed {
	b.Helper()
	data, err := proto.Marshal(&connectionsv1.Credential{Kind: &connectionsv1.Credential_WebhookSecrets{
		WebhookSecrets: &connectionsv1.WebhookSecrets{Secrets: []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}},
	}})
	if err != nil {
		b.Fatal(err)
	}
	return store.Sealed{Version: 1, KeyID: "key", Data: data}
}

// benchJobs returns n jobs as a claim returns them.
func benchJobs(b *testing.B, class job.Class, n int) []store.Leased {
	b.Helper()
	settings := &connectionsv1.WebhookSettings{ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_NO}
	if class == job.Keyed {
		settings.ReceiverDedupes = connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_YES
		settings.KeyWindow = durationpb.New(24 * time.Hour)
	}
	raw, err := proto.Marshal(settings)
	if err != nil {
		b.Fatal(err)
	}
	payload, err := proto.Marshal(&fireoncev1.Payload{Kind: &fireoncev1.Payload_Webhook{Webhook: &fireoncev1.Webhook{
		Url:     connectortest.StartReceiver(b) + "/hooks/orders",
		Content: &fireoncev1.Webhook_BodyText{BodyText: `{"text":"` + strings.Repeat("x", 580) + `"}`},
	}}})
	if err != nil {
		b.Fatal(err)
	}
	conn := store.Connection{
		ID: newID(), Project: "default", Connector: webhook.Name, Class: class, KeyWindow: 24 * time.Hour,
		Settings: raw, CredentialVersion: 1,
	}
	now := time.Now()
	out := make([]store.Leased, n)
	for i := range out {
		out[i] = store.Leased{Connection: conn, Snapshot: job.Snapshot{Now: now, Job: job.Job{
			Spec: job.Spec{
				ID: newID(), Project: "default", Connection: conn.ID, HoldKey: "target", PayloadKind: webhook.Name,
				Payload: payload, Delivery: job.OnceOrAsk,
			},
			Status: job.Status{
				State: job.Claimed, Version: 2, Class: class, Round: 1, ScheduleTime: now,
				StartDeadline: now.Add(2 * time.Hour), NextAt: now.Add(time.Minute), ClaimToken: newID(),
			},
		}}}
	}
	return out
}

// instant is a store that keeps nothing and answers immediately.
type instant struct {
	engine.Store // the methods that the common case does not call are missing
	mu           sync.Mutex
	jobs         []store.Leased
	sealed       store.Sealed
	left         int
	done         chan struct{}
}

func (s *instant) Claim(_ context.Context, p store.ClaimParams) ([]store.Leased, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(p.Limit, len(s.jobs))
	out := s.jobs[:n]
	s.jobs = s.jobs[n:]
	for i := range out {
		if a := p.Intent(out[i]); a != nil {
			armed := armedBy(*a, time.Now())
			out[i].Armed = &armed
		}
	}
	return out, nil
}

func (s *instant) Arm(_ context.Context, items []store.Arm) ([]store.Armed, error) {
	out := make([]store.Armed, len(items))
	now := time.Now()
	for i, a := range items {
		out[i] = armedBy(a, now)
	}
	return out, nil
}

func armedBy(a store.Arm, now time.Time) (out store.Armed) {
	out.Attempt = job.Attempt{Number: 1, Frozen: a.Frozen, EffectKey: a.EffectKey}
	out.Snapshot = job.Snapshot{Now: now, Open: []int{1}, Fence: now.Add(a.Fence), RoundArmed: now, Job: job.Job{
		Spec:   job.Spec{ID: a.Job, Delivery: job.OnceOrAsk},
		Status: job.Status{State: job.Sending, Version: a.Version + 1, Attempt: 1, Round: 1, Class: a.Class, StartDeadline: now.Add(time.Hour)},
	}}
	return out
}

func (s *instant) Apply(_ context.Context, items []store.Change) ([]store.Applied, error) {
	out := make([]store.Applied, len(items))
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, c := range items {
		out[i].Snapshot.State, out[i].Snapshot.ID = c.Decision.To, c.Job
		if c.Decision.To != job.Succeeded {
			return nil, fmt.Errorf("job %s: %s", c.Job, c.Decision.To)
		}
		if s.left--; s.left == 0 {
			close(s.done)
		}
	}
	return out, nil
}

func (*instant) ClaimLooks(context.Context, store.ClaimParams) ([]store.Leased, error) {
	return nil, nil
}
func (*instant) Enlist(context.Context, store.Process) error { return nil }

func (*instant) Orphans(context.Context, store.Place, int) ([]store.Leased, error) { return nil, nil }

func (*instant) Overdue(context.Context, int) ([]job.Snapshot, error) { return nil, nil }
func (*instant) NextDue(_ context.Context, limit time.Duration) (time.Duration, error) {
	return limit, nil
}
func (*instant) Watch(store.WatchKind) (<-chan struct{}, func()) { return nil, func() {} }
func (s *instant) Credential(context.Context, job.ID) (store.Sealed, error) {
	return s.sealed, nil
}

// counting closes done when so many jobs have succeeded.
type counting struct {
	engine.Store
	mu   sync.Mutex
	left int
	done chan struct{}
}

func (s *counting) Apply(ctx context.Context, items []store.Change) ([]store.Applied, error) {
	out, err := s.Store.Apply(ctx, items)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range out {
		if out[i].Err == nil && out[i].Snapshot.State == job.Succeeded {
			if s.left--; s.left == 0 {
				close(s.done)
			}
		}
	}
	return out, err
}
