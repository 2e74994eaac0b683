//go:build unix

package postgres

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// cutter is a proxy between a server and its database. On request it cuts one connection at a
// COMMIT: before the database gets it, or before the answer is passed on.
type cutter struct {
	t        *testing.T
	listener net.Listener
	network  string
	address  string
	mode     atomic.Int32
	cuts     atomic.Int32
	wg       sync.WaitGroup
}

const (
	cutNothing int32 = iota
	cutRequest
	cutAnswer
)

var (
	// commitRequest is COMMIT on its way, as the text of a query or of a statement to be
	// prepared or run.
	commitRequest = []byte("COMMIT\x00")
	// commitAnswer is the server's message that the COMMIT is done.
	commitAnswer = []byte("C\x00\x00\x00\x0bCOMMIT\x00")
)

// newCutter listens for connections to the database of a URL and returns the URL to use in
// its place.
func newCutter(t *testing.T, to string) (*cutter, string) {
	t.Helper()
	config, err := pgx.ParseConfig(to)
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{t: t}
	c.network, c.address = pgconnAddress(config.Host, config.Port)
	var lc net.ListenConfig
	if c.listener, err = lc.Listen(t.Context(), "tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.listener.Close()
		c.wg.Wait()
	})
	c.wg.Go(c.accept)
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(config.User, config.Password),
		Host: c.listener.Addr().String(), Path: "/" + config.Database, RawQuery: "sslmode=disable",
	}
	return c, u.String()
}

func (c *cutter) accept() {
	for {
		client, err := c.listener.Accept()
		if err != nil {
			return
		}
		var d net.Dialer
		server, err := d.DialContext(context.Background(), c.network, c.address)
		if err != nil {
			c.t.Error(err)
			_ = client.Close()
			return
		}
		end := sync.OnceFunc(func() {
			_ = client.Close()
			_ = server.Close()
		})
		c.wg.Go(func() { c.pass(server, client, cutRequest, commitRequest, end) })
		c.wg.Go(func() { c.pass(client, server, cutAnswer, commitAnswer, end) })
	}
}

// pass copies in one direction until the point of its cut.
func (c *cutter) pass(to, from net.Conn, mode int32, at []byte, end func()) {
	defer end()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if bytes.Contains(buf[:n], at) && c.mode.CompareAndSwap(mode, cutNothing) {
			c.cuts.Add(1)
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// pgconnAddress returns the network and address of a host, which may be the folder of a
// socket.
func pgconnAddress(host string, port uint16) (network, address string) {
	if filepath.IsAbs(host) {
		return "unix", filepath.Join(host, ".s.PGSQL."+strconv.Itoa(int(port)))
	}
	return "tcp", net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// An arm whose COMMIT was lost, or its answer, is unconfirmed. Reading it back through
// another connection returns its real outcome.
func TestLostCommit(t *testing.T) {
	for _, tt := range []struct {
		name string
		mode int32
		want error
	}{
		{"the request", cutRequest, store.ErrNotFound},
		{"the answer", cutAnswer, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFleet(t, 1)
			conn := f.connect()
			f.submit(1, conn)
			c, through := newCutter(t, f.url)
			s := f.join(through)
			// The claim leaves a connection that is ready for use.
			leases, err := claimOf(s, 1)
			if err != nil || len(leases) != 1 {
				t.Fatal(leases, err)
			}
			l := leases[0]
			a := intentOf(l)
			c.mode.Store(tt.mode)
			_, err = s.Arm(t.Context(), []store.Arm{a})
			c.mode.Store(cutNothing)
			if !errors.Is(err, store.ErrUnconfirmed) {
				t.Fatalf("arm: got %v, want %v", err, store.ErrUnconfirmed)
			}
			if c.cuts.Load() == 0 {
				t.Fatal("nothing was cut")
			}
			got, err := s.ArmedBy(t.Context(), l.ID, a.Token)
			if !errors.Is(err, tt.want) {
				t.Fatalf("read back: got %v, want %v", err, tt.want)
			}
			stored, jerr := s.Job(t.Context(), store.Ref{ID: l.ID})
			if jerr != nil {
				t.Fatal(jerr)
			}
			if (stored.State == job.Sending) != (err == nil) {
				t.Errorf("the job is %s, and the arm is read back as %v", stored.State, err)
			}
			if err == nil && (got.Attempt.ArmToken != a.Token || got.Snapshot.State != job.Sending) {
				t.Errorf("read back %+v", got)
			}
		})
	}
}

// A claim whose COMMIT was lost, or its answer, is read back immediately: durable leases are
// returned, and the caller does not wait for them to end.
func TestLostCommitOfAClaim(t *testing.T) {
	for _, mode := range []int32{cutRequest, cutAnswer} {
		f := newFleet(t, 1)
		f.submit(2, f.connect())
		c, through := newCutter(t, f.url)
		s := f.join(through)
		first, err := claimOf(s, 1) // a connection that is ready for use
		if err != nil || len(first) != 1 {
			t.Fatal(first, err)
		}
		c.mode.Store(mode)
		got, err := claimOf(s, 1)
		if err != nil || c.cuts.Load() != 1 {
			t.Fatalf("%d cuts, %v", c.cuts.Load(), err)
		}
		if (len(got) == 1) != (mode == cutAnswer) {
			t.Errorf("cut %d: %d leases are read back", mode, len(got))
		}
		if mode == cutRequest {
			if got, err = claimOf(s, 1); err != nil || len(got) != 1 {
				t.Fatalf("the next claim: %v, %v", got, err)
			}
		}
		if a, err := s.Arm(t.Context(), []store.Arm{intentOf(got[0])}); err != nil || a[0].Err != nil {
			t.Errorf("arm: %v, %v", a, err)
		}
	}
}

// The same holds for a claim that arms: durable intents are returned as armed, and no others.
func TestLostCommitOfAnIntendedClaim(t *testing.T) {
	for _, mode := range []int32{cutRequest, cutAnswer} {
		f := newFleet(t, 1)
		f.submit(2, f.connect())
		c, through := newCutter(t, f.url)
		s := f.join(through)
		first, err := claimOf(s, 1) // a connection that is ready for use
		if err != nil || len(first) != 1 {
			t.Fatal(first, err)
		}
		var a store.Arm
		c.mode.Store(mode)
		got, err := s.Claim(t.Context(), store.ClaimParams{
			Worker: "w", Lease: time.Minute, Limit: 1,
			Intent: func(l store.Leased) *store.Arm {
				a = intentOf(l)
				a.Class = job.Keyed
				return &a
			},
		})
		if err != nil || c.cuts.Load() != 1 {
			t.Fatalf("%d cuts, %v", c.cuts.Load(), err)
		}
		if (len(got) == 1) != (mode == cutAnswer) {
			t.Fatalf("cut %d: %d leases are read back", mode, len(got))
		}
		_, err = s.ArmedBy(t.Context(), a.Job, a.Token)
		if mode == cutRequest {
			if !errors.Is(err, store.ErrNotFound) {
				t.Errorf("an intent that was not written is read back: %v", err)
			}
			continue
		}
		if err != nil || got[0].Armed == nil || got[0].Armed.Attempt.ArmToken != a.Token {
			t.Errorf("read back %+v, %v", got[0].Armed, err)
		}
	}
}

// A job that was to be started as it is stored is either stored and started or not stored,
// and its key shows that to a repeated call.
func TestLostCommitOfAStart(t *testing.T) {
	for _, mode := range []int32{cutRequest, cutAnswer} {
		f := newFleet(t, 1)
		conn := f.connect()
		c, through := newCutter(t, f.url)
		s := f.join(through)
		if _, err := startOf(s, conn); err != nil { // the runnable row, and a connection
			t.Fatal(err)
		}
		var a store.Arm
		n := newSpec(conn)
		n.Start = &store.ClaimParams{Worker: "w", Lease: time.Minute, Intent: func(l store.Leased) *store.Arm {
			a = intentOf(l)
			return &a
		}}
		c.mode.Store(mode)
		if _, err := s.Create(t.Context(), []store.NewJob{n}); !errors.Is(err, store.ErrUnconfirmed) || c.cuts.Load() != 1 {
			t.Fatalf("%d cuts, %v", c.cuts.Load(), err)
		}
		first := a
		armed, err := s.ArmedBy(t.Context(), first.Job, first.Token)
		if durable := mode == cutAnswer; (err == nil) != durable || !durable && !errors.Is(err, store.ErrNotFound) {
			t.Errorf("cut %d: read back %+v, %v", mode, armed, err)
		}
		n.Spec.ID = randomID()
		out, err := s.Create(t.Context(), []store.NewJob{n})
		if err != nil || out[0].Err != nil || out[0].Created != (mode == cutRequest) {
			t.Fatalf("cut %d: again: %+v, %v", mode, out, err)
		}
		if mode == cutAnswer && (out[0].Snapshot.ID != first.Job || out[0].Snapshot.State != job.Sending || out[0].Started != nil) {
			t.Errorf("again: %+v", out[0])
		}
		if n := f.count("SELECT count(*) FROM every_attempt"); n != 2 {
			t.Errorf("cut %d: %d attempts", mode, n)
		}
		f.consistent()
	}
}

// Reading back waits for a transaction that may still arm, even after its client's connection
// was lost.
func TestReadBackWaits(t *testing.T) {
	f := newFleet(t, 1)
	f.submit(1, f.connect())
	l := f.claim(1)[0]
	a := intentOf(l)
	s := f.stores[0]
	armed, commit := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := write(t.Context(), s, "arm", func(ctx context.Context, tx *tx) ([]store.Armed, error) {
			jobs, err := tx.reread(ctx, []job.ID{a.Job})
			if err != nil {
				return nil, err
			}
			b := &jobArmer{tx: tx, items: []store.Arm{a}, out: make([]store.Armed, 1)}
			if err := b.armIndependent(ctx, jobs, nil, []int{0}); err != nil {
				return nil, err
			}
			if err := tx.flush(ctx); err != nil {
				return nil, err
			}
			close(armed)
			<-commit
			return b.out, b.out[0].Err
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-armed
	other := f.join(f.url)
	wg.Go(func() {
		got, err := other.ArmedBy(context.Background(), l.ID, a.Token)
		if err != nil || got.Attempt.ArmToken != a.Token {
			t.Errorf("read back %+v, %v", got, err)
		}
	})
	// The reader is waiting for the writer before the writer commits.
	for f.count("SELECT count(*) FROM pg_locks WHERE NOT granted") == 0 {
		if t.Failed() {
			break
		}
	}
	close(commit)
	wg.Wait()
}
