package sim

import (
	"context"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// intending are the intents that one claim asks for.
type intending struct {
	*node
	intend func(store.Leased) *store.Arm
	given  int // how many it was given
	// late: the claim is decided after its caller got ErrUnconfirmed. What it
	// may write was asked before.
	late      bool
	rehearsed map[job.ID]*store.Arm
}

// ask is what the store asks, in the director's turn: what the connector is asked
// meanwhile does not park.
func (in *intending) ask(l store.Leased) *store.Arm {
	if in.late {
		a := in.rehearsed[l.ID]
		if a == nil || a.CredentialVersion != l.Connection.CredentialVersion {
			return nil // a change of the connection had to wait for the claim, or the claim for the change
		}
		a.Claim = l.ClaimToken
		return a
	}
	in.node.asking.Store(true)
	defer in.node.asking.Store(false)
	a := in.intend(l)
	if a != nil {
		in.given++
		in.w.intentIsKeyed(l.ID, a)
	}
	return a
}

// intentIsKeyed: only a KEYED job is armed by its claim, for the line may have been
// used.
func (w *simWorld) intentIsKeyed(id job.ID, a *store.Arm) {
	w.stats.intents++
	if j := w.byID[id]; j.target.traits.Class != job.Keyed || a.Class != job.Keyed {
		w.broke("FUSED", j, "an intent with the claim of a job that is %s", j.target.traits.Class)
	}
}

// rehearse asks for the intents of a claim that is decided later, and returns their
// tokens: those of the jobs that are due now. It may claim others then, without one.
func (in *intending) rehearse() (tokens []job.ID) {
	w := in.w
	for _, j := range w.jobs {
		s := w.store.Inspect(j.id).Snapshot
		if !s.State.Runnable() || s.NextAt.After(w.dbNow()) || !s.WaitsFor.IsZero() {
			continue
		}
		conn, err := w.store.Connection(context.Background(), store.Ref{Project: s.Project, ID: s.Connection})
		if err != nil {
			w.t.Error(err)
			continue
		}
		l := store.Leased{Snapshot: s, Connection: conn}
		l.State, l.Version, l.NextAt = job.Claimed, l.Version+1, s.NextAt.Add(time.Minute)
		l.ClaimToken = w.newID()
		if parent := w.byID[s.ReplyTo]; parent != nil {
			l.ReplyTo = effectID(w.store.Inspect(parent.id).Snapshot)
		}
		if a := in.ask(l); a != nil {
			in.rehearsed[j.id] = a
			tokens = append(tokens, a.Token)
		}
	}
	in.late = true
	return tokens
}
