package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	jobPath  = "/job/"
	toldPath = "/told"
	// lastBy bounds the wait for the last notice.
	lastBy = 5 * time.Minute
)

// receivers refuse each job for good, and take each notice.
type receivers struct {
	http  *httptest.Server
	takes time.Duration // for a notice
	grown chan struct{}

	mu      sync.Mutex
	notices []notice
	known   map[string]bool // by webhook-id
	counted int
	failure time.Time // when the last job of the server with a subscription was refused
}

// notice is one that came, with when.
type notice struct {
	id    string
	at    time.Time
	bytes int
	body  body
}

// body is a notice as a program reads it.
type body struct {
	Data struct {
		Number int64 `json:"number,string"`
		Kind   string
		Events []event
		Digest *struct {
			EventCount     int       `json:"eventCount,string"`
			FirstEventTime time.Time `json:"firstEventTime"`
			Examples       []event
		}
		AfterCursor, Cursor string
	}
}

type event struct {
	EventTime  time.Time `json:"eventTime"`
	JobChanged struct {
		JobID    string `json:"jobId"`
		NewState string `json:"newState"`
	}
}

// events returns how many events a notice reports, and when the first one was.
func (n notice) events() (count int, first time.Time) {
	if d := n.body.Data.Digest; d != nil {
		return d.EventCount, d.FirstEventTime
	}
	if len(n.body.Data.Events) == 0 {
		return 0, n.at
	}
	return len(n.body.Data.Events), n.body.Data.Events[0].EventTime
}

func startReceivers(takes time.Duration) *receivers {
	r := &receivers{takes: takes, grown: make(chan struct{}, 1), known: make(map[string]bool)}
	r.http = httptest.NewServer(r)
	return r
}

// ServeHTTP implements http.Handler.
func (r *receivers) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	text, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	if name, is := strings.CutPrefix(req.URL.Path, jobPath); is {
		if name == with {
			r.mu.Lock()
			r.failure = time.Now()
			r.mu.Unlock()
		}
		w.WriteHeader(http.StatusGone) // of a webhook only this is for good
		return
	}
	defer func() { // the answer follows
		select {
		case <-time.After(r.takes):
		case <-req.Context().Done():
		}
	}()
	n := notice{id: req.Header.Get("webhook-id"), at: time.Now(), bytes: len(text)}
	if err := json.Unmarshal(text, &n.body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known[n.id] {
		return
	}
	r.known[n.id] = true
	r.notices = append(r.notices, n)
	count, _ := n.events()
	r.counted += count
	select {
	case r.grown <- struct{}{}:
	default:
	}
}

// wait waits until so many events were reported.
func (r *receivers) wait(ctx context.Context, events int) error {
	ctx, cancel := context.WithTimeout(ctx, lastBy)
	defer cancel()
	for {
		r.mu.Lock()
		counted := r.counted
		r.mu.Unlock()
		if counted >= events {
			return nil
		}
		select {
		case <-r.grown:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d failures were reported: %w", counted, events, ctx.Err())
		}
	}
}

// all returns the notices that came.
func (r *receivers) all() []notice {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.notices)
}

// tally is what the notices were.
type tally struct {
	notices, lists, digests, counted int
	largest                          int
	// middle and longest are how long after its first event a notice came, and last how long
	// after the last failure the last one did.
	middle, longest, last time.Duration
}

// weigh checks that the notices have each failure once, in order.
func (r *receivers) weigh(events int) (t tally, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var behind []time.Duration
	whole, ids := 0, make(map[string]bool)
	var upTo time.Time
	for i, n := range r.notices {
		d := n.body.Data
		count, first := n.events()
		if d.Number != int64(i+1) || count == 0 || first.Before(upTo) || d.AfterCursor == d.Cursor {
			return t, fmt.Errorf("notice %d came as number %d, with %d events from %v on, after %v", d.Number, i+1, count, first, upTo)
		}
		upTo = first
		for _, e := range d.Events {
			if ids[e.JobChanged.JobID] || e.JobChanged.NewState != "JOB_STATE_FAILED" {
				return t, fmt.Errorf("notice %d has job %s as %s, told before: %t", d.Number, e.JobChanged.JobID, e.JobChanged.NewState, ids[e.JobChanged.JobID])
			}
			ids[e.JobChanged.JobID] = true
		}
		if d.Digest != nil {
			t.digests++
			t.counted += count
		} else {
			t.lists++
		}
		whole += count
		t.largest = max(t.largest, n.bytes)
		behind = append(behind, n.at.Sub(first))
		t.last = n.at.Sub(r.failure)
	}
	if whole != events {
		return t, fmt.Errorf("notices have %d failures of %d", whole, events)
	}
	slices.SortFunc(behind, byDuration)
	t.notices, t.middle, t.longest = len(behind), behind[len(behind)/2], behind[len(behind)-1]
	return t, nil
}
