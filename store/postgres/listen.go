package postgres

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fireonce/fireonce/internal/sleep"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: servers announce their writes to each other through NOTIFY, as a hint;
// polling finds what a server misses. Commits with a NOTIFY wait for each other in the whole
// cluster, so no writing transaction has one: one goroutine sends the collected hints, a few
// times a second at most. Another goroutine listens, on a connection outside the pool, at first
// the one that Open has checked the server with. It also holds the locks of this process's
// workers (orphans.go).

const (
	channel = "fireonce"
	// notifyEvery bounds how often hints are sent. A hint waits for notifyAfter: a NOTIFY is
	// a commit of its own, and a job that was just committed may be sent first.
	notifyEvery = 20 * time.Millisecond
	notifyAfter = 2 * time.Millisecond
	// quiet is how long a listening connection may be silent before it is tested.
	quiet = time.Minute
	// Back-off of the listening connection. It is short because the other servers wait as
	// long before they treat this process as gone (settled).
	firstRetry, lastRetry = 100 * time.Millisecond, time.Second
)

// The payload of a notification: the kinds, and the sender.
var kindNames = [...]string{store.WatchWork: "work", store.WatchEvents: "events", store.WatchSchedules: "schedules"}

// notifier sends and receives the hints of one Store.
type notifier struct {
	s *Store
	// name distinguishes this Store's own hints from the others'.
	name   string
	config *pgx.ConnConfig
	// mu guards wanted, the kinds to send.
	mu     sync.Mutex
	wanted store.WatchKinds
	rung   chan struct{}
	// listening is closed when hints of other servers arrive, for tests.
	listening chan struct{}

	end  context.CancelFunc
	done sync.WaitGroup
}

// newNotifier makes a notifier that does nothing yet.
func newNotifier(s *Store, config *pgx.ConnConfig) *notifier {
	b := &notifier{
		s: s, name: randomID().String(), config: config.Copy(),
		rung: make(chan struct{}, 1), listening: make(chan struct{}),
	}
	b.config.OnNotification = b.receive
	return b
}

// start begins to send, and to listen on first, a connection with b's configuration.
func (b *notifier) start(first *pgx.Conn) {
	ctx, end := context.WithCancel(context.Background())
	b.end = end
	b.done.Go(func() { b.send(ctx) })
	b.done.Go(func() { b.listen(ctx, first) })
}

// request queues a notification of the other servers about the kinds that are set.
func (b *notifier) request(kinds store.WatchKinds) {
	if kinds == (store.WatchKinds{}) {
		return
	}
	b.mu.Lock()
	for kind, set := range kinds {
		b.wanted[kind] = b.wanted[kind] || set
	}
	b.mu.Unlock()
	select {
	case b.rung <- struct{}{}:
	default:
	}
}

func (b *notifier) close() {
	b.end()
	b.done.Wait()
}

func (b *notifier) send(ctx context.Context) {
	for {
		select {
		case <-b.rung:
		case <-ctx.Done():
			return
		}
		if !sleep.For(ctx, notifyAfter) {
			return
		}
		b.mu.Lock()
		kinds := b.wanted
		b.wanted = store.WatchKinds{}
		b.mu.Unlock()
		if kinds == (store.WatchKinds{}) {
			continue // the hint before, which was about to go, included it
		}
		b.notify(ctx, kinds)
		if !sleep.For(ctx, notifyEvery-notifyAfter) {
			return
		}
	}
}

// notify sends one notification. A failure is ignored, because it was a hint.
func (b *notifier) notify(ctx context.Context, kinds store.WatchKinds) {
	words := []string{b.name}
	for kind, set := range kinds {
		if set {
			words = append(words, kindNames[kind])
		}
	}
	_, _ = b.s.pool.Exec(ctx, "SELECT pg_notify($1, $2)", channel, strings.Join(words, " "))
}

// receive passes a notification on to this process's watchers. Those of the sending Store
// were woken when it wrote.
func (b *notifier) receive(_ *pgconn.PgConn, n *pgconn.Notification) {
	from, words, _ := strings.Cut(n.Payload, " ")
	if from == b.name {
		return
	}
	var kinds store.WatchKinds
	for _, word := range strings.Fields(words) {
		for kind, name := range kindNames {
			kinds[kind] = kinds[kind] || word == name
		}
	}
	b.s.hints.Notify(kinds)
}

// listen keeps a connection listening until ctx ends, conn at first.
func (b *notifier) listen(ctx context.Context, conn *pgx.Conn) {
	retry, first := firstRetry, true
	for ctx.Err() == nil {
		heard := b.session(ctx, conn, first)
		conn, first = nil, false
		if heard {
			retry = firstRetry
		}
		if !sleep.For(ctx, retry/2+rand.N(retry/2)) { //nolint:gosec // jitter
			return
		}
		retry = min(2*retry, lastRetry)
	}
}

// session listens on one connection until it fails, and reports whether it ever listened. It
// closes conn; nil: it makes one. Notifications that were sent before a later session are lost,
// so it wakes all watchers.
func (b *notifier) session(ctx context.Context, conn *pgx.Conn, first bool) (heard bool) {
	if conn == nil {
		var err error
		if conn, err = pgx.ConnectConfig(ctx, b.config); err != nil {
			return false
		}
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	workers, err := b.s.registry.take(ctx, conn, 0)
	if err != nil {
		return false
	}
	b.s.registry.began(workers)
	defer b.s.registry.ended()
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return false
	}
	if first {
		close(b.listening)
	} else {
		b.s.hints.Notify(store.WatchKinds{true, true, true})
	}
	for {
		if workers, err = b.s.registry.take(ctx, conn, workers); err != nil {
			return true
		}
		b.s.registry.holds(workers)
		err := b.wait(ctx, conn)
		if ctx.Err() != nil {
			return true
		}
		if err == nil {
			continue
		}
		// Silence, or a connection that was lost without an error.
		ping, cancel := context.WithTimeout(ctx, pingTimeout)
		err = conn.Ping(ping)
		cancel()
		if err != nil {
			return true
		}
	}
}

// wait waits for a notification, for a worker to be enlisted, or until the connection has
// been silent for quiet, which is an error.
func (b *notifier) wait(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, quiet)
	defer cancel()
	enlisted := make(chan bool, 1)
	var ends sync.WaitGroup
	ends.Go(func() {
		select {
		case <-b.s.registry.news:
			enlisted <- true
			cancel()
		case <-ctx.Done():
		}
	})
	err := conn.PgConn().WaitForNotification(ctx)
	cancel()
	ends.Wait()
	select {
	case <-enlisted:
		return nil
	default:
		return err
	}
}
