package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	controlPrefix = "control-"
	// controlTries is how often a naive client posts what was not answered well.
	controlTries = 3
	controlShare = 50 // one control request for so many jobs
	leastControl = 200
)

// naive is a client of the same platform in the same hour that retries: it posts
// each subject until it is answered with a success, or its tries are over. If it makes no
// duplicates, the platform's faults do not bite, and a zero elsewhere means
// nothing. pace waits before each subject, and reports whether to go on.
func naive(ctx context.Context, url string, subjects int, pace func(done int) bool) {
	client := &http.Client{Timeout: attemptTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
	for i := range subjects {
		if ctx.Err() != nil || !pace(i) {
			return
		}
		subject := fmt.Sprintf("%s%d", controlPrefix, i)
		for range controlTries {
			if post(ctx, client, url+"/hook/opaque/"+subject) {
				break
			}
		}
	}
}

func post(ctx context.Context, client *http.Client, url string) (ok bool) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		return false
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close() //nolint:errcheck // read or given up
	_, err = io.Copy(io.Discard, resp.Body)
	return err == nil && resp.StatusCode < http.StatusBadRequest
}

func isControl(subject string) bool { return strings.HasPrefix(subject, controlPrefix) }

// beside runs the naive client at the pace of the clients.
func beside(ctx context.Context, url string, l *load) {
	subjects := max(leastControl, l.jobs/controlShare)
	naive(ctx, url, subjects, func(done int) bool {
		for {
			taken, _, _ := l.progress()
			if taken*subjects >= done*l.jobs {
				return true
			}
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
				return false
			}
		}
	})
}
