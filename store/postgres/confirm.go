package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// leasing runs a claim, and reads back one whose commit got no answer: its jobs, if they are
// leased to this caller, would otherwise wait until their leases end, which would count as
// the death of a worker.
//
// first queues what is sent with the BEGIN, and fn gets its result.
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

// stillLeased returns the jobs that are leased under their claim tokens, or armed under their
// arm tokens. It waits for a transaction that may still be deciding that.
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
