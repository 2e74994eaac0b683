package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// poster sends a job's request as most handlers do: with net/http and a timeout,
// where anything but a 2xx is an error.
type poster struct {
	client *http.Client
	url    string
	keyed  bool
}

func newPoster(w work) *poster {
	return &poster{client: &http.Client{Timeout: time.Duration(w.Timeout)}, url: w.URL, keyed: w.Keyed}
}

// post sends the request for a subject once. The key, where the receiver dedupes,
// is the job's: the same in each try.
func (p *poster) post(ctx context.Context, subject string) error {
	body, err := json.Marshal(map[string]string{"subject": subject})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if p.keyed {
		req.Header.Set("webhook-id", subject)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("the receiver answered %s", resp.Status)
	}
	return nil
}
