package platform

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// readyPrefix begins the line that says where a platform serves.
const readyPrefix = "ready: "

// control serves what the campaign asks of the platform itself.
func (p *Platform) control(mux *http.ServeMux) {
	mux.HandleFunc("GET /control/totals", func(w http.ResponseWriter, _ *http.Request) {
		answer{status: http.StatusOK, body: toJSON(p.Totals())}.send(w)
	})
	mux.HandleFunc("GET /control/faults", func(w http.ResponseWriter, _ *http.Request) {
		answer{status: http.StatusOK, body: toJSON(p.faults.Load())}.send(w)
	})
	mux.HandleFunc("PUT /control/faults", func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(io.LimitReader(r.Body, maxRequest))
		if err != nil {
			return
		}
		f, err := parseFaults(text)
		if err != nil {
			failed(http.StatusBadRequest, err.Error()).send(w)
			return
		}
		p.faults.Store(&f)
		answer{status: http.StatusOK, body: toJSON(f)}.send(w)
	})
}

// controlTimeout bounds one call to a platform's control endpoints.
const controlTimeout = 30 * time.Second

// Control talks to a platform in another process.
type Control struct {
	// URL is the platform's base URL.
	URL string
}

// Totals reads what came and happened so far.
func (c Control) Totals(ctx context.Context) (Totals, error) {
	var t Totals
	return t, c.call(ctx, http.MethodGet, "/control/totals", nil, &t)
}

// SetFaults changes what goes wrong from now on; the zero Faults: nothing.
func (c Control) SetFaults(ctx context.Context, f Faults) error {
	return c.call(ctx, http.MethodPut, "/control/faults", toJSON(f), &f)
}

// Settled waits until every request that was taken has acted. Late faults make
// this take as long as they last.
func (c Control) Settled(ctx context.Context) (Totals, error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		t, err := c.Totals(ctx)
		if err != nil || t.Pending == 0 {
			return t, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return t, fmt.Errorf("%d requests have not acted yet: %w", t.Pending, ctx.Err())
		}
	}
}

func (c Control) call(ctx context.Context, method, path string, body []byte, out any) error {
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, c.URL+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the platform answered %d: %s", resp.StatusCode, bytes.TrimSpace(text))
	}
	return json.Unmarshal(text, out)
}
