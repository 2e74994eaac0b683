package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/chaos/fleet"
	"github.com/fireonce/fireonce/internal/proof/chaos/judge"
)

const pageSize = 500

// alive counts the jobs that are not at rest.
func alive(ctx context.Context, f *fleet.Fleet) (alive, atRest int, err error) {
	err = f.Call(ctx, 0, func(ctx context.Context, api *fleet.API) error {
		resp, err := api.Stats.GetStats(ctx, &adminv1.GetStatsRequest{})
		if err != nil {
			return err
		}
		alive, atRest = counted(resp)
		return nil
	})
	return alive, atRest, err
}

// counted adds up the jobs that are not at rest, and those that are.
func counted(resp *adminv1.GetStatsResponse) (alive, atRest int) {
	for _, s := range resp.GetStateCounts() {
		if state := states[int32(s.GetState())]; state.Terminal() || state == job.NeedsResolution {
			atRest += int(s.GetCount())
		} else {
			alive += int(s.GetCount())
		}
	}
	return alive, atRest
}

// inDoubt is how far away the next look must be at least for a job of a blind kind to
// count as at rest: several have told nothing by then.
const inDoubt = 30 * time.Second

// alive counts the jobs that are not at rest, and those of clients that are.
func (c *campaign) alive(ctx context.Context) (living, atRest int, err error) {
	scheduled := 0
	if c.recurring != nil {
		if scheduled, err = c.recurring.atRest(ctx); err != nil {
			return 0, 0, err
		}
	}
	if living, atRest, err = alive(ctx, c.fleet); err != nil {
		return 0, 0, err
	}
	atRest = max(0, atRest-scheduled)
	if living == 0 {
		return living, atRest, nil
	}
	var blind []string
	for _, k := range kinds {
		if id := c.to.sites[k.conn]; k.blind && id != "" {
			blind = append(blind, id)
		}
	}
	if len(blind) == 0 {
		return living, atRest, nil
	}
	still := 0
	err = c.fleet.Call(ctx, 0, func(ctx context.Context, api *fleet.API) error {
		resp, err := api.Jobs.ListJobs(ctx, &fireoncev1.ListJobsRequest{PageSize: pageSize, Filter: &fireoncev1.JobFilter{
			States: []fireoncev1.JobState{fireoncev1.JobState_JOB_STATE_AMBIGUOUS}, ConnectionIds: blind,
		}})
		still = 0
		for _, j := range resp.GetJobs() {
			if time.Until(j.GetNextLookTime().AsTime()) > inDoubt {
				still++
			}
		}
		return err
	})
	return max(0, living-still), atRest + min(living, still), err
}

// oneAlive returns a job that is not at rest.
func oneAlive(ctx context.Context, f *fleet.Fleet) (story string) {
	filter := &fireoncev1.JobFilter{}
	for number, s := range states {
		if !s.Terminal() && s != job.NeedsResolution {
			filter.States = append(filter.States, fireoncev1.JobState(number))
		}
	}
	err := f.Call(ctx, 0, func(ctx context.Context, api *fleet.API) error {
		resp, err := api.Jobs.ListJobs(ctx, &fireoncev1.ListJobsRequest{Filter: filter, PageSize: 1})
		for _, j := range resp.GetJobs() {
			story = fmt.Sprintf("%s is %s, attempt %d: %s %s", j.GetIdempotencyKey(), states[int32(j.GetState())], j.GetAttemptCount(),
				j.GetBlockedReason().GetMessage(), j.GetLastError().GetMessage())
			for what, at := range map[string]*timestamppb.Timestamp{"next attempt": j.GetNextAttemptTime(), "next look": j.GetNextLookTime()} {
				if at != nil {
					story += fmt.Sprintf("; %s in %v", what, time.Until(at.AsTime()).Round(time.Second))
				}
			}
		}
		return err
	})
	if err != nil {
		return err.Error()
	}
	return story
}

// finals reads every job of the service, page by page.
func finals(ctx context.Context, f *fleet.Fleet) ([]judge.Final, error) {
	var out []judge.Final
	token := ""
	for {
		var page *fireoncev1.ListJobsResponse
		if err := f.Call(ctx, 0, func(ctx context.Context, api *fleet.API) (err error) {
			page, err = api.Jobs.ListJobs(ctx, &fireoncev1.ListJobsRequest{
				Order: fireoncev1.JobOrder_JOB_ORDER_CREATE_TIME_DESC, PageSize: pageSize, PageToken: token,
			})
			return err
		}); err != nil {
			return nil, fmt.Errorf("list jobs: %w", err)
		}
		for _, j := range page.GetJobs() {
			out = append(out, finalOf(j))
		}
		if token = page.GetNextPageToken(); token == "" {
			return out, nil
		}
	}
}

// saveEvents reads the event log from its beginning until it has had so many
// events, or nothing more comes, and writes it to a file, a line each.
func saveEvents(ctx context.Context, f *fleet.Fleet, path string, events int64) error {
	follower, err := newFollower(f, path, nil)
	if err != nil {
		return err
	}
	return errors.Join(follower.finish(ctx, events), follower.close())
}

// readEvents reads what saveEvents has written.
func readEvents(path string) iter.Seq2[judge.Event, error] {
	return func(yield func(judge.Event, error) bool) {
		file, err := os.Open(path)
		if err != nil {
			yield(judge.Event{}, err)
			return
		}
		defer file.Close() //nolint:errcheck // only read
		in := json.NewDecoder(bufio.NewReader(file))
		for {
			var e judge.Event
			switch err := in.Decode(&e); {
			case errors.Is(err, io.EOF):
				return
			case err != nil:
				yield(e, err)
				return
			case !yield(e, nil):
				return
			}
		}
	}
}
