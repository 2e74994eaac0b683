package tracing

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file: a trace context comes from outside and is not trusted. The library parses
// it by W3C Trace Context. An invalid one is dropped: it never fails a call, and is never
// stored.

const (
	parentHeader, stateHeader = "traceparent", "tracestate"
	// maxState bounds a tracestate to the length that W3C Trace Context demands of every
	// vendor. A longer one is dropped, and the traceparent stays.
	maxState = job.MaxTrace - parentLength - 1
	// parentLength is the length of a traceparent of version 00, the only one that is written.
	parentLength = 55
)

var w3c propagation.TraceContext

type contextKey int

const (
	// keyCarried marks the context of a call that came with a trace context.
	keyCarried contextKey = iota
	// keySpanID holds the id of the next span.
	keySpanID
)

// Extract returns ctx with the trace context of a call: the values of its headers traceparent
// and tracestate. If there is none, or an invalid one, it returns ctx itself.
func Extract(ctx context.Context, parent, state []string) context.Context {
	if len(parent) == 0 {
		return ctx
	}
	sc := parse(parent, state)
	if !sc.IsValid() {
		return ctx
	}
	return context.WithValue(trace.ContextWithRemoteSpanContext(ctx, sc), keyCarried, true)
}

// parse returns an invalid context if the headers have none. Two traceparents are ambiguous, and
// count as none.
func parse(parent, state []string) trace.SpanContext {
	if len(parent) != 1 {
		return trace.SpanContext{}
	}
	carrier := propagation.MapCarrier{parentHeader: strings.Trim(parent[0], " \t"), stateHeader: strings.Join(state, ",")}
	sc := trace.SpanContextFromContext(w3c.Extract(context.Background(), carrier))
	if len(sc.TraceState().String()) > maxState {
		sc = sc.WithTraceState(trace.TraceState{})
	}
	return sc
}

// Submitted returns the trace context of a job that a call submits (job.Spec.Trace): the call's
// span if spans are recorded, and otherwise the context that came with the call. Empty: the call
// is not part of a trace.
func Submitted(ctx context.Context) string {
	sc := trace.SpanContextFromContext(ctx)
	if !sc.IsValid() {
		return ""
	}
	if carried, _ := ctx.Value(keyCarried).(bool); !carried && !sc.IsSampled() {
		return "" // this trace is never exported
	}
	return text(sc)
}

// text encodes a context as jobs carry it, and fromText decodes it.
func text(sc trace.SpanContext) string {
	parent, state := headers(sc)
	if state == "" || len(state) > maxState {
		return parent
	}
	return parent + " " + state
}

func fromText(text string) trace.SpanContext {
	parent, state, _ := strings.Cut(text, " ")
	return parse([]string{parent}, []string{state})
}

// headers returns the header values that make a request part of the context's trace.
func headers(sc trace.SpanContext) (parent, state string) {
	flags := sc.TraceFlags() & (trace.FlagsSampled | trace.FlagsRandom)
	return "00-" + sc.TraceID().String() + "-" + sc.SpanID().String() + "-" + flags.String(), sc.TraceState().String()
}

// Carrying returns a context whose log lines belong to the trace that a job was submitted in.
func Carrying(ctx context.Context, submitted string) context.Context {
	if submitted == "" || trace.SpanContextFromContext(ctx).IsValid() {
		return ctx
	}
	return trace.ContextWithSpanContext(ctx, fromText(submitted))
}

// newSpanID returns a random id.
func newSpanID() (id trace.SpanID) {
	for !id.IsValid() {
		binary.NativeEndian.PutUint64(id[:], rand.Uint64()) //nolint:gosec // it names a span and protects no secret
	}
	return id
}
