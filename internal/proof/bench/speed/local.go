//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/connector/webhook"
	"github.com/fireonce/fireonce/internal/engine"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/postgres"
	"github.com/fireonce/fireonce/store/sqlite"

	"github.com/fireonce/fireonce/internal/proof/bench/speed/internal/receiver"
)

const (
	project = "default"
	// keyWindow is how long the receiver is said to know our keys.
	keyWindow = time.Hour
	// glance is how often a loop checks whether all is done.
	glance = 5 * time.Millisecond
	// sqliteEngine names the store that is a file.
	sqliteEngine = "sqlite"
)

// local is Fireonce in this process: a store, an engine and the connector for
// webhooks, put together as `fireonce serve` does it.
type local struct {
	task
	store    store.Store
	sender   *transport.Sender
	webhook  *webhook.Connector
	settings []byte
}

// openLocal opens the task's database.
func openLocal(ctx context.Context, t task) (*local, error) {
	var s store.Store
	var err error
	if t.Engine == sqliteEngine {
		s, err = sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(t.Dir, "fireonce.db"), Migrate: true})
	} else {
		s, err = postgres.Open(ctx, postgres.Options{URL: t.Database, Migrate: true})
	}
	if err != nil {
		return nil, err
	}
	settings, err := proto.Marshal(&connectionsv1.WebhookSettings{
		ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_YES, KeyWindow: durationpb.New(keyWindow),
	})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	l := &local{task: t, store: s, settings: settings}
	l.sender = transport.NewSender(transport.Config{Egress: transport.NewEgress(netip.MustParsePrefix("127.0.0.0/8"))})
	l.webhook = webhook.New(webhook.Config{Sender: l.sender})
	return l, nil
}

func (l *local) close() error {
	l.sender.Close()
	return l.store.Close()
}

// connect makes a connection whose receiver dedupes.
func (l *local) connect(ctx context.Context) (store.Connection, error) {
	c, _, err := l.store.CreateConnection(ctx, store.NewConnection{Connection: store.Connection{
		ID: newID(), Project: project, Connector: webhook.Name, Settings: l.settings,
		Class: job.Keyed, KeyWindow: keyWindow, MaxInFlight: l.mostInFlight(),
	}})
	return c, err
}

// mostInFlight bounds nothing that is measured.
func (l *local) mostInFlight() int { return max(l.Senders, l.Held, store.MaxBatch) }

// newJob makes a job as the server makes it of a request: with its own id, its
// content checked and encoded, and its fingerprint.
func (l *local) newJob(c store.Connection, body []byte, at time.Time) (store.NewJob, error) {
	payload, err := proto.MarshalOptions{Deterministic: true}.Marshal(&fireoncev1.Payload{
		Kind: &fireoncev1.Payload_Webhook{Webhook: &fireoncev1.Webhook{
			Url: l.run().URL(), Content: &fireoncev1.Webhook_BodyText{BodyText: string(body)},
		}},
	})
	if err != nil {
		return store.NewJob{}, err
	}
	id := newID()
	prepared, err := l.webhook.Prepare(connector.Request{
		EffectKey: job.EffectKey("", "default", id.String(), 1), Settings: c.Settings, PayloadKind: webhook.Name, Payload: payload,
	})
	if err != nil {
		return store.NewJob{}, err
	}
	var fingerprint job.Fingerprint
	fingerprint.Set("connection_id", c.ID[:])
	fingerprint.Set("payload", payload)
	return store.NewJob{
		Spec: job.Spec{
			ID: id, Project: project, Key: id.String(), Connection: c.ID, HoldKey: prepared.HoldKey,
			PayloadKind: webhook.Name, Payload: payload, Delivery: job.OnceOrAsk, Fingerprint: fingerprint,
		},
		ScheduleTime: at, Class: c.Class, Actor: "api",
	}, nil
}

// create submits jobs in one call; at zero: due now.
func (l *local) create(ctx context.Context, c store.Connection, at time.Time, from, to int) error {
	items := make([]store.NewJob, to-from)
	for i := range items {
		var err error
		if items[i], err = l.newJob(c, receiver.Payload(from+i, time.Now()), at); err != nil {
			return err
		}
	}
	out, err := l.store.Create(ctx, items)
	if err != nil {
		return err
	}
	for _, o := range out {
		if o.Err != nil || !o.Created {
			return fmt.Errorf("a job was not stored: %w", o.Err)
		}
	}
	return nil
}

// work runs the engine until stop is called.
func (l *local) work(ctx context.Context) (stop func() error, err error) {
	registry, err := connector.NewRegistry(l.webhook)
	if err != nil {
		return nil, err
	}
	e, err := engine.New(engine.Config{
		Store: l.store, Connectors: registry, Worker: "bench/" + strconv.Itoa(os.Getpid()), NewID: newID, Senders: l.Senders,
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Open: func(store.Connection, store.Sealed) (connector.Credential, error) {
			return connector.Credential{}, errors.New("no connection of these has a credential")
		},
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	return func() error { cancel(); return <-done }, nil
}

// states counts jobs by state.
func (l *local) states(ctx context.Context) (map[job.State]int64, error) {
	s, err := l.store.Stats(ctx, store.StatsQuery{Project: project, Window: time.Hour})
	return s.Counts, err
}

// inState wants so many jobs, all in one state.
func (l *local) inState(ctx context.Context, state job.State, want int) error {
	got, err := l.states(ctx)
	if err != nil {
		return err
	}
	others := int64(0)
	for s, n := range got {
		if s != state {
			others += n
		}
	}
	if got[state] != int64(want) || others > 0 {
		err = fmt.Errorf("not %d jobs %v: %v", want, state, got)
	}
	return err
}

// newID makes a UUID of version 7, as the server does.
func newID() job.ID { return job.ID(uuid.Must(uuid.NewV7())) }
