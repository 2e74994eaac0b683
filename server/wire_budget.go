package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/internal/inflight"
)

// Rules of this file: the bytes of requests that are read, decompressed, decoded and handled are
// bounded for the whole process. A request reserves its own size or, where that is not known, the
// next step that it may grow to. Small requests have a budget of their own, so that they do not
// wait behind large ones.

const (
	// firstReservation and smallRequest are the steps of a request whose size is not known:
	// first the one, then the other, then all that its method allows.
	firstReservation = 4 << 10
	smallRequest     = 64 << 10
	// budgetWait is how long a request waits for others to end.
	budgetWait = 3 * time.Second
)

// requestBudget is the bytes that all requests share.
type requestBudget struct{ small, large *inflight.Budget }

func newRequestBudget(limits Limits) requestBudget {
	return requestBudget{inflight.New(int64(limits.SmallWork), budgetWait), inflight.New(int64(limits.LargeWork), budgetWait)}
}

// reservation is the part of the budget that one request holds.
type reservation struct {
	inflight.Hold
	work  requestBudget
	owner string
	limit int64 // the most that the request may grow to
	step  int64 // what it may grow to now
}

// reserve returns a reservation of nothing.
func (w requestBudget) reserve(owner string, limit int) *reservation {
	return &reservation{work: w, owner: owner, limit: int64(limit)}
}

// growTo reserves size bytes for the request. exact is set if it will have no more. The request
// returns what it held before it waits for more, so that no request waits for one that waits.
func (h *reservation) growTo(ctx context.Context, size int64, exact bool) error {
	if size <= h.step {
		return nil
	}
	step := size
	switch {
	case exact:
	case size <= firstReservation:
		step = firstReservation
	case size <= smallRequest:
		step = smallRequest
	default:
		step = h.limit
	}
	budget := h.work.large
	if step = min(step, h.limit); step <= smallRequest {
		budget = h.work.small
	}
	h.Release()
	h.step = 0
	var err error
	if h.Hold, err = budget.Take(ctx, h.owner, step); errors.Is(err, inflight.ErrBusy) {
		return refuse(fireoncev1.ErrorReason_ERROR_REASON_SERVER_BUSY,
			fmt.Sprintf("the server works on as many bytes of requests as it may, and none became free in %v; repeat the call unchanged", budgetWait))
	}
	if err != nil {
		return err
	}
	h.step = step
	return nil
}

// readAll reads from in to its end and appends it to buf, which is of getBuffer, up to the
// limit. It returns buf or a larger one in its place. size is what
// in is stated to have; below 0: not known. large is called before a large part is read. It
// fails with errUnlimited for one byte more than the limit.
func (h *reservation) readAll(ctx context.Context, buf []byte, in io.Reader, size int64, large func()) ([]byte, error) {
	before, limit, exact := len(buf), int(h.limit), size >= 0
	if err := h.growTo(ctx, max(size, firstReservation), exact); err != nil {
		return buf, err
	}
	for {
		if len(buf) == cap(buf) {
			next := min(max(4*cap(buf), firstReservation), before+limit+1)
			if exact {
				next = before + int(size) + 1 // the end is seen with a byte to spare
			} else if err := h.growTo(ctx, int64(min(next, limit)), false); err != nil {
				return buf, err
			}
			if next > smallRequest {
				large()
			}
			grown := append(getBuffer(next), buf...)
			putBuffer(buf)
			buf = grown
		}
		n, err := in.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case len(buf)-before > limit:
			return buf, errUnlimited
		case errors.Is(err, io.EOF):
			h.Shrink(int64(len(buf)))
			return buf, nil
		case err != nil:
			return buf, err
		}
	}
}

var errUnlimited = errors.New("more bytes than the limit")
