package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file: a plan lists jobs with the versions that a person saw. It changes a job
// only at that version. Its progress is stored page by page, after the changes of the page: a
// page that is done again finds its jobs changed, and changes none of them a second time.

// Bounds of plans.
const (
	// MostPlanJobs bounds the jobs of a plan.
	MostPlanJobs = MostTroubles
	// MostDryPlans bounds the plans of a project that were not started: a new one replaces the
	// oldest.
	MostDryPlans = 20
	// PlanKept is for how long a plan can be started, and is stored if it is not.
	PlanKept = 24 * time.Hour
	// DonePlanKept is for how long a plan that is done is stored at least.
	DonePlanKept = 30 * 24 * time.Hour
)

// ErrPlanOver: the plan was made too long ago to be started, or before the database was restored.
var ErrPlanOver = errors.New("the plan is over")

// Plans keeps changes of many jobs, and how far they have come.
type Plans interface {
	// CreatePlan stores a plan that changes nothing until it is started, with at most
	// MostPlanJobs items. It removes plans of the project that are no longer kept.
	CreatePlan(ctx context.Context, p Plan, items []PlanItem) (Plan, error)
	// Plan reads a plan of a project. ErrNotFound.
	Plan(ctx context.Context, project string, id job.ID) (Plan, error)
	// ListPlans reads plans of a project, the newest first, at most limit.
	ListPlans(ctx context.Context, project string, limit int) ([]Plan, error)
	// PlanPage reads one page of a plan's items, and whether it is finished. ErrNotFound.
	PlanPage(ctx context.Context, id job.ID, page int) (items []PlanItem, finished bool, err error)
	// StartPlan starts a plan; a plan that was started stays as it is. ErrNotFound, ErrPlanOver.
	// ErrQuarantined.
	StartPlan(ctx context.Context, project string, id job.ID, actor string) (Plan, error)
	// FinishPage stores what became of the items of a page, once: a page that is finished stays
	// as it is. After the last page the plan is PlanDone. ErrNotFound. ErrIllegal: the items are
	// others, or the plan was not started.
	FinishPage(ctx context.Context, id job.ID, page int, items []PlanItem) (Plan, error)
	// RunningPlans reads plans of all projects that were started and are not done, and of which no
	// page was finished for the time idle, the longest idle first, at most limit. It has none that
	// was made before a restore, which may have taken back what the plan did: nothing resumes it.
	RunningPlans(ctx context.Context, idle time.Duration, limit int) ([]Plan, error)
}

// PlanOp is what a plan does with its jobs. It is stored: values never change.
type PlanOp uint8

const (
	// PlanResolve decides about jobs whose outcome is unknown.
	PlanResolve PlanOp = iota + 1
	// PlanRetry starts ended jobs again, with their keys.
	PlanRetry
)

// PlanState is where a plan stands. It is stored: values never change.
type PlanState uint8

const (
	// PlanDry: it was not started.
	PlanDry PlanState = iota + 1
	// PlanRunning: it was started, and has pages that are not finished.
	PlanRunning
	// PlanDone: all its pages are finished.
	PlanDone
)

// Plan is a change of many jobs.
type Plan struct {
	ID      job.ID
	Project string
	Op      PlanOp
	// Ruling and Override are those of PlanResolve (job.Resolved).
	Ruling   job.Ruling
	Override bool
	// Pace, of PlanRetry, is the time between two jobs; 0: none. Whole microseconds.
	Pace time.Duration
	// Incident is the id of the incident that it decides; empty: it was made of others.
	Incident string
	Note     string
	// CreatedBy and StartedBy are actors, as in events.
	CreatedBy, StartedBy string
	State                PlanState
	// Pages is the number of pages, from 0 on.
	Pages int
	// Jobs are all that it lists, and Planned those of them that it is to change. Of these it has
	// Changed some by now, and LeftOut others.
	Jobs, Planned, Changed, LeftOut int
	// Incarnation is the database's (Meta.Incarnation) as the plan was made.
	Incarnation int64
	// Cut: more jobs were concerned than a plan can have.
	Cut                               bool
	Created, Started, Advanced, Ended time.Time
}

// PlanOutcome is what becomes of one job of a plan. It is stored: values never change.
type PlanOutcome uint8

const (
	// PlanActs: the plan is to change the job.
	PlanActs PlanOutcome = iota
	// PlanChanged: it has.
	PlanChanged
	// PlanStale: the job has changed since the plan was made.
	PlanStale
	// PlanGone: the job is no longer stored.
	PlanGone
	// PlanRefused: the job does not allow the change; see PlanItem.Reason.
	PlanRefused
	// PlanCandidates: looks saw several objects that could be the job's.
	PlanCandidates
	// PlanContrary: what was seen speaks against the decision.
	PlanContrary
	// PlanLooking: Fireonce still looks for the effect.
	PlanLooking
	// PlanUnproven: an attempt of the job was closed without a proof, by a ruling or a policy.
	PlanUnproven
	// PlanStopped: the key that started the plan was revoked, or expired, before the job's turn.
	PlanStopped
)

// LeftOut reports whether the plan leaves the job as it is.
func (o PlanOutcome) LeftOut() bool { return o > PlanChanged }

// PlanItem is one job of a plan.
type PlanItem struct {
	Job job.ID
	// Version is the job's, as the plan's maker saw it.
	Version int64
	Outcome PlanOutcome
	// Reason, of PlanRefused, is the contract's number of the reason; 0: none.
	Reason uint32
}

// planItemsVersion begins the encoded items.
const planItemsVersion = 1

// EncodePlanItems writes the items of a page.
func EncodePlanItems(items []PlanItem) []byte {
	out := make([]byte, 1, 1+len(items)*22)
	out[0] = planItemsVersion
	for _, i := range items {
		out = append(out, i.Job[:]...)
		out = binary.AppendUvarint(out, uint64(i.Version))
		out = append(out, byte(i.Outcome))
		out = binary.AppendUvarint(out, uint64(i.Reason))
	}
	return out
}

var errPlanItems = errors.New("the items of a plan cannot be read")

// DecodePlanItems reads the items of a page.
func DecodePlanItems(b []byte) ([]PlanItem, error) {
	if len(b) == 0 || b[0] != planItemsVersion {
		return nil, errPlanItems
	}
	var out []PlanItem
	for b = b[1:]; len(b) > 0; {
		var i PlanItem
		if len(b) < len(i.Job) {
			return nil, errPlanItems
		}
		b = b[copy(i.Job[:], b):]
		version, n := binary.Uvarint(b)
		if n <= 0 || len(b) == n {
			return nil, errPlanItems
		}
		i.Version, i.Outcome, b = int64(version), PlanOutcome(b[n]), b[n+1:]
		reason, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, errPlanItems
		}
		i.Reason, b = uint32(reason), b[n:]
		if len(out) == MaxBatch {
			return nil, errPlanItems
		}
		out = append(out, i)
	}
	return out, nil
}

// CheckPlan refuses a plan that cannot be stored, with ErrIllegal.
func CheckPlan(p Plan, items []PlanItem) error {
	switch {
	case len(items) > MostPlanJobs:
		return fmt.Errorf("%w: %d jobs in a plan, at most %d", ErrIllegal, len(items), MostPlanJobs)
	case (p.Op == PlanResolve) != (p.Ruling != 0), p.Op != PlanResolve && p.Op != PlanRetry, p.Pace < 0:
		return fmt.Errorf("%w: plan of op %d with ruling %d", ErrIllegal, p.Op, p.Ruling)
	}
	return nil
}

// Count sets what a plan's items determine of it.
func (p *Plan) Count(items []PlanItem) {
	p.Jobs, p.Pages, p.Planned = len(items), (len(items)+MaxBatch-1)/MaxBatch, 0
	for _, i := range items {
		if i.Outcome == PlanActs {
			p.Planned++
		}
	}
}

// Finished returns how many items a finished page has changed, and how many left out of those
// that were to be changed.
func Finished(before, after []PlanItem) (changed, leftOut int, err error) {
	if len(before) != len(after) {
		return 0, 0, fmt.Errorf("%w: %d items in place of %d", ErrIllegal, len(after), len(before))
	}
	for i := range before {
		switch was, is := before[i], after[i]; {
		case was.Job != is.Job || was.Version != is.Version || was.Outcome != PlanActs && was.Outcome != is.Outcome:
			return 0, 0, fmt.Errorf("%w: item %d of the page is another", ErrIllegal, i)
		case was.Outcome != PlanActs:
		case is.Outcome == PlanChanged:
			changed++
		case is.Outcome.LeftOut():
			leftOut++
		default:
			return 0, 0, fmt.Errorf("%w: item %d of the page has no outcome", ErrIllegal, i)
		}
	}
	return changed, leftOut, nil
}

// Start judges a start: it reports whether it has to be written, and sets what it changes. A plan
// without pages is done with its start.
func (p *Plan) Start(actor string, incarnation int64, now time.Time) (write bool, err error) {
	switch {
	case p.State == PlanDone:
		return false, nil
	case p.Incarnation != incarnation:
		return false, fmt.Errorf("%w: the database was restored since", ErrPlanOver)
	case p.State == PlanRunning:
		return false, nil
	case now.Sub(p.Created) > PlanKept:
		return false, fmt.Errorf("%w: it was made more than %v ago", ErrPlanOver, PlanKept)
	}
	p.State, p.StartedBy, p.Started, p.Advanced = PlanRunning, actor, now, now
	if p.Pages == 0 {
		p.State, p.Ended = PlanDone, now
	}
	return true, nil
}

// Finish counts a finished page. last: no other page is left.
func (p *Plan) Finish(changed, leftOut int, last bool, now time.Time) {
	p.Changed, p.LeftOut, p.Advanced = p.Changed+changed, p.LeftOut+leftOut, now
	if last {
		p.State, p.Ended = PlanDone, now
	}
}
