package rules

import (
	"errors"
	"fmt"
	"slices"

	"github.com/fireonce/fireonce/store"
)

// Page bounds a limit. Without a limit it returns the maximum.
func Page(limit int) int {
	if limit <= 0 || limit > store.MaxBatch {
		return store.MaxBatch
	}
	return limit
}

// Bounded refuses a batch above the contract's limit, which is a bug of the caller.
func Bounded(n int) error {
	if n > store.MaxBatch {
		return fmt.Errorf("%w: %d items, at most %d", store.ErrIllegal, n, store.MaxBatch)
	}
	return nil
}

// verdicts are the errors that concern one item of a batch.
var verdicts = []error{
	store.ErrNotFound, store.ErrStale, store.ErrIllegal, store.ErrReplyTo, store.ErrManyReplies, store.ErrEffectKeyTaken,
	store.ErrWindowOver, store.ErrHeld, store.ErrGated, store.ErrLookAgain, store.ErrCoolDown, store.ErrInUse, store.ErrNameTaken, store.ErrQuota,
	store.ErrKept, store.ErrProjectLive, store.ErrUndecided,
}

// Verdict reports whether an error refuses an item, and is no failure of the database.
func Verdict(err error) bool {
	return slices.ContainsFunc(verdicts, func(v error) bool { return errors.Is(err, v) })
}

// Contract reports whether an error is the contract's: a verdict, or a failure that it names.
func Contract(err error) bool {
	failures := []error{
		store.ErrUnavailable, store.ErrUnconfirmed, store.ErrCursorExpired, store.ErrQuarantined, store.ErrClockSuspect,
	}
	return Verdict(err) || slices.ContainsFunc(failures, func(f error) bool { return errors.Is(err, f) })
}

// Interleave merges lists, each item once and at most most of them, so that no list delays
// another.
func Interleave[T comparable](most int, lists ...[]T) []T {
	var out []T
	seen := make(map[T]bool)
	for i, more := 0, true; more && len(out) < most; i++ {
		more = false
		for _, list := range lists {
			if i >= len(list) {
				continue
			}
			more = true
			if !seen[list[i]] && len(out) < most {
				seen[list[i]] = true
				out = append(out, list[i])
			}
		}
	}
	return out
}
