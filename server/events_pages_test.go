package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

const (
	// wideRows is the number of rows of each kind that a wide store has.
	wideRows = 500
	// wideAnswer bounds an answer.
	wideAnswer = 3 << 20
	// wideRead bounds what is read of attempts at a time.
	wideRead = 50
)

// wide is a store with a long history of its jobs, each entry of it large.
type wide struct {
	server.Store
	t *testing.T
}

func (w wide) Attempts(_ context.Context, _ store.Ref, after, limit int) (out []job.Attempt, err error) {
	if limit > wideRead {
		w.t.Errorf("%d attempts are read at a time", limit)
	}
	for n := after + 1; n <= min(after+limit, wideRows); n++ {
		out = append(out, job.Attempt{Number: n, Answer: &job.Answer{Status: 200, Body: strings.Repeat("a", 16<<10)}})
	}
	return out, nil
}

func (wide) Observations(_ context.Context, _ store.Ref, before, limit int) (out []job.Observation, err error) {
	if before == 0 {
		before = wideRows + 1
	}
	for n := before - 1; n > max(0, before-1-limit); n-- {
		out = append(out, job.Observation{Number: n, Detail: strings.Repeat("d", 16<<10)})
	}
	return out, nil
}

func (w wide) Events(ctx context.Context, q store.EventQuery) (store.EventPage, error) {
	page, err := w.Store.Events(ctx, q)
	if q.Limit == 1 || err != nil {
		return page, err // the log's end
	}
	jobs, err := w.List(ctx, store.JobQuery{Project: q.Project, Limit: 1})
	if err != nil {
		return page, err
	}
	page.Events, page.End = nil, wideRows
	for n := q.After + 1; n <= min(q.After+int64(q.Limit), wideRows); n++ {
		page.Events = append(page.Events, job.Event{Project: q.Project, Job: jobs.Jobs[0].ID, Position: n, Sequence: n})
		page.Next = n
	}
	page.More = page.Next < page.End
	return page, nil
}

// TestPagesAreBoundedByBytes: the pages of a history have at most 3 MiB, however large the kept
// answers are, and together they have everything once.
func TestPagesAreBoundedByBytes(t *testing.T) {
	for name, dial := range protocols {
		t.Run(name, func(t *testing.T) {
			f := start(t, func(c *server.Config) { c.Store = wide{c.Store, t} })
			c := dial(f)
			labels := make(map[string]string)
			for i := range 32 {
				labels[fmt.Sprint("label", i)] = strings.Repeat("v", 255)
			}
			j := f.schedule(f.request("k", func(r *scheduleRequest) { r.Labels = labels }))
			of := &fireoncev1.ListJobAttemptsRequest_JobId{JobId: j.GetJobId()}
			wantPages(t, "attempts", 1, func(token string) (proto.Message, []int64, string) {
				res, err := ask[fireoncev1.ListJobAttemptsResponse](t, c, jobsPath+"ListJobAttempts", &fireoncev1.ListJobAttemptsRequest{Job: of, PageSize: 500, PageToken: token})
				f.must(err)
				var numbers []int64
				for _, a := range res.GetAttempts() {
					numbers = append(numbers, int64(a.GetNumber()))
				}
				return res, numbers, res.GetNextPageToken()
			})
			wantPages(t, "observations", -1, func(token string) (proto.Message, []int64, string) {
				res, err := ask[fireoncev1.ListJobObservationsResponse](t, c, jobsPath+"ListJobObservations", &fireoncev1.ListJobObservationsRequest{
					Job: &fireoncev1.ListJobObservationsRequest_JobId{JobId: j.GetJobId()}, PageSize: 500, PageToken: token,
				})
				f.must(err)
				var numbers []int64
				for _, o := range res.GetObservations() {
					numbers = append(numbers, int64(o.GetNumber()))
				}
				return res, numbers, res.GetNextPageToken()
			})
			wantPages(t, "events", 1, func(cursor string) (proto.Message, []int64, string) {
				res, err := ask[fireoncev1.ListJobEventsResponse](t, c, jobsPath+"ListJobEvents", &fireoncev1.ListJobEventsRequest{IncludeJob: true, PageSize: 500, AfterCursor: cursor})
				f.must(err)
				var numbers []int64
				for _, e := range res.GetEvents() {
					if len(e.GetJobChanged().GetJob().GetLabels()) != len(labels) {
						t.Fatalf("an event without its job: %v", e)
					}
					numbers = append(numbers, e.GetJobChanged().GetSequence())
				}
				if !res.GetHasMore() {
					return res, numbers, ""
				}
				return res, numbers, res.GetNextCursor()
			})
		})
	}
}

// wantPages reads all pages, and wants each to fit, and all numbers to come once in their
// order: upwards from 1, or downwards to 1.
func wantPages(t *testing.T, what string, step int64, read func(token string) (page proto.Message, numbers []int64, next string)) {
	t.Helper()
	next, pages := int64(1), 0
	if step < 0 {
		next = wideRows
	}
	for token := ""; pages == 0 || token != ""; pages++ {
		page, numbers, after := read(token)
		if size := proto.Size(page); size > wideAnswer+1024 {
			t.Errorf("%s: a page of %d bytes", what, size)
		}
		for _, n := range numbers {
			if n != next {
				t.Fatalf("%s: number %d, want %d", what, n, next)
			}
			next += step
		}
		token = after
	}
	if next != 0 && next != wideRows+1 || pages < 2 || pages > 6 {
		t.Errorf("%s: ended before %d, on %d pages", what, next, pages)
	}
}
