package storetest

import (
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var effectKeyTests = []test{
	{"one that is given is the job's", effectKeyGiven},
	{"each is used once", effectKeyOnce},
	{"in one batch", effectKeyBatch},
	{"a new round brings its own", effectKeyRound},
	{"they outlive their jobs", effectKeyRemoved},
	{"of a job that is sent as it is stored", effectKeySent},
}

const receiver = "https://api.example"

// owned sets a job's own effect key.
func owned(key string) func(*store.NewJob) {
	return func(n *store.NewJob) {
		n.Spec.OwnEffectKey, n.EffectKey = key, job.EffectKeyDigest(receiver, key)
	}
}

func effectKeyGiven(f *fixture) {
	s := f.submit(owned("ch_1"))
	f.is(s.OwnEffectKey, "ch_1", "as it is stored")
	f.is(f.job(s.ID).OwnEffectKey, "ch_1", "as it is read")
	p, err := f.s.List(f.ctx, store.JobQuery{Project: project})
	f.ok(err)
	f.is(p.Jobs[0].OwnEffectKey, "ch_1", "as it is listed")
	l := f.claim()
	f.is(l.Job.EffectKey("n"), "ch_1", "as it is claimed")
	f.is(f.submit().OwnEffectKey, "", "of a job that was given none")
}

func effectKeyOnce(f *fixture) {
	n := f.new(owned("ch_1"))
	f.is(f.create(n)[0].Created, true, "created")
	f.is(f.create(n)[0].Created, false, "the repeat is created")
	other := f.new(owned("ch_1"))
	out, err := f.s.Create(f.ctx, []store.NewJob{other})
	f.ok(err)
	f.fails(out[0].Err, store.ErrEffectKeyTaken)
	f.fails(second(f.s.Job(f.ctx, store.Ref{Project: project, Key: other.Spec.Key})), store.ErrNotFound)
	owned("ch_2")(&other)
	f.is(f.create(other)[0].Created, true, "under the key that stayed free")
}

func effectKeyBatch(f *fixture) {
	a, b, c := f.new(owned("ch_1")), f.new(owned("ch_1")), f.new()
	again := b
	again.Spec.ID = f.id()
	out, err := f.s.Create(f.ctx, []store.NewJob{a, b, c, again})
	f.ok(err)
	created, taken := 0, 0
	for _, o := range out {
		switch {
		case o.Err == nil && o.Created:
			created++
		default:
			f.fails(o.Err, store.ErrEffectKeyTaken)
			taken++
		}
	}
	f.is([]int{created, taken}, []int{2, 2}, "created and refused")
	f.is(out[2].Created, true, "the one without")
	// A reply to a refused item is refused, too.
	refused := f.new(owned("ch_1"))
	reply := f.new(replying(refused.Spec.ID), owned("ch_2"))
	out, err = f.s.Create(f.ctx, []store.NewJob{refused, reply})
	f.ok(err)
	f.fails(out[0].Err, store.ErrEffectKeyTaken)
	f.fails(out[1].Err, store.ErrReplyTo)
	f.is(f.create(f.new(owned("ch_2")))[0].Created, true, "under the effect key of the refused reply")
}

// unresolved brings a job with an own effect key to a person.
func (f *fixture) unresolved(key string) job.Snapshot {
	f.Helper()
	s := f.sending(owned(key)).Snapshot
	s = f.apply(s, answer(s, job.ResultUnknown)).Snapshot
	f.clock.advance(day)
	s = f.apply(f.job(s.ID), job.LookDue{}).Snapshot
	f.is(s.State, job.NeedsResolution, "state")
	return s
}

func effectKeyRound(f *fixture) {
	f.submit(owned("ch_taken"))
	f.claim()
	s := f.unresolved("ch_1")
	resend := func(key string) store.Applied {
		f.Helper()
		d := f.decide(s, job.Resolved{Ruling: job.RuleResend, Actor: "ann", OwnEffectKey: key})
		out, err := f.s.Apply(f.ctx, []store.Change{{
			Job: s.ID, Version: s.Version, Decision: d,
			Content: &store.Content{OwnEffectKey: key, EffectKey: job.EffectKeyDigest(receiver, key)},
		}})
		f.ok(err)
		return out[0]
	}
	_, err := job.Decide(s.View(f.traits(s), 0), job.Resolved{Ruling: job.RuleResend, Actor: "ann"})
	f.fails(err, job.ErrOwnEffectKey)
	f.fails(resend("ch_taken").Err, store.ErrEffectKeyTaken)
	f.fails(resend("ch_1").Err, store.ErrEffectKeyTaken)
	f.unchanged(s)
	f.ok(resend("ch_2").Err)
	got := f.job(s.ID)
	f.is([]any{got.OwnEffectKey, got.Round, got.State}, []any{"ch_2", 2, job.Retrying}, "after the ruling")
	f.is(f.attempts(s.ID)[0].EffectKey, "ch_1", "the first attempt's")
}

func effectKeyRemoved(f *fixture) {
	f.apply(f.submit(owned("ch_1")), job.CancelAsked{})
	f.clock.advance(1000 * day)
	f.is(f.retain(keeping).Jobs, 1, "jobs removed")
	out, err := f.s.Create(f.ctx, []store.NewJob{f.new(owned("ch_1"))})
	f.ok(err)
	f.fails(out[0].Err, store.ErrEffectKeyTaken)
}

// effectKeySent: in every way of a store, each attempt is sent under the given key.
func effectKeySent(f *fixture) {
	before := f.sending().Snapshot
	f.apply(before, answer(before, job.ResultSucceeded))
	f.clock.advance(time.Second)
	c := f.started(owned("ch_1"), func(n *store.NewJob) {
		n.Start.Intent = func(l store.Leased) *store.Arm {
			a := f.intent(l)
			return &a
		}
	})
	var s job.Snapshot
	if c.Started == nil || c.Started.Armed == nil {
		s = f.arm(f.claim()).Snapshot
	} else {
		s = c.Started.Armed.Snapshot
	}
	f.is(f.job(s.ID).OwnEffectKey, "ch_1", "as it is stored")
	f.is(f.attempts(s.ID)[0].EffectKey, "ch_1", "of the first attempt")
	f.apply(s, job.Outcome{Attempt: 1, Result: job.ResultNotSent, Kind: job.FailTransient})
	f.clock.advance(time.Hour)
	f.is(f.claim().Job.EffectKey("n"), "ch_1", "as it is claimed again")
}
