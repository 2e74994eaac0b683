package server_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/server"
)

const runDue = serversPath + "RunDue"

// quietAfter is a worker that needs a time for its work, and has nothing to do for next.
func quietAfter(work, next time.Duration) func(context.Context, time.Duration) (time.Duration, error) {
	return func(ctx context.Context, limit time.Duration) (time.Duration, error) {
		select {
		case <-time.After(work):
			return min(next, limit), nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

func TestRunDue(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		work, next time.Duration
		done       bool
		due        bool
	}{
		"done, more in an hour":      {next: time.Hour, done: true, due: true},
		"done, nothing in a day":     {next: 48 * time.Hour, done: true},
		"more than the call has for": {work: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t, func(c *server.Config) { c.Quiet = quietAfter(tt.work, tt.next) })
			req := &adminv1.RunDueRequest{}
			if tt.work > 0 {
				req.MaxWait = durationpb.New(time.Millisecond)
			}
			got, err := ask[adminv1.RunDueResponse](t, overConnect(f), runDue, req)
			f.must(err)
			if got.GetDone() != tt.done || (got.GetNextDueTime() != nil) != tt.due {
				t.Errorf("answer %v", got)
			}
			if want := f.clock.Now().Add(tt.next); tt.due && !got.GetNextDueTime().AsTime().Equal(want) {
				t.Errorf("the next is due at %s, want %s", got.GetNextDueTime().AsTime(), want)
			}
		})
	}
}

// TestRunDueRefuses: a call whose wait could never end is refused immediately.
func TestRunDueRefuses(t *testing.T) {
	t.Parallel()
	begun, end := make(chan struct{}), make(chan struct{})
	f := start(t, func(c *server.Config) {
		c.Quiet = func(context.Context, time.Duration) (time.Duration, error) {
			begun <- struct{}{}
			<-end
			return time.Minute, nil
		}
	})
	const most = 4
	answers := make(chan error, most)
	for range most {
		go func() {
			answers <- overConnect(f).call(context.Background(), runDue, &adminv1.RunDueRequest{}, &adminv1.RunDueResponse{})
		}()
		<-begun
	}
	err := overConnect(f).call(t.Context(), runDue, &adminv1.RunDueRequest{}, &adminv1.RunDueResponse{})
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_SERVER_BUSY)
	close(end)
	for range most {
		f.must(<-answers)
	}
	f.must(f.store.Quarantine(t.Context(), "test"))
	f.clock.advance(time.Minute) // what is known of the database is kept for a while
	err = overConnect(f).call(t.Context(), runDue, &adminv1.RunDueRequest{}, &adminv1.RunDueResponse{})
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_QUARANTINED)
}
