package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/proof/chaos/fleet"
)

const (
	// silence is how long the event log may give nothing before its end counts as
	// reached; a heartbeat comes every 15 s. No stream lasts longer, so that cursors are
	// used also where nothing breaks.
	silence = 30 * time.Second
	// reconnectPause is a follower's before it opens the next stream.
	reconnectPause = 50 * time.Millisecond
)

// follower reads the event log from its beginning, goes on from its last cursor when a
// stream ends, and writes each event to a file, a line each.
type follower struct {
	fleet *fleet.Fleet
	seen  func(jobID string) // called for each event; nil: not
	file  *os.File
	w     *bufio.Writer
	out   *json.Encoder

	cursor  string
	last    map[string]int64 // by job: the sequence of the last event
	events  int64            // without those that came again
	streams int
}

func newFollower(f *fleet.Fleet, path string, seen func(jobID string)) (*follower, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	w := bufio.NewWriter(file)
	return &follower{fleet: f, seen: seen, file: file, w: w, out: json.NewEncoder(w), last: make(map[string]int64)}, nil
}

// follow reads until ctx ends. It fails with an answer that no repeat changes.
func (f *follower) follow(ctx context.Context) error {
	for ctx.Err() == nil {
		err := f.stream(ctx, 0)
		if ctx.Err() == nil && err != nil && fleet.Final(err) {
			return fmt.Errorf("follow the event log: %w", err)
		}
		fleet.Pause(ctx, reconnectPause)
	}
	return nil
}

// finish reads on until there were so many events in all, or nothing more comes.
func (f *follower) finish(ctx context.Context, events int64) error {
	before, last := f.events, time.Now()
	for f.events < events && time.Since(last) < silence && ctx.Err() == nil {
		if err := f.stream(ctx, events); err != nil && fleet.Final(err) {
			return fmt.Errorf("read the event log: %w", err)
		}
		if f.events > before {
			before, last = f.events, time.Now()
		}
	}
	return errors.Join(ctx.Err(), f.w.Flush())
}

func (f *follower) close() error { return errors.Join(f.w.Flush(), f.file.Close()) }

// stream reads one stream, for a while or until there were so many events in all; zero:
// for a while.
func (f *follower) stream(ctx context.Context, enough int64) error {
	api, err := f.fleet.API(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req := &fireoncev1.StreamJobEventsRequest{
		MaxDuration: durationpb.New(silence), Start: &fireoncev1.StreamJobEventsRequest_FromBeginning{FromBeginning: true},
	}
	if f.cursor != "" {
		req.Start = &fireoncev1.StreamJobEventsRequest_AfterCursor{AfterCursor: f.cursor}
	}
	f.streams++
	stream, err := api.Jobs.StreamJobEvents(ctx, req)
	if err != nil {
		return err
	}
	defer stream.Close() //nolint:errcheck // it has been read
	for (enough == 0 || f.events < enough) && stream.Receive() {
		if err := f.take(stream.Msg().GetEvent()); err != nil {
			return err
		}
	}
	return stream.Err()
}

func (f *follower) take(e *fireoncev1.JobEvent) error {
	if changed := e.GetJobChanged(); changed != nil {
		if err := f.out.Encode(eventOf(changed, e.GetCursor())); err != nil {
			return err
		}
		if id := changed.GetJobId(); changed.GetSequence() > f.last[id] {
			f.last[id] = changed.GetSequence()
			f.events++
		}
		if f.seen != nil {
			f.seen(changed.GetJobId())
		}
	}
	if e.GetCursor() != "" {
		f.cursor = e.GetCursor()
	}
	return nil
}
