package lookup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// readTimeout bounds one request.
const readTimeout = 15 * time.Second

// Call is a request that is encoded when it is made: a kit.Call.
type Call interface {
	Request() (transport.Request, error)
}

// Ask makes a call that has no effect. doing and fresh are as for Read.
func Ask(ctx context.Context, sender *transport.Sender, call Call, fresh bool, doing string) (transport.Response, error) {
	request, err := call.Request()
	if err != nil {
		return transport.Response{}, err
	}
	return Read(ctx, sender, request, fresh, doing)
}

// Read makes one request that has no effect, and keeps as much of the answer as is
// allowed. doing describes the read in an error. fresh asks for a connection that was
// never used: a failure before the arm costs the job a try.
func Read(ctx context.Context, sender *transport.Sender, call transport.Request, fresh bool, doing string) (transport.Response, error) {
	return Exchange(ctx, sender, call, fresh, readTimeout, doing)
}

// Exchange is Read with another bound, for a request that uploads something.
func Exchange(
	ctx context.Context, sender *transport.Sender, call transport.Request, fresh bool, limit time.Duration, doing string,
) (transport.Response, error) {
	by := time.Now().Add(limit)
	if end, ok := ctx.Deadline(); ok && end.Before(by) {
		by = end
	}
	conn, err := sender.Open(ctx, transport.TargetOf(call.URL), fresh)
	if err != nil {
		return transport.Response{}, fmt.Errorf("%s: %w", doing, err)
	}
	defer conn.Close()
	call.Keep = transport.MaxBody
	return conn.Exchange(call, transport.Bounds{SendBy: by, AnswerBy: by}), nil
}

// Smaller reads a page of size objects, and smaller pages while it is too large.
func Smaller[P any](size int, read func(size int) (P, error)) (P, error) {
	for ; ; size = max(1, size/5) {
		page, err := read(size)
		if size == 1 || !errors.Is(err, transport.ErrBodyTooLarge) {
			return page, err
		}
	}
}

// ClockOf reads the platform's clock off an answer's Date, which names one of the zones.
func ClockOf(a transport.Response, zones ...string) (time.Time, bool) {
	for _, zone := range zones {
		if at, err := time.Parse("Mon, 02 Jan 2006 15:04:05 "+zone, a.Header.Get("Date")); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}

// Refused returns why an answer is not a read: by its status, without the platform's own
// words and codes. who names the platform, secrets do not appear.
func Refused(a transport.Response, who string, secrets transport.Secrets) *connector.Refusal {
	r := &connector.Refusal{Kind: job.FailTransient, Msg: transport.Unread(a, who, secrets)}
	if a.Complete {
		r.RetryAfter, _ = a.Asked()
	}
	switch {
	case errors.Is(a.Err, transport.ErrBodyTooLarge):
		r.Msg, r.Err = who+" could not be read", transport.ErrBodyTooLarge
	case !a.Complete:
	case a.Status == 401:
		r.Kind = job.FailAuth
	case a.Status == 403 && a.LimitSpent():
		r.Kind = job.FailRateLimited
	case a.Status == 403:
		r.Kind, r.Err = job.FailAuth, connector.ErrNotAllowed
	case a.Status == 429:
		r.Kind, r.RetryAfter = job.FailRateLimited, a.Wait(transport.DefaultRetryAfter)
	}
	return r
}

// Settle is when looks count.
type Settle struct {
	// ReadLag is how long after a commit a read may miss it.
	ReadLag time.Duration
	// Negatives complete absences, Spacing apart, prove an absence.
	Negatives int
	Spacing   time.Duration
}

// Scaled returns settle times with other waits, such as a test's.
func (s Settle) Scaled(wait func(time.Duration) time.Duration) *Settle {
	s.ReadLag, s.Spacing = wait(s.ReadLag), wait(s.Spacing)
	return &s
}

// Traits returns the traits of a target that is looked at.
func (s Settle) Traits() job.Traits {
	return job.Traits{Class: job.Observable, ReadLag: s.ReadLag, Negatives: s.Negatives, Spacing: s.Spacing}
}
