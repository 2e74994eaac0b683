package receiver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Run is one run at the receiver, for those who ask about it.
type Run struct {
	url string
}

// At names a run of the receiver with that URL.
func At(receiver, name string) Run { return Run{receiver + runs + name} }

// URL takes the run's requests.
func (r Run) URL() string { return r.url }

// Arrived counts the jobs that have taken effect.
func (r Run) Arrived(ctx context.Context) (int, error) {
	text, err := r.ask(ctx, http.MethodGet)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// glance is how often Await asks.
const glance = 20 * time.Millisecond

// Await waits until so many jobs have taken effect.
func (r Run) Await(ctx context.Context, jobs int) error {
	for {
		n, err := r.Arrived(ctx)
		if err != nil || n >= jobs {
			return err
		}
		select {
		case <-time.After(glance):
		case <-ctx.Done():
			return fmt.Errorf("%d of %d jobs have arrived: %w", n, jobs, ctx.Err())
		}
	}
}

// End returns the run's tally. The receiver forgets it.
func (r Run) End(ctx context.Context) (t Tally, err error) {
	text, err := r.ask(ctx, http.MethodDelete)
	if err != nil {
		return t, err
	}
	return t, json.Unmarshal(text, &t)
}

func (r Run) ask(ctx context.Context, method string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, r.url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("the receiver answered %s: %s", resp.Status, text)
	}
	return text, err
}

// Poster sends requests as most handlers do: with net/http, over connections
// that are kept.
type Poster struct {
	client *http.Client
	url    string
}

// Poster makes one that has so many requests under way at most.
func (r Run) Poster(atOnce int) *Poster {
	return &Poster{url: r.url, client: &http.Client{Transport: &http.Transport{
		MaxIdleConns: atOnce, MaxIdleConnsPerHost: atOnce, MaxConnsPerHost: atOnce,
		IdleConnTimeout: time.Minute, DisableCompression: true,
	}}}
}

// Post sends a job's request and wants a 200.
func (p *Poster) Post(ctx context.Context, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the receiver answered %s", resp.Status)
	}
	return nil
}
