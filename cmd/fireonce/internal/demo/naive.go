package demo

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/receiver"
)

const (
	// tries and pause are those of most code that "handles errors".
	tries = 3
	pause = 100 * time.Millisecond
	// inFlight is how many requests it makes concurrently.
	inFlight = 16
)

// naive is a client that sends, and sends again if it gets no answer. It is not even
// killed.
type naive struct {
	receiver *receiver.Receiver
	client   *http.Client
	done     atomic.Int64
	gaveUp   atomic.Int64
}

func newNaive(o receiver.Options) (*naive, error) {
	r, err := receiver.Start(o)
	if err != nil {
		return nil, err
	}
	return &naive{receiver: r, client: &http.Client{Timeout: attemptTimeout, Transport: &http.Transport{}}}, nil
}

func (n *naive) run(ctx context.Context, jobs int) error {
	defer n.client.CloseIdleConnections()
	tick := time.NewTicker(max(spread/time.Duration(jobs), time.Millisecond))
	defer tick.Stop()
	slots := make(chan struct{}, inFlight)
	var all sync.WaitGroup
	defer all.Wait()
	for i := range jobs {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		all.Go(func() {
			defer func() { <-slots }()
			n.send(ctx, subject(i))
		})
		<-tick.C
	}
	return nil
}

func (n *naive) send(ctx context.Context, subject string) {
	defer n.done.Add(1)
	for range tries {
		if n.try(ctx, subject) {
			return
		}
		time.Sleep(pause)
	}
	n.gaveUp.Add(1)
}

func (n *naive) try(ctx context.Context, subject string) bool {
	body := strings.NewReader(`{"order":"` + subject + `"}`)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.receiver.URL(subject), body)
	if err != nil {
		return false
	}
	resp, err := n.client.Do(req)
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode < http.StatusMultipleChoices
}
