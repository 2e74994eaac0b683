package engine_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/engine"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// failing is a store whose claims fail with an error, as long as one is set.
type failing struct {
	engine.Store
	err    atomic.Pointer[error]
	all    bool         // other calls fail too
	claims atomic.Int64 // that failed
}

func (f *failing) fails() error {
	if err := f.err.Load(); err != nil {
		return *err
	}
	return nil
}

func (f *failing) Claim(ctx context.Context, p store.ClaimParams) ([]store.Leased, error) {
	if err := f.fails(); err != nil {
		f.claims.Add(1)
		return nil, err
	}
	return f.Store.Claim(ctx, p)
}

func (f *failing) ClaimLooks(ctx context.Context, p store.ClaimParams) ([]store.Leased, error) {
	if err := f.fails(); err != nil {
		f.claims.Add(1)
		return nil, err
	}
	return f.Store.ClaimLooks(ctx, p)
}

func (f *failing) Overdue(ctx context.Context, limit int) ([]job.Snapshot, error) {
	if err := f.fails(); err != nil && f.all {
		return nil, err
	}
	return f.Store.Overdue(ctx, limit)
}

func (f *failing) NextDue(ctx context.Context, limit time.Duration) (time.Duration, error) {
	if err := f.fails(); err != nil && f.all {
		return 0, err
	}
	return f.Store.NextDue(ctx, limit)
}

func (f *failing) Apply(ctx context.Context, items []store.Change) ([]store.Applied, error) {
	if err := f.fails(); err != nil && f.all {
		return nil, err
	}
	return f.Store.Apply(ctx, items)
}

// logged collects log lines.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

// count counts the lines with a text, and all lines.
func (l *logged) count(text string) (with, all int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.buf.String()) {
		all++
		if strings.Contains(line, text) {
			with++
		}
	}
	return with, all
}

func logTo(l *logged) option {
	return func(w *world) { w.config.Log = slog.New(slog.NewTextHandler(l, nil)) }
}

func breaking(f *failing) option {
	return through(func(s engine.Store) engine.Store { f.Store = s; return f })
}

func TestAQuarantineIsToldOnceAndWaitedOut(t *testing.T) {
	f, log := &failing{}, &logged{}
	quarantined := errors.Join(store.ErrQuarantined, errors.New("a copy"))
	f.err.Store(&quarantined)
	in(t, func(t *testing.T, w *world) {
		w.config.Poll = 100 * time.Millisecond
		w.start()
		for i := range 600 { // submissions send hints all the time
			w.submit("hint "+time.Duration(i).String(), at(time.Hour))
			w.pass(time.Second)
		}
		if begun, all := log.count("quarantined"); begun != 1 || all != 1 {
			t.Errorf("%d lines, %d of them about the quarantine", all, begun)
		}
		if n := f.claims.Load(); n < 100 || n > 300 {
			t.Errorf("%d claims in ten minutes", n)
		}
		id := w.submit("waits")
		f.err.Store(nil)
		w.until(id, job.Succeeded, 10*time.Second)
		if over, all := log.count("quarantine is over"); over != 1 || all != 2 {
			t.Errorf("%d lines, %d of them about its end", all, over)
		}
	}, breaking(f), logTo(log))
}

func TestAStoreThatFailsIsToldOnceAMinute(t *testing.T) {
	f, log := &failing{all: true}, &logged{}
	in(t, func(t *testing.T, w *world) {
		w.config.Poll = 100 * time.Millisecond
		w.platform.publish = func(_ int, c connector.Commit) job.Outcome {
			f.err.Store(&store.ErrUnavailable) // it fails before the outcome is stored
			return w.platform.confirm(c)
		}
		w.start()
		id := w.submit("outage")
		w.pass(10*time.Minute + time.Second)
		if fails, all := log.count("the store fails"); fails < 10 || fails > 12 || all != fails {
			t.Errorf("%d lines in ten minutes, %d of them about the store", all, fails)
		}
		f.err.Store(nil)
		w.until(id, job.Succeeded, time.Minute)
		w.pass(time.Minute)
		if again, _ := log.count("the store works again"); again != 1 {
			t.Errorf("%d lines about its recovery", again)
		}
	}, breaking(f), logTo(log))
}

// An unknown outcome that this server cannot look into (its connector or its
// credential's key is missing) waits ever longer: it may stay so for days.
func TestAnOutcomeThatNobodyHereCanLookIntoIsLeftAlone(t *testing.T) {
	observable(t, func(t *testing.T, w *world) {
		w.connectWithCredential()
		w.config.Poll = time.Minute
		var locked atomic.Bool
		w.config.Open = func(store.Connection, store.Sealed) (connector.Credential, error) {
			if locked.Load() {
				return connector.Credential{}, errors.New("no such key")
			}
			return connector.Credential{}, nil
		}
		w.platform.publish = func(_ int, c connector.Commit) job.Outcome {
			w.platform.commit(c.EffectKey)
			locked.Store(true)
			return unknown("connection reset")
		}
		w.start()
		id := w.submit("locked")
		w.pass(72 * time.Hour)
		s := w.job(id)
		if n := len(w.events(id)); s.State != job.Ambiguous || n > 110 {
			t.Errorf("%s with %d events after three days", s.State, n)
		}
		if !strings.Contains(s.Blocked, "cannot open this connection's credential") {
			t.Errorf("blocked %q", s.Blocked)
		}
		locked.Store(false)
		if s = w.until(id, job.Succeeded, 2*time.Hour); s.Blocked != "" {
			t.Errorf("still blocked: %q", s.Blocked)
		}
	})
}
