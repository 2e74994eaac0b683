package tracing

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/otelconnect"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"
)

// Tracer records spans. A nil *Tracer records none. All methods may be called concurrently.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	calls    *otelconnect.Interceptor
}

// Config describes this process to a Tracer.
type Config struct {
	// Version is the program's version, Instance the name of this process in attempts and
	// events.
	Version, Instance string
	// Log gets a line about failing exports, at most once a minute.
	Log *slog.Logger
}

// logEvery is the least time between two log lines about exports that failed.
const logEvery = time.Minute

// FromEnv returns the Tracer that OpenTelemetry's standard variables configure, or nil if they
// configure none. An endpoint (OTEL_EXPORTER_OTLP_ENDPOINT, or …_TRACES_ENDPOINT) or
// OTEL_TRACES_EXPORTER=otlp turns it on; OTEL_SDK_DISABLED=true or OTEL_TRACES_EXPORTER=none
// turns it off. It fails for a value that this program does not support. It sends nothing yet.
func FromEnv(ctx context.Context, c Config) (*Tracer, error) {
	on, err := asked(os.Getenv)
	if !on || err != nil {
		return nil, err
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	told := &rate.Sometimes{Interval: logEvery}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		told.Do(func() {
			c.Log.Warn("spans may be lost: OpenTelemetry reports a failure; see the variables OTEL_…", "err", err)
		})
	}))
	return newTracer(ctx, c, exporter)
}

// asked reports whether the environment turns spans on.
func asked(getenv func(string) string) (bool, error) {
	const exporterVariable = "OTEL_TRACES_EXPORTER"
	endpoint := getenv("OTEL_EXPORTER_OTLP_ENDPOINT") + getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	switch exporter := strings.TrimSpace(getenv(exporterVariable)); {
	case strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true"), exporter == "none", exporter == "" && endpoint == "":
		return false, nil
	case exporter != "" && exporter != "otlp":
		return false, fmt.Errorf("%s is %q; set it to \"otlp\", the only exporter of this program, or to \"none\"", exporterVariable, exporter)
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		protocol := getenv(name)
		if protocol == "" {
			continue
		}
		if protocol != "http/protobuf" {
			return false, fmt.Errorf("%s is %q; this program supports only \"http/protobuf\": use your collector's port for it, usually 4318", name, protocol)
		}
		break
	}
	return true, nil
}

// newTracer returns a tracer with an exporter. The environment sets the sampler and the bounds
// of the queue in front of the exporter.
func newTracer(ctx context.Context, c Config, exporter sdk.SpanExporter) (*Tracer, error) {
	res, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		semconv.ServiceName("fireonce"), semconv.ServiceVersion(c.Version), semconv.ServiceInstanceID(c.Instance),
	), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) && !errors.Is(err, resource.ErrSchemaURLConflict) {
		return nil, fmt.Errorf("traces: %w", err)
	}
	provider := sdk.NewTracerProvider(sdk.WithBatcher(wordless{exporter}), sdk.WithResource(res), sdk.WithIDGenerator(ids{}))
	t := &Tracer{provider: provider, tracer: provider.Tracer("github.com/fireonce/fireonce", trace.WithInstrumentationVersion(c.Version))}
	// A caller's trace is continued: see docs/traces.md. Extract has put it in the context.
	t.calls, err = otelconnect.NewInterceptor(otelconnect.WithTracerProvider(provider), otelconnect.WithPropagator(w3c),
		otelconnect.WithTrustRemote(), otelconnect.WithoutMetrics())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("traces: %w", err), provider.Shutdown(ctx))
	}
	return t, nil
}

// Close exports the recorded spans, until ctx ends, and closes the tracer.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("export the last spans: %w", err)
	}
	return nil
}

// Interceptors returns interceptors that record a span for each call of a Connect handler, in
// every protocol.
func (t *Tracer) Interceptors() []connect.Interceptor {
	if t == nil {
		return nil
	}
	return []connect.Interceptor{t.calls}
}

// Call records a span for one call, as Interceptors do, on a listener other than Connect's. The
// caller calls end with the call's error.
func (t *Tracer) Call(ctx context.Context, procedure string) (_ context.Context, end func(error)) {
	if t == nil {
		return ctx, func(error) {}
	}
	name := strings.TrimLeft(procedure, "/")
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(semconv.RPCSystemNameGRPC, semconv.RPCMethod(name)))
	return ctx, func(err error) {
		if err == nil {
			span.SetAttributes(semconv.RPCResponseStatusCode("OK"))
		} else {
			code := connect.CodeOf(err)
			name := strings.ToUpper(code.String())
			span.SetAttributes(semconv.RPCResponseStatusCode(name), semconv.ErrorTypeKey.String(name))
			if slices.Contains(serverFaults, code) {
				span.SetStatus(codes.Error, "")
			}
		}
		span.End()
	}
}

// serverFaults are the codes that OpenTelemetry counts as a server's errors.
var serverFaults = []connect.Code{
	connect.CodeUnknown, connect.CodeDeadlineExceeded, connect.CodeUnimplemented, connect.CodeInternal,
	connect.CodeUnavailable, connect.CodeDataLoss,
}

// ids generates the ids of spans. The span of a request is an exception: its id is chosen before
// the span begins, because the intent contains it and is durable before the request is sent.
type ids struct{}

// NewIDs implements sdk.IDGenerator.
func (ids) NewIDs(context.Context) (trace.TraceID, trace.SpanID) {
	var id trace.TraceID
	for !id.IsValid() {
		binary.NativeEndian.PutUint64(id[:8], rand.Uint64()) //nolint:gosec // it names a trace and protects no secret
		binary.NativeEndian.PutUint64(id[8:], rand.Uint64()) //nolint:gosec // the same
	}
	return id, newSpanID()
}

// NewSpanID implements sdk.IDGenerator.
func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if id, ok := ctx.Value(keySpanID).(trace.SpanID); ok {
		return id
	}
	return newSpanID()
}

// wordless exports spans without the texts that libraries add, which may quote a request: the
// description of a status, and panics.
type wordless struct{ sdk.SpanExporter }

// ExportSpans implements sdk.SpanExporter.
func (w wordless) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	out := make([]sdk.ReadOnlySpan, len(spans))
	for i, s := range spans {
		out[i] = wordlessSpan{s}
	}
	return w.SpanExporter.ExportSpans(ctx, out)
}

type wordlessSpan struct{ sdk.ReadOnlySpan }

// Status implements sdk.ReadOnlySpan.
func (s wordlessSpan) Status() sdk.Status { return sdk.Status{Code: s.ReadOnlySpan.Status().Code} }

// Events implements sdk.ReadOnlySpan.
func (s wordlessSpan) Events() []sdk.Event {
	return slices.DeleteFunc(slices.Clone(s.ReadOnlySpan.Events()), func(e sdk.Event) bool { return e.Name == semconv.ExceptionEventName })
}
