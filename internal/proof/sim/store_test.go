package sim

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// nodeStore is the store as one node sees it: every call goes by the director.
type nodeStore struct {
	*node
}

// parkCall parks one call to the store.
func parkCall[T any](n *node, c call, ask func(context.Context) (T, error)) (T, error) {
	var out T
	ctx := c.ctx
	c.node = n
	c.act = func() (err error) {
		// The caller's deadline is the director's business.
		out, err = ask(context.WithoutCancel(ctx))
		return err
	}
	if err := n.w.director.do(c); err != nil {
		var zero T
		return zero, err
	}
	return out, nil
}

func (s nodeStore) Job(ctx context.Context, ref store.Ref) (job.Snapshot, error) {
	return parkCall(s.node, call{op: "Job", job: ref.ID, ctx: ctx},
		func(ctx context.Context) (job.Snapshot, error) { return s.w.store.Job(ctx, ref) })
}

func (s nodeStore) Attempts(ctx context.Context, ref store.Ref, after, limit int) ([]job.Attempt, error) {
	return parkCall(s.node, call{op: "Attempts", job: ref.ID, ctx: ctx},
		func(ctx context.Context) ([]job.Attempt, error) {
			out, err := s.w.store.Attempts(ctx, ref, after, limit)
			s.read[ref.ID] = len(out)
			return out, err
		})
}

func (s nodeStore) Claim(ctx context.Context, p store.ClaimParams) ([]store.Leased, error) {
	in := &intending{node: s.node, intend: p.Intent, rehearsed: make(map[job.ID]*store.Arm)}
	p.Intent = in.ask
	return parkCall(s.node, call{op: "Claim", ctx: ctx, writes: true, intends: in},
		func(ctx context.Context) ([]store.Leased, error) { return s.w.store.Claim(ctx, p) })
}

func (s nodeStore) ClaimLooks(ctx context.Context, p store.ClaimParams) ([]store.Leased, error) {
	return parkCall(s.node, call{op: "ClaimLooks", ctx: ctx, writes: true},
		func(ctx context.Context) ([]store.Leased, error) {
			out, err := s.w.store.ClaimLooks(ctx, p)
			for _, l := range out {
				s.leased[l.ID] = s.w.store.Steps()
			}
			return out, err
		})
}

func (s nodeStore) Renew(ctx context.Context, lease time.Duration, refs []store.LeaseRef) ([]bool, error) {
	c := call{op: "Renew", ctx: ctx, writes: true, detail: fmt.Sprint(len(refs))}
	if len(refs) > 0 {
		c.job, c.detail = refs[0].Job, c.detail+refs[0].Token.String()
	}
	return parkCall(s.node, c, func(ctx context.Context) ([]bool, error) { return s.w.store.Renew(ctx, lease, refs) })
}

func (s nodeStore) Arm(ctx context.Context, items []store.Arm) ([]store.Armed, error) {
	c := call{op: "Arm", job: items[0].Job, n: items[0].Version, ctx: ctx, writes: true, armToken: items[0].Token}
	return parkCall(s.node, c, func(ctx context.Context) ([]store.Armed, error) {
		before := s.w.store.Inspect(items[0].Job).Snapshot
		out, err := s.w.store.Arm(ctx, items)
		if err == nil && out[0].Err == nil {
			s.w.isUnderItsLease(before, items[0])
			s.w.byID[items[0].Job].under = items[0].Claim
		}
		if err == nil && errors.Is(out[0].Err, store.ErrLookAgain) {
			s.w.stats.lookedAgain++
		}
		if err == nil && errors.Is(out[0].Err, store.ErrCoolDown) {
			s.w.stats.cooled++
		}
		return out, err
	})
}

func (s nodeStore) ArmedBy(ctx context.Context, id, token job.ID) (store.Armed, error) {
	return parkCall(s.node, call{op: "ArmedBy", job: id, ctx: ctx, armToken: token},
		func(ctx context.Context) (store.Armed, error) { return s.w.store.ArmedBy(ctx, id, token) })
}

func (s nodeStore) ContentArms(ctx context.Context, c store.GatedContent) (int64, error) {
	return parkCall(s.node, call{op: "ContentArms", ctx: ctx},
		func(ctx context.Context) (int64, error) { return s.w.store.ContentArms(ctx, c) })
}

func (s nodeStore) SaveHandle(ctx context.Context, id job.ID, attempt int, handle string) error {
	_, err := parkCall(s.node, call{op: "SaveHandle", job: id, n: int64(attempt), ctx: ctx, writes: true},
		func(ctx context.Context) (struct{}, error) {
			return struct{}{}, s.w.store.SaveHandle(ctx, id, attempt, handle)
		})
	return err
}

func (s nodeStore) CreateStop(ctx context.Context, n store.NewStop) (store.Stop, bool, error) {
	created := false
	stop, err := parkCall(s.node, call{op: "CreateStop", ctx: ctx, writes: true, detail: n.Destination},
		func(ctx context.Context) (out store.Stop, err error) {
			if out, created, err = s.w.store.CreateStop(ctx, n); err == nil {
				s.w.breakerOpened(out, created)
			}
			return out, err
		})
	return stop, created && err == nil, err
}

func (s nodeStore) TakeProbe(ctx context.Context, p store.Probe) (bool, error) {
	return parkCall(s.node, call{op: "TakeProbe", ctx: ctx, writes: true, detail: p.Token.String()},
		func(ctx context.Context) (bool, error) {
			took, err := s.w.store.TakeProbe(ctx, p)
			s.w.probeTaken(p, took && err == nil)
			return took, err
		})
}

func (s nodeStore) EndProbe(ctx context.Context, r store.ProbeResult) (store.Stop, bool, error) {
	counts := false
	stop, err := parkCall(s.node, call{op: "EndProbe", ctx: ctx, writes: true, detail: r.Token.String()},
		func(ctx context.Context) (out store.Stop, err error) {
			out, counts, err = s.w.store.EndProbe(ctx, r)
			s.w.probeEnded(r, out, counts && err == nil)
			return out, err
		})
	return stop, counts && err == nil, err
}

func (s nodeStore) Apply(ctx context.Context, items []store.Change) ([]store.Applied, error) {
	c := call{op: "Apply", ctx: ctx, writes: true}
	var what strings.Builder
	for _, it := range items {
		fmt.Fprintf(&what, "%s %s %d;", it.Decision.Cause, it.Decision.To, it.Decision.Attempt)
	}
	if len(items) == 1 {
		c.job, c.n = items[0].Job, items[0].Version
	}
	c.detail = what.String()
	decided := time.Now()
	return parkCall(s.node, c, func(ctx context.Context) ([]store.Applied, error) {
		s.w.noteLost(items, time.Since(decided))
		return s.w.store.Apply(ctx, items)
	})
}

func (s nodeStore) Overdue(ctx context.Context, limit int) ([]job.Snapshot, error) {
	return parkCall(s.node, call{op: "Overdue", ctx: ctx},
		func(ctx context.Context) ([]job.Snapshot, error) { return s.w.store.Overdue(ctx, limit) })
}

func (s nodeStore) Enlist(ctx context.Context, p store.Process) error {
	_, err := parkCall(s.node, call{op: "Enlist", ctx: ctx, writes: true},
		func(ctx context.Context) (struct{}, error) { return struct{}{}, s.w.store.Enlist(ctx, p) })
	return err
}

func (s nodeStore) Orphans(ctx context.Context, after store.Place, limit int) ([]store.Leased, error) {
	return parkCall(s.node, call{op: "Orphans", ctx: ctx},
		func(ctx context.Context) ([]store.Leased, error) { return s.w.store.Orphans(ctx, after, limit) })
}

func (s nodeStore) Owners(ctx context.Context, id job.ID, n int, ids []string) (map[string]job.ID, error) {
	return parkCall(s.node, call{op: "Owners", job: id, n: int64(n), ctx: ctx},
		func(ctx context.Context) (map[string]job.ID, error) { return s.w.store.Owners(ctx, id, n, ids) })
}

func (s nodeStore) Credential(ctx context.Context, id job.ID) (store.Sealed, error) {
	return parkCall(s.node, call{op: "Credential", job: id, ctx: ctx},
		func(ctx context.Context) (store.Sealed, error) { return s.w.store.Credential(ctx, id) })
}

// Meta reads the steady clock for looks.
func (s nodeStore) Meta(ctx context.Context) (store.Meta, error) {
	return parkCall(s.node, call{op: "Meta", ctx: ctx},
		func(ctx context.Context) (store.Meta, error) { return s.w.store.Meta(ctx) })
}

// NextDue alone does not park: a node's three loops ask it alike, and nothing hangs
// on whose question comes first. Its failures are drawn from the time.
func (s nodeStore) NextDue(ctx context.Context, limit time.Duration) (time.Duration, error) {
	if s.dead.Load() {
		return 0, errDead
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s %d", s.w.seed, s.name, time.Now().UnixNano())
	if s.w.plagued.Load() && h.Sum64()%16 == 0 {
		return 0, store.ErrUnavailable
	}
	return s.w.store.NextDue(ctx, limit)
}

// Watch returns the store's hints, on every other node: they may get lost. The director hands
// them on.
func (s nodeStore) Watch(kind store.WatchKind) (<-chan struct{}, func()) {
	if s.deaf {
		return nil, func() {}
	}
	return s.w.director.watch(s.w.store.Watch(kind))
}

var errConnector = errors.New("the platform could not be reached")
