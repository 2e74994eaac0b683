//go:build unix

package postgres

import (
	"testing"

	"github.com/fireonce/fireonce/store"
)

// TestHintsBetweenServers: what one server writes wakes the watchers of another,
// also after its listening connection was cut.
func TestHintsBetweenServers(t *testing.T) {
	f := newFleet(t, 2)
	conn := f.connect()
	a, b := f.stores[0], f.stores[1]
	work, end := b.Watch(store.WatchWork)
	defer end()
	events, endEvents := b.Watch(store.WatchEvents)
	defer endEvents()
	<-b.bell.listening
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
