package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/fireonce/fireonce/store"
)

// breakersRead bounds the pauses of which a measurement reads the breakers.
const breakersRead = 500

// read reads which circuit breakers are open. some reports whether a pause may be open at all.
func (d *destinations) read(ctx context.Context, s Database, some bool) error {
	var open []store.Stop
	if some {
		page, err := s.ListStops(ctx, store.StopQuery{Limit: breakersRead})
		if err != nil {
			return err
		}
		for i := range page.Stops {
			if page.Stops[i].Breaker() {
				open = append(open, page.Stops[i])
			}
		}
	}
	conns := make(map[destination]*store.Connection)
	for _, to := range d.unknown(open) {
		conn, err := s.Connection(ctx, store.Ref{ID: to.connection})
		if errors.Is(err, store.ErrNotFound) {
			continue // it was deleted meanwhile
		}
		if err != nil {
			return err
		}
		conns[to] = &conn
	}
	d.setOpen(time.Now(), open, conns)
	return nil
}

func breakerAt(b *store.Stop) destination { return destination{b.Connection, b.Destination} }

// unknown returns the destinations of breakers that are not tracked, at most as many as are named.
func (d *destinations) unknown(open []store.Stop) (out []destination) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range open {
		if to := breakerAt(&open[i]); d.tracked[to] == nil && len(out) < d.most {
			out = append(out, to)
		}
	}
	return out
}

// setOpen sets which circuit breakers are open. One whose destination is not tracked and whose
// connection was not read counts with the others.
func (d *destinations) setOpen(at time.Time, open []store.Stop, conns map[destination]*store.Connection) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range d.tracked {
		t.open = false
	}
	d.open = 0
	for i := range open {
		to := breakerAt(&open[i])
		t := d.tracked[to]
		if conn := conns[to]; t == nil && conn != nil {
			t = d.track(stepOf(at), to, conn)
		}
		if t == nil {
			d.open++
			continue
		}
		t.open = true
	}
}
