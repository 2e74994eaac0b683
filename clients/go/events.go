package fireonce

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"connectrpc.com/connect"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
)

// silence is how long a stream may send nothing before it counts as dead: the server
// promises a heartbeat every 15 s.
const silence = 45 * time.Second

var errSilent = fmt.Errorf("the server sent nothing for %v", silence)

// EventOptions select events and the position at which to begin.
type EventOptions struct {
	// Filter selects events. Nil: all events of the project.
	Filter *fireoncev1.EventFilter
	// After is the cursor after which to begin: JobEvent.cursor, or an events_cursor. Empty:
	// see FromNow.
	After string
	// FromNow skips the events that are in the log already. False: all kept events.
	FromNow bool
	// IncludeJob adds the job to each event, as it is when the event is read.
	IncludeJob bool
}

// Events returns every change of the jobs in the log's order, without heartbeats. It
// continues across lost connections and restarts of the server. It ends when ctx ends, after
// a final error, and when the server is unreachable for longer than Options.Patience. The
// last pair has the error.
//
// An event counts as processed when the loop asks for the next one. To continue after a
// restart of your program, store the event's cursor in the transaction that stores the
// event's effect.
func (c *Client) Events(ctx context.Context, o EventOptions) iter.Seq2[*fireoncev1.JobEvent, error] {
	return func(yield func(*fireoncev1.JobEvent, error) bool) {
		pause, lastHeard := firstPause, time.Now()
		for {
			heard, err := c.stream(ctx, &o, func(e *fireoncev1.JobEvent) bool { return yield(e, nil) })
			if errors.Is(err, errEnough) {
				return
			}
			if heard {
				pause, lastHeard = firstPause, time.Now()
			}
			switch {
			case ctx.Err() != nil:
				yield(nil, ctx.Err())
				return
			case err != nil && (final(err) || time.Since(lastHeard) > c.patience):
				yield(nil, err)
				return
			}
			_ = sleep(ctx, spread(pause)) // if ctx has ended, the next try fails
			pause = min(2*pause, maxPause)
		}
	}
}

// errEnough ends a stream whose reader has left the loop.
var errEnough = errors.New("enough")

// stream reads one stream to its end, and updates o.After. heard reports whether the server
// answered.
func (c *Client) stream(ctx context.Context, o *EventOptions, handle func(*fireoncev1.JobEvent) bool) (heard bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	dead := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer dead.Stop()
	defer func() {
		if errors.Is(context.Cause(ctx), errSilent) && !errors.Is(err, errEnough) {
			err = connect.NewError(connect.CodeUnavailable, errSilent)
		}
	}()
	stream, err := c.Jobs.StreamJobEvents(ctx, o.request())
	if err != nil {
		return false, err
	}
	defer func() { _ = stream.Close() }()
	for stream.Receive() {
		dead.Stop() // the reader's time does not count
		heard = true
		event := stream.Msg().GetEvent()
		if event.GetJobChanged() != nil && !handle(event) {
			return true, errEnough
		}
		if event.GetCursor() != "" {
			o.After = event.GetCursor()
		}
		dead.Reset(silence)
	}
	return heard, stream.Err()
}

func (o *EventOptions) request() *fireoncev1.StreamJobEventsRequest {
	req := &fireoncev1.StreamJobEventsRequest{Filter: o.Filter, IncludeJob: o.IncludeJob}
	switch {
	case o.After != "":
		req.Start = &fireoncev1.StreamJobEventsRequest_AfterCursor{AfterCursor: o.After}
	case o.FromNow:
		req.Start = &fireoncev1.StreamJobEventsRequest_FromNow{FromNow: true}
	default:
		req.Start = &fireoncev1.StreamJobEventsRequest_FromBeginning{FromBeginning: true}
	}
	return req
}

// final reports whether a reopened stream would end with the same error. Only an error from
// the server can be final: connect-go itself reports INVALID_ARGUMENT for a stream that
// breaks off in the middle of a message.
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
