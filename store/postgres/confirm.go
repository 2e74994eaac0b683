package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// leasing runs a claim, and reads back one whose commit got no answer: its jobs
// are leased to this caller, if they are, and nobody else would come for them
// until their leases end, which would count as the death of a worker.
//
// first queues what goes with the BEGIN, and fn gets what came of it.
func leasing[D any](
	ctx context.Context, s *Store, name string,
	first func(context.Context, *D, *tx), fn func(context.Context, *D, *tx) ([]store.Leased, error),
) ([]store.Leased, error) {
	var claimed []store.Leased
	var asked *D
	out, err := writeAfter(ctx, s, name, func(ctx context.Context, t *tx) {
		if asked = new(D); first != nil {
			first(ctx, asked, t)
		}
	}, func(ctx context.Context, t *tx) (_ []store.Leased, err error) {
		claimed, err = fn(ctx, asked, t)
		return claimed, err
	})
	if !errors.Is(err, store.ErrUnconfirmed) || len(claimed) == 0 {
		return out, err
	}
	out, again := write(ctx, s, name, func(ctx context.Context, t *tx) ([]store.Leased, error) {
		return t.stillLeased(ctx, claimed)
	})
	if again != nil {
		return nil, fmt.Errorf("%w; read back: %w", err, again)
	}
	return out, nil
}

// stillLeased returns those that are leased under the tokens they were claimed
// with, or armed under theirs. It waits for a transaction that may still be deciding that.
func (t *tx) stillLeased(ctx context.Context, claimed []store.Leased) ([]store.Leased, error) {
	ids := make([]job.ID, len(claimed))
	for i, l := range claimed {
		ids[i] = l.ID
	}
	now, err := t.reread(ctx, ids)
	if err != nil {
		return nil, err
	}
	var out []store.Leased
	for _, l := range claimed {
		j, found := now[l.ID]
		if found && l.Armed != nil {
			armed, err := t.stillArmed(ctx, l)
			if err != nil {
				return nil, err
			}
			if armed {
				out = append(out, l)
			}
			continue
		}
		if found && j.ClaimToken == l.ClaimToken && j.Version == l.Version && j.NextAt.After(t.now) {
			out = append(out, l)
		}
	}
	return out, nil
}
