package server

import (
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// This file converts what happened to a job: attempts, looks, events.

func attemptToWire(a job.Attempt) *fireoncev1.Attempt {
	if a.ArmedAt.Equal(store.AgeUnknown) {
		a.ArmedAt = time.Time{}
	}
	traceID, spanID := a.Span.Names()
	return &fireoncev1.Attempt{
		Number: int32(a.Number), Worker: a.Worker,
		IntentTime: timeToWire(a.ArmedAt), AnswerDeadline: timeToWire(a.AnswerDeadline),
		RequestWritten: requestWritten(a), EndTime: timeToWire(a.EndedAt),
		Outcome: fireoncev1.AttemptOutcome(a.Result), FailureKind: failureToWire(a.Kind),
		Detail: text(a.Message), HttpStatus: int32(a.HTTPStatus), Handle: text(a.Handle), EffectKey: a.EffectKey,
		TraceId: traceID, SpanId: spanID,
	}
}

// answeredAttemptToWire is attemptToWire with what is kept of the target's answer: content,
// as a payload is (auth_content.go). It is the one way to it, for calls that show payloads.
func answeredAttemptToWire(a job.Attempt) *fireoncev1.Attempt {
	out := attemptToWire(a)
	if a.Answer == nil {
		return out
	}
	out.Answer = &fireoncev1.Answer{
		HttpStatus: int32(a.Answer.Status), Body: text(a.Answer.Body), BodyCut: a.Answer.Cut,
		BodyOmission: fireoncev1.BodyOmission(a.Answer.Omission),
	}
	for _, h := range a.Answer.Headers {
		out.Answer.Headers = append(out.Answer.Headers, &fireoncev1.AnswerHeader{Name: text(h.Name), Value: text(h.Value)})
	}
	return out
}

// requestWritten reports whether a byte may have been sent: an outcome that only an answer can
// have proves it, too.
func requestWritten(a job.Attempt) bool {
	return a.BytesWritten > 0 || a.HTTPStatus != 0 || a.Result == job.ResultSucceeded || a.Result == job.ResultAccepted
}

func observationToWire(o job.Observation) *fireoncev1.Observation {
	return &fireoncev1.Observation{
		Number: int32(o.Number), Attempt: int32(o.Attempt), Time: timeToWire(o.BegunAt), Verdict: fireoncev1.Observation_Verdict(o.Verdict),
		Detail:     text(o.Detail),
		ExternalId: text(o.ExternalID), ExternalUrl: text(o.ExternalURL),
	}
}

// changeToWire converts an event, less what it does not have itself: keys, labels, the attempt
// and the job as read now.
func changeToWire(e job.Event) *fireoncev1.JobChanged {
	return &fireoncev1.JobChanged{
		JobId: idToWire(e.Job), ConnectionId: idToWire(e.Connection), ScheduleId: idToWire(e.Schedule),
		Sequence: e.Sequence, OldState: stateToWire(e.From), NewState: stateToWire(e.To),
		Phase: phaseToWire(e.To), Ended: e.To.Terminal() && e.To != e.From,
		Cause: causeToWire(e.Cause), Actor: e.Actor, Reason: e.Reason, Detail: text(e.Detail),
	}
}

// eventsFromWire makes a stream's query, less its position and what it names by key.
func eventsFromWire(project string, f *fireoncev1.EventFilter) (store.EventQuery, error) {
	q := store.EventQuery{Project: project, Labels: f.GetLabels(), Ended: f.GetEndedOnly()}
	var err error
	if q.Jobs, err = idsFromWire("filter.job_ids", f.GetJobIds()); err != nil {
		return q, err
	}
	if q.Connections, err = idsFromWire("filter.connection_ids", f.GetConnectionIds()); err != nil {
		return q, err
	}
	q.Schedule, err = idFromWire("filter.schedule_id", f.GetScheduleId())
	return q, err
}
