// Package follow reads a project's event log without a gap: it resumes from the last
// cursor when the connection is lost, the stream ends, or the server is restarted.
package follow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1/fireoncev1connect"
	"github.com/fireonce/fireonce/internal/sleep"
)

// ErrStop is returned by a handler that has seen enough. Events then returns nil.
var ErrStop = errors.New("stop following")

const (
	// silence is how long a stream may send nothing before it counts as dead: the
	// server promises a heartbeat every 15 s.
	silence = 45 * time.Second
	// defaultPatience is how long a server may be unreachable.
	defaultPatience = 10 * time.Minute

	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
)

// Options select the events and the position at which to begin.
type Options struct {
	// Filter selects events; nil: all events of the project.
	Filter *fireoncev1.EventFilter
	// After is the cursor after which to begin. Without it Beginning decides.
	After string
	// Beginning: all kept events; false: events from now on.
	Beginning bool
	// IncludeJob adds the job to each event, as it is when the event is read.
	IncludeJob bool
	// Patience is how long to try to reconnect to a server that was reached once;
	// 0: 10 min.
	Patience time.Duration
	// Lost is called for each lost connection. May be nil.
	Lost func(error)
}

// Events calls handle with each event in the log's order, without heartbeats. It
// returns nil if handle returned ErrStop, handle's error if it failed, the server's
// error if that is final, and the last error if the server was never reached or was
// unreachable for longer than Patience.
func Events(ctx context.Context, jobs fireoncev1connect.JobServiceClient, o Options, handle func(*fireoncev1.JobEvent) error) error {
	if o.Patience == 0 {
		o.Patience = defaultPatience
	}
	f := follower{Options: o, jobs: jobs, handle: handle}
	pause := firstPause
	var lastHeard time.Time
	for {
		heard, err := f.once(ctx)
		var h handlerError
		switch {
		case errors.As(err, &h):
			if errors.Is(h.err, ErrStop) {
				return nil
			}
			return h.err
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil: // the server ended the stream after its longest time; a new one continues
			pause, lastHeard = firstPause, time.Now()
			if !sleep.For(ctx, pause) {
				return ctx.Err()
			}
			continue
		case final(err):
			return err
		}
		if heard {
			pause, lastHeard = firstPause, time.Now()
		}
		if lastHeard.IsZero() || time.Since(lastHeard) > o.Patience {
			return err
		}
		if heard && o.Lost != nil {
			o.Lost(err)
		}
		if !sleep.For(ctx, pause) {
			return ctx.Err()
		}
		pause = min(2*pause, maxPause)
	}
}

// final reports whether a repeat cannot help. Only an error from the server can be final:
// connect-go itself reports INVALID_ARGUMENT for a stream that breaks off in the middle of a
// message.
func final(err error) bool {
	if !connect.IsWireError(err) {
		return false
	}
	switch connect.CodeOf(err) {
	case connect.CodeUnavailable, connect.CodeUnknown, connect.CodeInternal, connect.CodeAborted,
		connect.CodeDeadlineExceeded, connect.CodeCanceled, connect.CodeResourceExhausted:
		return false
	default:
		return true
	}
}

// handlerError marks an error of the handler, as opposed to one of the stream.
type handlerError struct{ err error }

func (e handlerError) Error() string { return e.err.Error() }

type follower struct {
	Options
	jobs   fireoncev1connect.JobServiceClient
	handle func(*fireoncev1.JobEvent) error
}

// once reads one stream to its end. heard reports whether the server answered.
func (f *follower) once(ctx context.Context) (heard bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	dead := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer dead.Stop()
	defer func() {
		if errors.Is(context.Cause(ctx), errSilent) {
			err = connect.NewError(connect.CodeUnavailable, errSilent)
		}
	}()

	stream, err := f.jobs.StreamJobEvents(ctx, f.request())
	if err != nil {
		return false, err
	}
	defer func() { _ = stream.Close() }()
	for stream.Receive() {
		dead.Reset(silence)
		heard = true
		event := stream.Msg().GetEvent()
		if event.GetJobChanged() != nil {
			if err := f.handle(event); err != nil {
				return true, handlerError{err}
			}
		}
		// Set only after the handler: an event that was not handled is read again.
		if event.GetCursor() != "" {
			f.After = event.GetCursor()
		}
	}
	return heard, stream.Err()
}

var errSilent = fmt.Errorf("the server sent nothing for %v", silence)

func (f *follower) request() *fireoncev1.StreamJobEventsRequest {
	req := &fireoncev1.StreamJobEventsRequest{Filter: f.Filter, IncludeJob: f.IncludeJob}
	switch {
	case f.After != "":
		req.Start = &fireoncev1.StreamJobEventsRequest_AfterCursor{AfterCursor: f.After}
	case f.Beginning:
		req.Start = &fireoncev1.StreamJobEventsRequest_FromBeginning{FromBeginning: true}
	default:
		req.Start = &fireoncev1.StreamJobEventsRequest_FromNow{FromNow: true}
	}
	return req
}
