package store

import (
	"context"
	"errors"
	"fmt"
)

// Quotas measures what projects store. The server decides how much they may.
type Quotas interface {
	// StoredJobs returns how many jobs a project has, including ended ones that are still
	// kept, and the bytes that they take. It is exact as of a moment during the call, and its
	// cost does not depend on the number of jobs.
	StoredJobs(ctx context.Context, project string) (StoredJobs, error)
	// Holdings counts a project's other objects.
	Holdings(ctx context.Context, project string) (Holdings, error)
}

// StoredJobs is how much of a database a project's jobs take, together with the content that
// waits to become jobs.
type StoredJobs struct {
	Jobs int64
	// Bytes is the size of the payloads, of the answers that are kept with attempts, as they
	// are stored (job.Answer.Encode), and of the payloads of items in queues of schedules.
	Bytes int64
}

// Holdings counts what a project has apart from jobs.
type Holdings struct {
	// Connections counts those that were not deleted.
	Connections int64
	// APIKeys counts live keys.
	APIKeys int64
	// Logins counts those that may still be completed.
	Logins int64
	// Schedules and Subscriptions count those that were not deleted, without subscriptions for
	// callbacks.
	Schedules, Subscriptions int64
}

// ErrQuota: the project already has as many as the call allows. Nothing was written. Engines
// return it as a *QuotaError.
var ErrQuota = errors.New("quota exceeded")

// QuotaError is ErrQuota with the figures.
type QuotaError struct{ Used, Limit int64 }

func (e *QuotaError) Error() string { return fmt.Sprintf("%v: %d of %d", ErrQuota, e.Used, e.Limit) }

// Is makes the error one of ErrQuota.
func (e *QuotaError) Is(target error) bool { return target == ErrQuota }

// Count counts a project's objects of one kind.
type Count func(ctx context.Context) (int64, error)

// Before counts without an object that was inserted just now.
func (count Count) Before() Count {
	return func(ctx context.Context) (int64, error) {
		n, err := count(ctx)
		return n - 1, err
	}
}

// Counts are the counts of Holdings.
type Counts struct{ Connections, APIKeys, Logins, Schedules, Subscriptions Count }

// Holdings counts all of them.
func (c Counts) Holdings(ctx context.Context) (out Holdings, err error) {
	for _, kind := range []struct {
		name  string
		count Count
		to    *int64
	}{
		{"connections", c.Connections, &out.Connections},
		{"API keys", c.APIKeys, &out.APIKeys},
		{"logins", c.Logins, &out.Logins},
		{"schedules", c.Schedules, &out.Schedules},
		{"subscriptions", c.Subscriptions, &out.Subscriptions},
	} {
		if *kind.to, err = kind.count(ctx); err != nil {
			return Holdings{}, fmt.Errorf("%s: %w", kind.name, err)
		}
	}
	return out, nil
}

// OneMore returns a *QuotaError unless one may be added to those in use. A limit of 0 means
// no limit.
func OneMore(used, limit int64) error {
	if limit > 0 && used >= limit {
		return &QuotaError{Used: used, Limit: limit}
	}
	return nil
}

// OneMore applies the function OneMore to what count counts. Without a limit it does not
// count. The caller ensures that nothing is added between the count and its own commit.
func (count Count) OneMore(ctx context.Context, limit int64) error {
	if limit <= 0 {
		return nil
	}
	used, err := count(ctx)
	if err != nil {
		return fmt.Errorf("count for a quota: %w", err)
	}
	return OneMore(used, limit)
}
