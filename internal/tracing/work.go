package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file:
//   - a span has ids, numbers, and values that the program bounds. It never has a payload, a
//     URL, a key, or a text of a target or a person;
//   - methods of a nil *Work and a nil *Step do nothing, so that the engine needs no check, and
//     a job without a trace costs nothing.

// Continues is how long after its submission a job's work is a part of the caller's trace. Later
// work is a trace of its own, with a link: the caller's trace has long been sampled and shown by
// then.
const Continues = 5 * time.Minute

// Span names.
const (
	Attempt = "job.attempt"
	Look    = "job.look"
	Poll    = "job.poll"
	Decide  = "job.decide"

	Claim   = "job.claim"
	Prepare = "job.prepare"
	Arm     = "job.intent"
	Send    = "job.send"
	Settle  = "job.settle"
)

// Event names.
const (
	givenBack       = "job.given_back"
	needsResolution = "job.needs_resolution"
	duplicateSeen   = "job.duplicate_seen"
)

// Attribute keys.
const (
	keyProject    = attribute.Key("fireonce.project")
	keyJob        = attribute.Key("fireonce.job.id")
	keyConnection = attribute.Key("fireonce.connection.id")
	keyConnector  = attribute.Key("fireonce.connector")
	keyClass      = attribute.Key("fireonce.effect.class")
	keySchedule   = attribute.Key("fireonce.schedule.id")
	keyAttempt    = attribute.Key("fireonce.attempt.number")
	keyRepeat     = attribute.Key("fireonce.attempt.repeat")
	keyOutcome    = attribute.Key("fireonce.outcome")
	keyVerdict    = attribute.Key("fireonce.verdict")
	keyState      = attribute.Key("fireonce.job.state")
	keyArmed      = attribute.Key("fireonce.claim.intent")
)

// Work is one piece of a server's work on a job: an attempt, a look or a poll. Only one goroutine
// at a time may use it.
type Work struct {
	t    *Tracer // nil: no spans
	ctx  context.Context
	span trace.Span // nil: no spans
	// target is the trace context of the request to the target; invalid: the request carries none.
	target trace.SpanContext
}

// Begin starts the work on a leased job at a time. kind is the span's name. It returns nil if
// nothing is to be recorded or carried.
func (t *Tracer) Begin(kind string, l *store.Leased, begun time.Time) *Work {
	if t == nil && l.Trace == "" {
		return nil
	}
	var submitted trace.SpanContext
	if l.Trace != "" {
		submitted = fromText(l.Trace)
	}
	if t == nil {
		if !submitted.IsValid() {
			return nil
		}
		target := submitted.WithSpanID(newSpanID())
		return &Work{ctx: trace.ContextWithSpanContext(context.Background(), target), target: target}
	}
	ctx := context.Background()
	options := append(make([]trace.SpanStartOption, 0, 5), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithTimestamp(begun),
		trace.WithAttributes(
			keyProject.String(l.Project), keyJob.String(l.ID.String()), keyConnection.String(l.Connection.ID.String()),
			keyConnector.String(l.Connection.Connector), keyClass.String(l.Class.String()),
		))
	if !l.Schedule.IsZero() {
		options = append(options, trace.WithAttributes(keySchedule.String(l.Schedule.String())))
	}
	switch {
	case !submitted.IsValid():
	case l.Now.Sub(l.Created) < Continues:
		ctx = trace.ContextWithRemoteSpanContext(ctx, submitted)
	default:
		options = append(options, trace.WithLinks(trace.Link{SpanContext: submitted}))
	}
	w := &Work{t: t}
	w.ctx, w.span = t.tracer.Start(ctx, kind, options...)
	if sc := w.span.SpanContext(); sc.IsSampled() || submitted.IsValid() {
		w.target = sc.WithSpanID(newSpanID())
	}
	return w
}

// Context returns a context with the work's span, for log lines.
func (w *Work) Context() context.Context {
	if w == nil {
		return context.Background()
	}
	return w.ctx
}

// SentAs returns the span of the request to the target, which the intent stores; zero: none.
func (w *Work) SentAs() job.Span {
	if w == nil || !w.target.IsValid() {
		return job.Span{}
	}
	return job.Span{TraceID: w.target.TraceID(), SpanID: w.target.SpanID()}
}

// Headers returns the trace headers of the request to the target; empty: it has none.
func (w *Work) Headers() (parent, state string) {
	if w == nil || !w.target.IsValid() {
		return "", ""
	}
	return headers(w.target)
}

// Claimed adds the span of the transaction that leased the job. armed: it also wrote the intent.
func (w *Work) Claimed(from, to time.Time, armed bool) {
	if w == nil || w.t == nil {
		return
	}
	_, span := w.t.tracer.Start(w.ctx, Claim, trace.WithTimestamp(from), trace.WithAttributes(keyArmed.Bool(armed)))
	span.End(trace.WithTimestamp(to))
}

// Armed records the attempt of the intent. repeat: it repeats an unknown attempt.
func (w *Work) Armed(number int, class job.Class, repeat bool) {
	if w == nil || w.span == nil {
		return
	}
	w.span.SetAttributes(keyAttempt.Int(number), keyClass.String(class.String()), keyRepeat.Bool(repeat))
}

// About links the work to the requests of the attempts whose effect it looks for.
func (w *Work) About(attempts ...job.Attempt) {
	if w == nil || w.span == nil {
		return
	}
	for _, a := range attempts {
		if a.Span.IsZero() {
			continue
		}
		w.span.AddLink(trace.Link{
			SpanContext: trace.NewSpanContext(trace.SpanContextConfig{TraceID: a.Span.TraceID, SpanID: a.Span.SpanID, Remote: true}),
			Attributes:  []attribute.KeyValue{keyAttempt.Int(a.Number)},
		})
	}
}

// GivenBack records that the job was released without an intent, and the kind of the reason.
func (w *Work) GivenBack(kind job.FailureKind) {
	if w == nil || w.span == nil {
		return
	}
	w.span.AddEvent(givenBack, trace.WithAttributes(semconv.ErrorTypeKey.String(kind.String())))
}

// NeedsResolution records that a person has to decide about the job.
func (w *Work) NeedsResolution() { w.event(needsResolution) }

// DuplicateSeen records that a second effect of the job was seen.
func (w *Work) DuplicateSeen() { w.event(duplicateSeen) }

func (w *Work) event(name string) {
	if w != nil && w.span != nil {
		w.span.AddEvent(name)
	}
}

// Saw records the result of a look or a poll.
func (w *Work) Saw(ev job.Evidence) {
	if w == nil || w.span == nil {
		return
	}
	saw(w.span, ev)
}

func saw(span trace.Span, ev job.Evidence) {
	switch v := ev.(type) {
	case job.Looked:
		span.SetAttributes(keyVerdict.String(v.Verdict.String()))
	case job.Outcome:
		outcome(span, v)
	case job.Deferred:
		failed(span, v.Kind)
	}
}

// outcome records the outcome of a request.
func outcome(span trace.Span, o job.Outcome) {
	span.SetAttributes(keyOutcome.String(o.Result.String()))
	if o.HTTPStatus != 0 {
		span.SetAttributes(semconv.HTTPResponseStatusCode(o.HTTPStatus))
	}
	if o.Result != job.ResultSucceeded && o.Result != job.ResultAccepted {
		failed(span, o.Kind)
	}
}

func failed(span trace.Span, kind job.FailureKind) {
	span.SetStatus(codes.Error, "")
	if kind != 0 {
		span.SetAttributes(semconv.ErrorTypeKey.String(kind.String()))
	}
}

// End ends the work.
func (w *Work) End() {
	if w != nil && w.span != nil {
		w.span.End()
	}
}

// Step is one step of a Work.
type Step struct{ span trace.Span }

// Step starts a step. name is the span's name.
func (w *Work) Step(name string) *Step {
	if w == nil || w.t == nil {
		return nil
	}
	ctx, kind := w.ctx, trace.SpanKindInternal
	if name == Send {
		ctx, kind = context.WithValue(ctx, keySpanID, w.target.SpanID()), trace.SpanKindClient
		if !w.target.IsValid() {
			ctx = w.ctx // it is not recorded
		}
	}
	_, span := w.t.tracer.Start(ctx, name, trace.WithSpanKind(kind))
	return &Step{span}
}

// End ends a step. A kind other than 0 is the reason for its failure.
func (s *Step) End(kind job.FailureKind) {
	if s == nil {
		return
	}
	if kind != 0 {
		failed(s.span, kind)
	}
	s.span.End()
}

// Failed ends a step that failed because of the store.
func (s *Step) Failed() {
	if s == nil {
		return
	}
	failed(s.span, 0)
	s.span.End()
}

// Sent ends the step of a request. number is its attempt's.
func (s *Step) Sent(number int, o job.Outcome) {
	if s == nil {
		return
	}
	s.span.SetAttributes(keyAttempt.Int(number))
	outcome(s.span, o)
	s.span.End()
}

// Saw ends the step of a look.
func (s *Step) Saw(ev job.Evidence) {
	if s == nil {
		return
	}
	saw(s.span, ev)
	s.span.End()
}

// Settled ends the step that stored a decision. state is the job's state after it.
func (s *Step) Settled(state job.State) {
	if s == nil {
		return
	}
	s.span.SetAttributes(keyState.String(state.String()))
	s.span.End()
}
