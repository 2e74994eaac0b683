//go:build unix

package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/internal/proof/pgtest"
	"github.com/fireonce/fireonce/store"
)

// TestOpenTellsWaitingFromRefused: failures that may pass, and failures that do not.
func TestOpenTellsWaitingFromRefused(t *testing.T) {
	c := pgtest.Start(t, pgtest.Options{Settings: map[string]string{"max_connections": "8", "superuser_reserved_connections": "0"}})
	name := c.NewDatabase(t)
	url := c.URL(name)
	open := func(url string) error {
		s, err := Open(t.Context(), Options{URL: url, Migrate: true})
		if err == nil {
			_ = s.Close()
		}
		return err
	}
	if err := open(url); err != nil {
		t.Fatal(err)
	}
	c.Exec(t, "postgres", "CREATE ROLE stranger LOGIN; CREATE ROLE guest NOLOGIN")
	for what, url := range map[string]string{
		"no such database":     c.URL("nowhere"),
		"no such role":         strings.Replace(url, pgtest.Role+"@", "nobody@", 1),
		"a role without login": strings.Replace(url, pgtest.Role+"@", "guest@", 1),
		"a role without right": strings.Replace(url, pgtest.Role+"@", "stranger@", 1),
	} {
		if err := open(url); !errors.Is(err, ErrRefused) || errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}

	end := fillUp(t, url)
	if err := open(url); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("too many connections: %v", err)
	}
	end()

	c.Stop(t, pgtest.Fast)
	if err := open(url); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a server that is stopped: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	if _, err := Open(ctx, Options{URL: url}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the caller's time is over: %v", err)
	}
	c.Start(t)
	if err := open(url); err != nil {
		t.Errorf("started again: %v", err)
	}
}

// fillUp takes every connection that a server has left.
func fillUp(t *testing.T, url string) (end func()) {
	t.Helper()
	var held []*pgx.Conn
	for len(held) < 100 {
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			return func() {
				for _, conn := range held {
					_ = conn.Close(context.Background())
				}
			}
		}
		held = append(held, conn)
	}
	t.Fatal("the server has no limit")
	return nil
}

// TestAnOpenDoesNotWaitForASilentServer checks that a part of an Open that gets no answer ends, as
// one that may work later.
func TestAnOpenDoesNotWaitForASilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := within(t.Context(), func(ctx context.Context) error {
			<-ctx.Done()
			return opening(ctx, errors.New("timeout"))
		})
		if !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("no answer: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := within(ctx, func(ctx context.Context) error { return opening(ctx, errors.New("x")) }); !errors.Is(err, context.Canceled) {
			t.Errorf("its caller gave up: %v", err)
		}
	})
}
