package wire

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/fireonce/fireonce/internal/inflight"
)

// Rules of this file: the bytes of requests that are read, decompressed, decoded and handled are
// bounded for the whole process. A request reserves its own size or, where that is not known, the
// next step that it may grow to. Small requests have a budget of their own, so that they do not
// wait behind large ones.

const (
	// FirstReservation is the first step of a request whose size is not known.
	FirstReservation = 4 << 10
	// SmallRequest is its second step. After that it reserves all that its method allows.
	SmallRequest = 64 << 10
	// BudgetWait is how long a request waits for others to end.
	BudgetWait = 3 * time.Second
)

// Budget is the bytes that all requests share.
type Budget struct{ small, large *inflight.Budget }

// NewBudget makes one of so many bytes for requests up to SmallRequest, and for larger ones.
func NewBudget(small, large int) Budget {
	return Budget{inflight.New(int64(small), BudgetWait), inflight.New(int64(large), BudgetWait)}
}

// Reservation is the part of the budget that one request holds.
type Reservation struct {
	inflight.Hold
	work  Budget
	owner string
	Limit int64 // the most that the request may grow to
	step  int64 // the size that it may grow to now
}

// Reserve returns a reservation of nothing.
func (w Budget) Reserve(owner string, limit int) *Reservation {
	return &Reservation{work: w, owner: owner, Limit: int64(limit)}
}

// growTo reserves size bytes for the request. exact is set if it will have no more. The request
// returns what it held before it waits for more, so that no request waits for one that waits.
func (h *Reservation) growTo(ctx context.Context, size int64, exact bool) error {
	if size <= h.step {
		return nil
	}
	step := size
	switch {
	case exact:
	case size <= FirstReservation:
		step = FirstReservation
	case size <= SmallRequest:
		step = SmallRequest
	default:
		step = h.Limit
	}
	budget := h.work.large
	if step = min(step, h.Limit); step <= SmallRequest {
		budget = h.work.small
	}
	h.Release()
	h.step = 0
	var err error
	if h.Hold, err = budget.Take(ctx, h.owner, step); err != nil {
		return err
	}
	h.step = step
	return nil
}

// ReadAll reads from in to its end and appends it to buf, which is of GetBuffer, up to the
// limit. It returns buf or a larger one in its place. size is what
// in is stated to have; below 0: not known. large is called before a large part is read. It
// fails with ErrTooLarge for one byte more than the limit.
func (h *Reservation) ReadAll(ctx context.Context, buf []byte, in io.Reader, size int64, large func()) ([]byte, error) {
	before, limit, exact := len(buf), int(h.Limit), size >= 0
	if err := h.growTo(ctx, max(size, FirstReservation), exact); err != nil {
		return buf, err
	}
	for {
		if len(buf) == cap(buf) {
			next := min(max(4*cap(buf), FirstReservation), before+limit+1)
			if exact {
				next = before + int(size) + 1 // the end is seen with a byte to spare
			} else if err := h.growTo(ctx, int64(min(next, limit)), false); err != nil {
				return buf, err
			}
			if next > SmallRequest {
				large()
			}
			grown := append(GetBuffer(next), buf...)
			PutBuffer(buf)
			buf = grown
		}
		n, err := in.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case len(buf)-before > limit:
			return buf, ErrTooLarge
		case errors.Is(err, io.EOF):
			h.Shrink(int64(len(buf)))
			return buf, nil
		case err != nil:
			return buf, err
		}
	}
}

// ErrTooLarge is the error for a request that turns out to have more bytes than its limit.
var ErrTooLarge = errors.New("more bytes than the limit")
