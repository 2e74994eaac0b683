package schedule

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/cache"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/contract"
	"github.com/fireonce/fireonce/internal/firing"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/internal/submit"
	"github.com/fireonce/fireonce/store"
)

// A Plan is a stored schedule that was read and compiled. Goroutines may share it.
type Plan struct {
	Times    *recur.Schedule
	Policies firing.Policies
	Spec     *schedulesv1.ScheduleSpec
	Template *schedulesv1.JobTemplate // nil: it was erased, or left out
	Terms    *schedulesv1.SchedulePolicies
}

// maxPlans bounds the cached plans. One takes about 10 kB.
const maxPlans = 10_000

// plans caches compiled schedules, so that a schedule that fires often is compiled once.
type plans struct {
	zones *recur.Zones
	kept  *cache.TTL[job.ID, keptPlan]
}

// newPlans returns an empty cache. Schedules that fire equally often are read in turn.
func newPlans(zones *recur.Zones) plans {
	return plans{zones: zones, kept: cache.New[job.ID, keptPlan](cache.Options{Max: maxPlans, RemoveAny: true})}
}

type keptPlan struct {
	// A restored database may reach the same version again, with other contents.
	version int64
	updated time.Time
	plan    *Plan
}

// of returns the plan of a stored schedule.
func (p *plans) of(s store.Schedule) (*Plan, error) {
	kept, ok := p.kept.Get(s.ID)
	if ok && kept.version == s.Version && kept.updated.Equal(s.Updated) && (kept.plan.Template == nil) == (s.Template == nil) {
		return kept.plan, nil
	}
	plan, err := p.read(s)
	if err != nil {
		return nil, err
	}
	p.kept.Put(s.ID, keptPlan{s.Version, s.Updated, plan})
	return plan, nil
}

func (p *plans) read(s store.Schedule) (*Plan, error) {
	out := &Plan{Spec: &schedulesv1.ScheduleSpec{}, Terms: &schedulesv1.SchedulePolicies{}}
	if err := proto.Unmarshal(s.Spec, out.Spec); err != nil {
		return nil, errDamaged("spec", err)
	}
	if err := proto.Unmarshal(s.Policies, out.Terms); err != nil {
		return nil, errDamaged("policies", err)
	}
	if s.Template != nil {
		out.Template = &schedulesv1.JobTemplate{}
		if err := proto.Unmarshal(s.Template, out.Template); err != nil {
			return nil, errDamaged("template", err)
		}
	}
	if _, err := p.zones.Load(out.Spec.GetTimeZone()); err != nil {
		return nil, errDamaged("times", &NoZoneError{out.Spec.GetTimeZone(), err})
	}
	var err error
	if out.Times, err = Compile(s.ID, s.Generation, out.Spec, p.zones); err != nil {
		return nil, errDamaged("times", err)
	}
	out.Policies = PoliciesOf(out.Terms, out.Spec)
	return out, nil
}

// JobOf makes the job of a firing from a template. The connector has not checked the job yet, so
// it has no hold key. For a payload that CheckTexts accepts, it fails only with ErrTooLarge or
// *connector.InputError.
func JobOf(id job.ID, times *recur.Schedule, template *schedulesv1.JobTemplate, beat recur.Beat, run int64) (store.NewJob, error) {
	payload, err := fill(template.GetPayload(), times, beat, run)
	if err != nil {
		return store.NewJob{}, err
	}
	return jobWith(id, times, template, payload, template.GetLabels(), beat)
}

// ItemJobOf makes the job of a firing from a template and the unchanged content of an item: an
// item has no placeholders. The connector has not checked the job yet, so it has no hold key.
func ItemJobOf(id job.ID, times *recur.Schedule, template *schedulesv1.JobTemplate, item store.ScheduleItem, beat recur.Beat) (store.NewJob, error) {
	payload := &fireoncev1.Payload{}
	if err := proto.Unmarshal(item.Payload, payload); err != nil {
		return store.NewJob{}, errDamaged("item", err)
	}
	return jobWith(id, times, template, payload, Labels(template, item.Labels), beat)
}

func jobWith(
	id job.ID, times *recur.Schedule, template *schedulesv1.JobTemplate, payload *fireoncev1.Payload, labels map[string]string, beat recur.Beat,
) (store.NewJob, error) {
	request := &fireoncev1.ScheduleJobRequest{
		Payload: payload, StartWindow: template.GetStartWindow(), RetryPolicy: template.GetRetryPolicy(),
		Delivery: template.GetDelivery(), Labels: labels,
		AttemptTimeout: template.GetAttemptTimeout(), TimeZone: times.Spec().Zone,
		SkipIfPresent: template.GetSkipIfPresent(),
	}
	if err := checkRules(id, request, beat); err != nil {
		return store.NewJob{}, err
	}
	// No client can submit under the key of a firing, so any valid fingerprint will do.
	var fingerprint job.Fingerprint
	fingerprint.Set("schedule_id", []byte(id.String()))
	fingerprint.Set("firing", []byte(beat.Name))
	spec, err := submit.Spec("", "", request, fingerprint)
	if err != nil {
		return store.NewJob{}, err
	}
	if n := len(spec.Payload); n > job.MaxPayload {
		return store.NewJob{}, fmt.Errorf("%w: %d", ErrTooLarge, n)
	}
	made := store.NewJob{Spec: spec, Recipients: submit.Recipients(payload)}
	if to := template.GetCallback(); to != "" { // stored with the connection's id
		if made.Callback, err = job.ParseID(to); err != nil {
			return store.NewJob{}, errDamaged("callback", err)
		}
	}
	return made, nil
}

// checkRules checks the request of a firing against ScheduleJob's rules: placeholders that are
// filled in make texts longer. It fails with *connector.InputError.
func checkRules(id job.ID, request *fireoncev1.ScheduleJobRequest, beat recur.Beat) error {
	rules, err := contract.Rules()
	if err != nil {
		return err
	}
	whole := proto.CloneOf(request)
	whole.IdempotencyKey = store.FiringKey(id, beat.Name)
	// Any id of a connection: the template's own rules have checked the real one.
	whole.Connection = &fireoncev1.ScheduleJobRequest_ConnectionId{ConnectionId: id.String()}
	err = rules.Validate(whole, protovalidate.WithFailFast())
	broken := new(protovalidate.ValidationError)
	if !errors.As(err, &broken) {
		return err
	}
	v := broken.Violations[0]
	return &connector.InputError{
		Reason: connector.BadPayload, Field: protovalidate.FieldPathString(v.Proto.GetField()),
		Msg: contract.Sentence(v, whole.ProtoReflect().Descriptor()) + " with the placeholders filled in",
	}
}

// Queued reports whether the jobs of a template get their content from the queue. The result is
// stored as store.Schedule.Queued.
func Queued(t *schedulesv1.JobTemplate) bool { return t.GetQueue() != nil }

// Labels returns the labels of an item's job: the template's, overridden by the item's.
func Labels(t *schedulesv1.JobTemplate, item map[string]string) map[string]string {
	if len(item) == 0 {
		return t.GetLabels()
	}
	out := make(map[string]string, len(t.GetLabels())+len(item))
	maps.Copy(out, t.GetLabels())
	maps.Copy(out, item)
	return out
}

// Reasons why a firing's job is refused, besides those of its connector.
var (
	ErrNoConnection = errors.New("the connection was deleted")
	// ErrTooLarge: the payload has more than job.MaxPayload bytes with its placeholders
	// filled in.
	ErrTooLarge   = fmt.Errorf("the payload has more than %d bytes with its placeholders filled in", job.MaxPayload)
	errNoTemplate = errors.New("the schedule has no template")
)

// build makes the job of a firing, from an item if there is one, in a form that its connector can
// send. It does no I/O: a remote connector's service checks the content later, before it is sent.
func (s *Scheduler) build(
	plan *Plan, due store.DueSchedule, beat recur.Beat, run int64, item *store.ScheduleItem,
) (out store.NewJob, err error) {
	conn := due.Connection
	code, known := s.cfg.Connectors.Get(conn.Connector)
	switch {
	case plan.Template == nil:
		return store.NewJob{}, errNoTemplate
	case conn.ID.IsZero() || !conn.Deleted.IsZero():
		return store.NewJob{}, ErrNoConnection
	case !known:
		return store.NewJob{}, &NoConnectorError{conn.Connector}
	}
	if item != nil {
		out, err = ItemJobOf(due.Schedule.ID, plan.Times, plan.Template, *item, beat)
	} else {
		out, err = JobOf(due.Schedule.ID, plan.Times, plan.Template, beat, run)
	}
	if err == nil {
		err = checkPresence(code, conn.Class, out.Spec)
	}
	if err != nil {
		return out, err
	}
	out.Spec.ID, out.Spec.Connection, out.Class = s.cfg.NewID(), conn.ID, conn.Class
	out.Spec.CoolDown = submit.Duration(plan.Terms.GetCoolDown())
	prepared, err := code.Prepare(connector.Request{
		EffectKey: job.EffectKey(s.cfg.Namespace, due.Schedule.Project, store.FiringKey(due.Schedule.ID, beat.Name), 1),
		Settings:  conn.Settings, PayloadKind: out.Spec.PayloadKind, Payload: out.Spec.Payload, Offline: true,
	})
	if away, ok := errors.AsType[*connector.Refusal](err); ok && away.Kind == job.FailHeld && prepared.HoldKey != "" {
		err = nil
	}
	out.Spec.HoldKey = prepared.HoldKey
	return out, err
}

// firingPlan returns the plan in the form that decisions need.
func (s *Scheduler) firingPlan(plan *Plan, due store.DueSchedule) firing.Plan {
	return firing.Plan{
		Times: plan.Times, Policies: plan.Policies,
		Build: func(beat recur.Beat, run int64) (store.NewJob, error) { return s.build(plan, due, beat, run, nil) },
		BuildItem: func(beat recur.Beat, run int64, item store.ScheduleItem) (store.NewJob, error) {
			out, err := s.build(plan, due, beat, run, &item)
			return out, ofItem(err)
		},
	}
}

// ofItem marks an error with firing.ErrContent if the item causes it, and not its schedule or its
// connection.
func ofItem(err error) error {
	input, ok := errors.AsType[*connector.InputError](err)
	if !ok {
		return err
	}
	switch input.Reason {
	case connector.BadPayload, connector.PayloadMismatch, connector.BadHeader:
		return contentError{err}
	default:
		return err
	}
}

// contentError is an error with firing.ErrContent.
type contentError struct{ error }

func (e contentError) Unwrap() []error { return []error{e.error, firing.ErrContent} }

// checkPresence refuses a job that asks for a look at its content if its connector cannot find it.
func checkPresence(code connector.Connector, class job.Class, spec job.Spec) error {
	if spec.SkipIfPresent == 0 {
		return nil
	}
	var payload fireoncev1.Payload
	if err := proto.Unmarshal(spec.Payload, &payload); err != nil {
		return errDamaged("payload", err)
	}
	return connector.CheckPresence(code, class, &payload)
}
