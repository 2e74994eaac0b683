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
	mux.HandleFunc("GET /control/sites", func(w http.ResponseWriter, _ *http.Request) {
		where := make(map[string]Place)
		for _, s := range p.sites {
			where[s.Name] = Place{Address: s.Address, Credential: s.Credential}
		}
		answer{status: http.StatusOK, body: toJSON(where)}.send(w)
	})
	mux.HandleFunc("POST /control/sweep", func(w http.ResponseWriter, r *http.Request) {
		if err := p.Sweep(r.Context()); err != nil {
			failed(http.StatusBadGateway, err.Error()).send(w)
			return
		}
		answer{status: http.StatusOK, body: toJSON(struct{}{})}.send(w)
	})
	mux.HandleFunc("POST /control/revoke/{site}", func(w http.ResponseWriter, r *http.Request) {
		next, err := p.Revoke(r.Context(), r.PathValue("site"))
		if err != nil {
			failed(http.StatusBadGateway, err.Error()).send(w)
			return
		}
		answer{status: http.StatusOK, body: toJSON(next)}.send(w)
	})
}

// controlTimeout bounds one call to a platform's control endpoints.
const controlTimeout = 2 * time.Minute

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

// Sites returns where the sites' clients go, by name.
func (c Control) Sites(ctx context.Context) (where map[string]Place, err error) {
	err = c.call(ctx, http.MethodGet, "/control/sites", nil, &where)
	return where, err
}

// Sweep has sites say what they have made, for the log.
func (c Control) Sweep(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, "/control/sweep", nil, &struct{}{})
}

// Revoke makes another credential of a site the only valid one.
func (c Control) Revoke(ctx context.Context, site string) (next Credential, err error) {
	err = c.call(ctx, http.MethodPost, "/control/revoke/"+site, nil, &next)
	return next, err
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
