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

// Rules of this file: a trace context is somebody else's text. It is read by the library, as
// W3C Trace Context has it, and what is bad is dropped: it never fails a call, and is never
// stored.

const (
	parentHeader, stateHeader = "traceparent", "tracestate"
	// maxState bounds a tracestate: what W3C Trace Context asks everybody to pass on. A
	// longer one is dropped, and the traceparent stays.
	maxState = job.MaxTrace - parentLength - 1
	// parentLength is that of every traceparent of version 00, which is what is written.
	parentLength = 55
)

var w3c propagation.TraceContext

type contextKey int

const (
	// keyCarried marks the context of a call that came with a trace context.
	keyCarried contextKey = iota
	// keySpanID is the id that the next span gets.
	keySpanID
)

// Extract returns ctx with the trace context that a call's headers have: the values of its
// headers traceparent and tracestate. Where there is none, or a bad one, that is ctx itself.
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

// parse returns an invalid context for headers that have none. Two traceparents are none:
// nobody knows which one is meant.
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

// Submitted returns what a job that is submitted by a call carries (job.Spec.Trace): the
// span of the call, where spans are recorded, and otherwise what the call came with. Empty:
// the call is part of no trace.
func Submitted(ctx context.Context) string {
	sc := trace.SpanContextFromContext(ctx)
	if !sc.IsValid() {
		return ""
	}
	if carried, _ := ctx.Value(keyCarried).(bool); !carried && !sc.IsSampled() {
		return "" // nobody ever sees this trace
	}
	return text(sc)
}

// text writes a context as jobs carry it, and fromText reads it.
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

// headers are what a request carries to be part of the context's trace.
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

// newSpanID draws an id.
func newSpanID() (id trace.SpanID) {
	for !id.IsValid() {
		binary.NativeEndian.PutUint64(id[:], rand.Uint64()) //nolint:gosec // it names a span, and guards no secret
	}
	return id
}
