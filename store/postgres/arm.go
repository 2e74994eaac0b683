package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// Rules of this file:
//   - no intent is written unless every guard of the contract holds at one moment. rules.Arm
//     judges it on rows that are locked, and the update names what it judged. The triggers
//     refuse what must never be written;
//   - the coalescer splits a batch that the database refuses, so nothing here goes on after
//     an error;
//   - gates are taken after the jobs are locked, in the order of their keys. A gate is waited
//     for only while another transaction is deciding about it.

// Arm implements store.Store.
func (s *Store) Arm(ctx context.Context, items []store.Arm) ([]store.Armed, error) {
	return s.work.arms.do(ctx, items)
}

// armBatch arms items of several callers in one transaction: two round trips.
func (s *Store) armBatch(ctx context.Context, items []store.Arm) ([]store.Armed, error) {
	var l *lockedRows
	all := every(len(items))
	ids := jobsOf(items, all)
	return writeAfter(ctx, s, "arm", func(ctx context.Context, t *tx) {
		l = new(lockedRows)
		t.queueLocks(ctx, l, ids, nil)
		t.queueHolds(ctx, l, ids)
	}, func(ctx context.Context, t *tx) ([]store.Armed, error) {
		b := &jobArmer{tx: t, items: items, out: make([]store.Armed, len(items))}
		return b.out, b.judge(ctx, l, all)
	})
}

// every returns the indexes of n items.
func every(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// jobsOf returns the jobs of some items, each once.
func jobsOf(items []store.Arm, which []int) []job.ID {
	ids := make([]job.ID, len(which))
	for n, i := range which {
		ids[n] = items[i].Job
	}
	return distinct(ids)
}

// judge arms items, or refuses them, on their locked rows.
func (b *jobArmer) judge(ctx context.Context, l *lockedRows, which []int) error {
	ids := jobsOf(b.items, which)
	jobs, err := b.locked(l, ids)
	if err != nil {
		return err
	}
	held := b.held(l)
	if b.stops > 0 {
		if b.stopped, err = b.shared().StopsOverJobs(ctx, ids); err != nil {
			return err
		}
	}
	if err := b.coolDowns(ctx, l, jobs); err != nil {
		return err
	}
	for n, part := range independentBatches(len(which), func(n int) []any { return b.touches(which[n]) }) {
		if n > 0 {
			if jobs, err = b.reread(ctx, ids); err != nil {
				return err
			}
		}
		for n := range part {
			part[n] = which[part[n]]
		}
		if err := b.armIndependent(ctx, jobs, held, part); err != nil {
			return err
		}
	}
	if len(b.ruled) == 0 {
		return nil
	}
	if err := b.flush(ctx); err != nil {
		return err
	}
	snaps, err := b.shared().SnapshotsByID(ctx, distinct(b.ruled), false)
	for i := range b.out {
		if s, ok := snaps[b.items[i].Job]; ok && b.out[i].Err == nil {
			b.out[i].Snapshot.Resolution = s.Resolution
		}
	}
	return err
}

// jobArmer is a batch of arms in progress.
type jobArmer struct {
	*tx
	items []store.Arm
	out   []store.Armed
	// ruled are jobs with a ruling, which their rows only refer to.
	ruled []job.ID
	// stopped has the stops that are in force over the jobs.
	stopped map[job.ID]*store.Stop
	// downs are the cool-downs of the jobs that have any, and lastArms their last arms, whose
	// rows are locked.
	downs    map[job.ID][]store.CoolDown
	lastArms map[job.ID]store.LastArm
}

// gateKey names an open intent.
type gateKey struct{ account, fingerprint string }

// bucket is where the arms of the content are counted.
func (g gateKey) bucket() int64 { return rules.ContentBucket(g.account, []byte(g.fingerprint)) }

// gateOf returns the gate of an arm; the zero key: none.
func gateOf(a store.Arm, st *lockedJob) gateKey {
	if len(a.Gate) == 0 {
		return gateKey{}
	}
	return gateKey{rules.Account(st.Connection, st.HoldKey, a.AccountIdentity), string(a.Gate)}
}

// touches returns an item's job, its cool-downs, and the content of its gate. The substitute
// for an unknown account is only known later, and is not distinguished here.
func (b *jobArmer) touches(i int) []any {
	a := b.items[i]
	out := []any{a.Job}
	for _, d := range b.downs[a.Job] {
		out = append(out, coolKey(d.Owner))
	}
	if len(a.Gate) > 0 {
		out = append(out, gateKey{a.AccountIdentity, string(a.Gate)})
	}
	return out
}

// coolKey is the owner of a cool-down.
type coolKey job.ID

// intent is an arm that will be written.
type intent struct {
	store.Arm
	// next is the job as the arm leaves it, without its ruling.
	next    job.Snapshot
	attempt job.Attempt
	gate    gateKey
	index   int
	// ruling is the row of the newest ruling; 0: none.
	ruling int64
	// position is the position of the arm's event, and history what the event adds to the
	// job's history.
	position int64
	history  []byte
}

// armIndependent arms items that share no job, no cool-down and no content.
func (b *jobArmer) armIndependent(ctx context.Context, jobs map[job.ID]*lockedJob, held map[job.ID]bool, part []int) error {
	var intents []*intent
	for _, i := range part {
		a := b.items[i]
		j, ok := jobs[a.Job]
		if !ok {
			b.out[i].Err = store.ErrNotFound
			continue
		}
		armable := b.armable(j, held[a.Job])
		if err := rules.Arm(a, armable); err != nil {
			b.out[i].Err = err
			continue
		}
		in := &intent{Arm: a, gate: gateOf(a, j), index: i, ruling: j.resolution}
		in.next, in.attempt = rules.Begin(a, armable)
		intents = append(intents, in)
	}
	intents, err := b.takeGates(ctx, intents)
	if err != nil || len(intents) == 0 {
		return err
	}
	return b.write(ctx, intents)
}

// coolDowns finds the cool-downs of the jobs, and locks their last arms.
func (b *jobArmer) coolDowns(ctx context.Context, l *lockedRows, jobs map[job.ID]*lockedJob) error {
	var owners []job.ID
	for _, h := range l.holds {
		j, ok := jobs[h.JobID]
		if !ok {
			continue
		}
		spec := j.Spec
		spec.CoolDown = fromMicros(h.CoolDown)
		downs := store.CoolDowns(spec, fromMicros(h.ConnectionCoolDown))
		if len(downs) == 0 {
			continue
		}
		if b.downs == nil {
			b.downs = make(map[job.ID][]store.CoolDown)
		}
		b.downs[j.ID] = downs
		for _, d := range downs {
			owners = append(owners, d.Owner)
		}
	}
	if len(owners) == 0 {
		return nil
	}
	rows, err := b.q.LockCoolDowns(ctx, distinct(owners))
	if err != nil {
		return fmt.Errorf("cool-downs: %w", err)
	}
	b.lastArms = make(map[job.ID]store.LastArm, len(rows))
	for _, r := range rows {
		b.lastArms[r.Owner] = store.LastArm{Job: r.JobID, ArmedAt: r.ArmedAt}
	}
	return nil
}

// recordArms queues the last arms of cool-downs.
func (b *jobArmer) recordArms(ctx context.Context, intents []*intent) {
	p := pgdb.SetCoolDownsParams{Now: b.now}
	for _, in := range intents {
		for _, d := range rules.CoolDownsOf(in.Arm, b.downs[in.Job]) {
			b.lastArms[d.Owner] = store.LastArm{Job: in.Job, ArmedAt: b.now}
			p.Owners, p.Jobs = append(p.Owners, d.Owner), append(p.Jobs, in.Job)
		}
	}
	b.execRows(ctx, len(p.Owners), statement("cool-downs", (*pgdb.Queries).SetCoolDowns, p))
}

// held returns which of the jobs have a held hold key.
func (b *jobArmer) held(l *lockedRows) map[job.ID]bool {
	out := make(map[job.ID]bool, len(l.holds))
	for _, h := range l.holds {
		out[h.JobID] = rules.Hold{Paused: h.Held, LimitedUntil: h.RateLimitedUntil}.Held(b.now)
	}
	return out
}

// armable returns the job as an intent finds it.
func (b *jobArmer) armable(j *lockedJob, held bool) rules.Armable {
	s := j.snapshot(b.now)
	return rules.Armable{
		Snapshot: &s, ClaimedAt: j.claimedAt, Held: held, Suspension: b.suspension(), Stop: b.stopped[j.ID],
		UnderWay: j.attempts.UnderWay(), RoundDigest: j.attempts.RoundDigest(j.Round),
		CoolDowns: b.downs[j.ID], Last: func(owner job.ID) store.LastArm { return b.lastArms[owner] },
	}
}

// takeGates returns the intents that have their gates now.
func (b *jobArmer) takeGates(ctx context.Context, intents []*intent) ([]*intent, error) {
	intents, err := b.lookAgain(ctx, intents)
	if err != nil {
		return nil, err
	}
	var p pgdb.TakeGatesParams
	for _, in := range intents {
		if in.gate == (gateKey{}) {
			continue
		}
		p.Accounts = append(p.Accounts, in.gate.account)
		p.Fingerprints = append(p.Fingerprints, []byte(in.gate.fingerprint))
		p.Jobs = append(p.Jobs, in.Job)
		p.Attempts = append(p.Attempts, int64(in.attempt.Number))
	}
	if len(p.Jobs) == 0 {
		return intents, nil
	}
	rows, err := b.q.TakeGates(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("gates: %w", err)
	}
	taken := setOf(rows)
	var owners map[gateKey]job.ID
	if len(taken) < len(p.Jobs) {
		if owners, err = b.gateOwners(ctx, p.Accounts, p.Fingerprints); err != nil {
			return nil, err
		}
	}
	var armed []*intent
	for _, in := range intents {
		if in.gate == (gateKey{}) || taken[in.Job] {
			armed = append(armed, in)
			continue
		}
		b.out[in.index].Err = &store.GatedError{By: owners[in.gate]}
	}
	return armed, nil
}

// gateOwners returns the jobs that have the gates.
func (b *jobArmer) gateOwners(ctx context.Context, accounts []string, fingerprints [][]byte) (map[gateKey]job.ID, error) {
	rows, err := b.q.GateOwners(ctx, pgdb.GateOwnersParams{Accounts: accounts, Fingerprints: fingerprints})
	if err != nil {
		return nil, fmt.Errorf("gates: %w", err)
	}
	owners := make(map[gateKey]job.ID, len(rows))
	for _, r := range rows {
		owners[gateKey{r.Account, string(r.Fingerprint)}] = r.JobID
	}
	return owners, nil
}

// lookAgain locks the arms of the contents, and returns the intents whose looks stand.
func (b *jobArmer) lookAgain(ctx context.Context, intents []*intent) ([]*intent, error) {
	var buckets []int64
	for _, in := range intents {
		if in.gate != (gateKey{}) {
			buckets = append(buckets, in.gate.bucket())
		}
	}
	if len(buckets) == 0 {
		return intents, nil
	}
	slices.Sort(buckets)
	rows, err := b.q.LockContentArms(ctx, slices.Compact(buckets))
	if err != nil {
		return nil, fmt.Errorf("arms of contents: %w", err)
	}
	arms := make(map[int64]int64, len(rows))
	for _, r := range rows {
		arms[r.Bucket] = r.Arms
	}
	standing := intents[:0:0]
	for _, in := range intents {
		if in.gate == (gateKey{}) || rules.LookStands(in.Arm, arms[in.gate.bucket()]) == nil {
			standing = append(standing, in)
			continue
		}
		owners, err := b.gateOwners(ctx, []string{in.gate.account}, [][]byte{[]byte(in.gate.fingerprint)})
		if err != nil {
			return nil, err
		}
		if b.out[in.index].Err = rules.Gate(in.Arm, owners[in.gate]); b.out[in.index].Err == nil {
			b.out[in.index].Err = store.ErrLookAgain
		}
	}
	return standing, nil
}

// countArms queues the arms of gated contents.
func (b *jobArmer) countArms(ctx context.Context, intents []*intent) {
	var buckets []int64
	for _, in := range intents {
		if in.gate != (gateKey{}) {
			buckets = append(buckets, in.gate.bucket())
		}
	}
	b.execRows(ctx, len(buckets), statement("arms of contents", (*pgdb.Queries).CountContentArms, buckets))
}

// write queues the moves of the jobs to SENDING, with the attempts and the events.
func (b *jobArmer) write(ctx context.Context, intents []*intent) error {
	for _, in := range intents {
		from := job.Claimed
		if in.Rearm {
			from = job.Ambiguous
		}
		var err error
		if in.history, err = b.note(armEvent(&in.next.Job, from, b.now)); err != nil {
			return err
		}
		in.position = b.last()
		b.out[in.index].Attempt = in.attempt
		b.out[in.index].Snapshot = in.next
		if in.ruling != 0 {
			b.ruled = append(b.ruled, in.Job)
		}
	}
	b.recordArms(ctx, intents)
	b.countArms(ctx, intents)
	b.exec(ctx, statement("arm jobs", (*pgdb.Queries).ArmJobs, armColumns(intents, 1, b.now)))
	return nil
}
