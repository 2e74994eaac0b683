package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/firing"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/postgres"
	"github.com/fireonce/fireonce/store/sqlite"
)

// pastSchedule is a schedule with times in the past, which a test writes directly to a database:
// no call of the API makes such a schedule.
type pastSchedule struct {
	cron     string
	from     time.Time // earlier times are passed
	until    time.Time // the first instant without a firing
	url      string    // of the webhook
	dedupes  bool
	timeout  time.Duration // of an attempt; 0: the default
	policies *schedulesv1.SchedulePolicies
	// items are the URLs of the webhooks in its queue, which replaces url.
	items []string
}

// openStore opens a database. On SQLite no server may run.
func openStore(tb testing.TB, database string) store.Store {
	tb.Helper()
	var s store.Store
	var err error
	if path, lite := strings.CutPrefix(database, "sqlite:"); lite {
		s, err = sqlite.Open(context.Background(), sqlite.Options{Path: path, Readers: 1})
	} else {
		s, err = postgres.Open(context.Background(), postgres.Options{URL: database})
	}
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// plant writes schedules to a database. On SQLite no server may have it open.
func plant(tb testing.TB, database string, all ...pastSchedule) []store.Ref {
	tb.Helper()
	s := openStore(tb, database)
	defer func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	}()
	var refs []store.Ref
	for _, p := range all {
		ref, err := p.plant(s)
		if err != nil {
			tb.Fatal(err)
		}
		refs = append(refs, ref)
	}
	return refs
}

func (p pastSchedule) plant(s store.Store) (store.Ref, error) {
	settings, class := &connectionsv1.WebhookSettings{ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_NO}, job.Opaque
	if p.dedupes {
		settings.ReceiverDedupes, settings.KeyWindow = connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_YES, durationpb.New(time.Hour)
		class = job.Keyed
	}
	spec := &schedulesv1.ScheduleSpec{TimeZone: "UTC", CronExpressions: []string{p.cron}, EndTime: timestamppb.New(p.until)}
	template := &schedulesv1.JobTemplate{Content: &schedulesv1.JobTemplate_Payload{Payload: pastPayload(p.url)}}
	if len(p.items) > 0 {
		template.Content = &schedulesv1.JobTemplate_Queue{Queue: &schedulesv1.QueueContent{}}
	}
	if p.timeout > 0 {
		template.AttemptTimeout = durationpb.New(p.timeout)
	}
	var encoded [4][]byte
	for i, m := range []proto.Message{settings, spec, template, p.policies} {
		var err error
		if encoded[i], err = proto.Marshal(m); err != nil {
			return store.Ref{}, err
		}
	}
	id := job.ID(uuid.Must(uuid.NewV7()))
	times, err := schedule.Compile(id, 1, spec, recur.NewZones(""))
	if err != nil {
		return store.Ref{}, err
	}
	cursor, err := firing.Begin(times, p.from)
	if err != nil {
		return store.Ref{}, err
	}
	conn, _, err := s.CreateConnection(context.Background(), store.NewConnection{Key: id.String(), Connection: store.Connection{
		ID: job.ID(uuid.Must(uuid.NewV7())), Project: "default", Connector: "webhook", Class: class, Settings: encoded[0], KeyWindow: settings.GetKeyWindow().AsDuration(),
	}})
	if err != nil {
		return store.Ref{}, err
	}
	_, _, err = s.CreateSchedule(context.Background(), store.NewSchedule{Schedule: store.Schedule{
		ID: id, Project: "default", Key: id.String(), Connection: conn.ID, State: store.ScheduleActive, Cursor: cursor, Next: p.from,
		Spec: encoded[1], Template: encoded[2], Policies: encoded[3], Queued: len(p.items) > 0,
	}})
	if err != nil {
		return store.Ref{}, err
	}
	for _, url := range p.items {
		payload, err := proto.Marshal(pastPayload(url))
		if err != nil {
			return store.Ref{}, err
		}
		if _, _, err := s.AddItem(context.Background(), store.NewItem{Project: "default", Item: store.ScheduleItem{
			ID: job.ID(uuid.Must(uuid.NewV7())), Schedule: id, Key: url, PayloadKind: "webhook", Payload: payload,
		}}); err != nil {
			return store.Ref{}, err
		}
	}
	return store.Ref{Project: "default", ID: id}, nil
}

func pastPayload(url string) *fireoncev1.Payload {
	return &fireoncev1.Payload{Kind: &fireoncev1.Payload_Webhook{Webhook: &fireoncev1.Webhook{
		Url: url, Content: &fireoncev1.Webhook_BodyText{BodyText: `{"at":"{{nominal_time}}"}`},
	}}}
}
