//go:build unix

package postgres

import (
	"context"
	"runtime"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/store"
)

// TestHintsBetweenServers: the writes of one server wake the watchers of another, also after
// its listening connection was cut.
func TestHintsBetweenServers(t *testing.T) {
	f := newFleet(t, 2)
	conn := f.connect()
	a, b := f.stores[0], f.stores[1]
	work, end := b.Watch(store.WatchWork)
	defer end()
	events, endEvents := b.Watch(store.WatchEvents)
	defer endEvents()
	<-a.notifier.listening // both are cut below
	<-b.notifier.listening
	if _, err := a.Create(t.Context(), []store.NewJob{newSpec(conn)}); err != nil {
		t.Fatal(err)
	}
	<-work
	<-events
	listeners := f.count(`SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE datname = current_database() AND query = 'LISTEN fireonce'`)
	if listeners != 2 {
		t.Fatalf("%d listening connections, want 2", listeners)
	}
	<-work // what may have been missed
	<-events
	if _, err := a.Create(t.Context(), []store.NewJob{newSpec(conn)}); err != nil {
		t.Fatal(err)
	}
	<-work
	<-events
}

// TestHintsSayWhat: a hint that comes while another one is about to be sent is sent with it,
// and not again.
func TestHintsSayWhat(t *testing.T) {
	f := newFleet(t, 1)
	conn, err := pgx.Connect(t.Context(), f.url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(t.Context(), "LISTEN "+channel); err != nil {
		t.Fatal(err)
	}
	b := f.stores[0].notifier
	b.request(store.WatchKinds{store.WatchWork: true})
	for len(b.rung) > 0 { // the first is about to go
		runtime.Gosched()
	}
	b.request(store.WatchKinds{store.WatchEvents: true})
	told := func(ctx context.Context) error {
		got, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		if _, words, _ := strings.Cut(got.Payload, " "); words == "" {
			t.Errorf("a hint of nothing: %q", got.Payload)
		}
		return nil
	}
	if err := told(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Another one would come soon; a busy machine cannot make this fail.
	ctx, end := context.WithTimeout(t.Context(), 10*notifyEvery)
	defer end()
	for told(ctx) == nil {
	}
}
