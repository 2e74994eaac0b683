package tracing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// recording returns a tracer, and a function that returns its ended spans.
func recording(t *testing.T) (tr *Tracer, ended func() tracetest.SpanStubs) {
	t.Helper()
	exporter := tracetest.NewInMemoryExporter()
	tr, err := newTracer(t.Context(), Config{Version: "test", Instance: "w1", Log: slog.New(slog.DiscardHandler)}, exporter)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tr.Close(context.Background()) })
	return tr, func() tracetest.SpanStubs {
		if err := tr.provider.ForceFlush(context.Background()); err != nil {
			t.Fatal(err)
		}
		return exporter.GetSpans()
	}
}

// leased returns a job that was submitted in a trace some time ago.
func leased(submitted string, ago time.Duration) *store.Leased {
	l := &store.Leased{}
	l.ID, l.Schedule, l.Trace, l.Class = job.ID{1}, job.ID{2}, submitted, job.Keyed
	l.Now = time.Date(2026, 11, 24, 8, 0, 0, 0, time.UTC)
	l.Created = l.Now.Add(-ago)
	return l
}

// TestSpansAsDocumented compares docs/traces.md with everything that can be exported, in both
// directions.
func TestSpansAsDocumented(t *testing.T) {
	tr, ended := recording(t)
	for _, kind := range []string{Attempt, Look, Poll, Decide} {
		w := tr.Begin(kind, leased(parent, 0), time.Now())
		w.NeedsResolution()
		if kind == Decide {
			w.End()
			continue
		}
		w.DuplicateSeen()
		w.Saw(job.Deferred{Kind: job.FailAuth})
		switch kind {
		case Look:
			w.Saw(job.Looked{Observation: job.Observation{Verdict: job.SawPresent}})
		case Attempt:
			everyStep(w)
			fallthrough
		default:
			w.Saw(job.Outcome{Result: job.ResultUnknown, Kind: job.FailAmbiguous, HTTPStatus: 502})
		}
		w.End()
	}
	_, end := tr.Call(t.Context(), "/fireonce.v1.JobService/GetJob")
	end(connect.NewError(connect.CodeInternal, errors.New("a text that a user wrote")))

	emitted := make(map[string]string)
	for _, s := range ended() {
		var attributes, events []string
		for _, a := range s.Attributes {
			attributes = append(attributes, string(a.Key))
		}
		for _, e := range s.Events {
			events = append(events, e.Name)
		}
		if s.Status.Description != "" {
			t.Errorf("%s: the status says %q", s.Name, s.Status.Description)
		}
		name := strings.Replace(s.Name, "v1.JobService/GetJob", "PACKAGE.SERVICE/METHOD", 1)
		emitted[name] = row(s.SpanKind.String(), attributes, events)
	}
	documented := documentedSpans(t)
	if !maps.Equal(documented, emitted) {
		for _, name := range slices.Sorted(maps.Keys(emitted)) {
			if documented[name] != emitted[name] {
				t.Errorf("%s\n exported: %s\n docs/traces.md: %s", name, emitted[name], documented[name])
			}
		}
		t.Errorf("exported: %v; docs/traces.md: %v", slices.Sorted(maps.Keys(emitted)), slices.Sorted(maps.Keys(documented)))
	}
}

func everyStep(w *Work) {
	w.Claimed(time.Now(), time.Now(), false)
	w.Step(Prepare).End(job.FailTransient)
	w.Step(Arm).End(0)
	w.Armed(1, job.Keyed, true)
	w.Step(Send).Sent(1, job.Outcome{Result: job.ResultUnknown, Kind: job.FailAmbiguous, HTTPStatus: 502})
	w.Step(Settle).Settled(job.Ambiguous)
	w.GivenBack(job.FailHeld)
}

func row(kind string, attributes, events []string) string {
	slices.Sort(attributes)
	slices.Sort(events)
	return fmt.Sprint(kind, slices.Compact(attributes), slices.Compact(events))
}

var (
	spanRow = regexp.MustCompile("(?m)^\\| `((?:job|fireonce)\\.[\\w./]+)` \\| (\\w+) \\|([^|]*)\\|([^|]*)\\|$")
	quoted  = regexp.MustCompile("`([^`]+)`")
)

func documentedSpans(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/traces.md")
	if err != nil {
		t.Fatal(err)
	}
	names := func(cell string) (out []string) {
		for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
			out = append(out, m[1])
		}
		return out
	}
	out := make(map[string]string)
	for _, m := range spanRow.FindAllStringSubmatch(string(text), -1) {
		out[m[1]] = row(m[2], names(m[3]), names(m[4]))
	}
	return out
}

// TestContinuesOrLinks checks that work that begins soon is part of the submission's trace, that
// later work is a trace of its own with a link, and that the request carries the work's trace.
func TestContinuesOrLinks(t *testing.T) {
	for ago, continues := range map[time.Duration]bool{0: true, Continues - 1: true, Continues: false, 7 * 24 * time.Hour: false} {
		tr, ended := recording(t)
		w := tr.Begin(Attempt, leased(parent+" vendor=1", ago), time.Now())
		w.Step(Send).Sent(1, job.Outcome{})
		w.End()
		send, work := ended()[0], ended()[1]
		if got := work.SpanContext.TraceID().String() == parent[3:35] && work.Parent.SpanID().String() == parent[36:52]; got != continues {
			t.Errorf("after %v: part of the submission's trace: %v", ago, got)
		}
		if got := len(work.Links) == 1 && work.Links[0].SpanContext.SpanID().String() == parent[36:52]; got == continues {
			t.Errorf("after %v: linked: %v", ago, got)
		}
		header, state := w.Headers()
		if want := "00-" + work.SpanContext.TraceID().String() + "-" + send.SpanContext.SpanID().String() + "-01"; header != want || (state == "vendor=1") != continues {
			t.Errorf("after %v: the request carries %q and %q; its span is %s", ago, header, state, want)
		}
		if id := w.SentAs(); trace.SpanID(id.SpanID) != send.SpanContext.SpanID() || trace.TraceID(id.TraceID) != send.SpanContext.TraceID() {
			t.Errorf("after %v: the attempt has %v", ago, id)
		}
	}
}

// TestNotSampled checks that a trace that is not recorded is neither stored nor carried, unless it
// is the caller's.
func TestNotSampled(t *testing.T) {
	t.Setenv("OTEL_TRACES_SAMPLER", "always_off")
	tr, ended := recording(t)
	for submitted, carried := range map[string]bool{"": false, parent: true} {
		w := tr.Begin(Attempt, leased(submitted, 0), time.Now())
		header, _ := w.Headers()
		if (header != "") != carried || !w.SentAs().IsZero() != carried || carried && !strings.HasSuffix(header, "-00") {
			t.Errorf("submitted in %q: the request carries %q", submitted, header)
		}
		w.End()
	}
	ctx, end := tr.Call(t.Context(), "/x/Y")
	if got := Submitted(ctx); got != "" {
		t.Errorf("a call that is not recorded submits in %q", got)
	}
	end(nil)
	if n := len(ended()); n != 0 {
		t.Errorf("%d spans", n)
	}
}

// TestOff checks that without a tracer, a job without a trace has no Work, and a job with a trace
// passes it on.
func TestOff(t *testing.T) {
	var tr *Tracer
	if w := tr.Begin(Attempt, leased("", 0), time.Time{}); w != nil {
		t.Errorf("%v", w)
	}
	everyStep(nil)
	w := tr.Begin(Attempt, leased(parent, 365*24*time.Hour), time.Time{})
	everyStep(w)
	header, _ := w.Headers()
	if !strings.HasPrefix(header, parent[:36]) || header[36:52] == parent[36:52] || !strings.HasSuffix(header, "-01") {
		t.Errorf("the request carries %q", header)
	}
	if tr.Begin(Attempt, leased("damaged", 0), time.Time{}) != nil {
		t.Error("an invalid trace was accepted")
	}
}

func TestExtract(t *testing.T) {
	state := "a=" + strings.Repeat("x", 250) + ",b=" + strings.Repeat("x", 250)
	for name, tt := range map[string]struct {
		parent, state []string
		want          string
	}{
		"none":              {nil, []string{"a=b"}, ""},
		"plain":             {[]string{parent}, nil, parent},
		"two states":        {[]string{parent}, []string{"a=b", "c=d"}, parent + " a=b,c=d"},
		"a later version":   {[]string{"01" + parent[2:] + "-more"}, nil, parent},
		"two":               {[]string{parent, parent}, nil, ""},
		"no trace":          {[]string{"00-" + strings.Repeat("0", 32) + parent[35:]}, nil, ""},
		"no span":           {[]string{parent[:36] + strings.Repeat("0", 16) + "-01"}, nil, ""},
		"capitals":          {[]string{strings.ToUpper(parent)}, nil, ""},
		"version ff":        {[]string{"ff" + parent[2:]}, nil, ""},
		"more in version 0": {[]string{parent + "-more"}, nil, ""},
		"a long state":      {[]string{parent}, []string{state}, parent + " " + state},
		"too long a state":  {[]string{parent}, []string{state + ",c=" + strings.Repeat("x", 100)}, parent},
		"a bad state":       {[]string{parent}, []string{"no state"}, parent},
	} {
		ctx := Extract(t.Context(), tt.parent, tt.state)
		if got := Submitted(ctx); got != tt.want || len(got) > job.MaxTrace {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
		if (ctx == t.Context()) != (tt.want == "") {
			t.Errorf("%s: the context is another one", name)
		}
	}
}

func TestAsked(t *testing.T) {
	for _, tt := range []struct {
		env  map[string]string
		on   bool
		says string
	}{
		{nil, false, ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, true, ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x"}, true, ""},
		{map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, true, ""},
		{map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, false, ""},
		{map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, false, ""},
		{map[string]string{"OTEL_TRACES_EXPORTER": "console"}, false, "OTEL_TRACES_EXPORTER"},
		{map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, false, "4318"},
		{map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}, true, ""},
	} {
		on, err := asked(func(name string) string { return tt.env[name] })
		if on != tt.on || (err != nil) != (tt.says != "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%v: %v, %v", tt.env, on, err)
		}
	}
}

func TestLogHandler(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(LogHandler(slog.NewTextHandler(&out, nil))).With("a", 1)
	log.InfoContext(t.Context(), "none")
	log.InfoContext(Carrying(t.Context(), parent), "one")
	lines := strings.Split(out.String(), "\n")
	if strings.Contains(lines[0], "trace_id") || !strings.HasSuffix(lines[1], "a=1 trace_id="+parent[3:35]+" span_id="+parent[36:52]) {
		t.Errorf("%s", out.String())
	}
}

// TestWordless checks that texts that a library adds are not exported.
func TestWordless(t *testing.T) {
	tr, ended := recording(t)
	func() {
		defer func() { _ = recover() }()
		_, span := tr.tracer.Start(t.Context(), "panics")
		defer span.End()
		panic("a text that a user wrote")
	}()
	for _, s := range ended() {
		if len(s.Events) > 0 || s.Status.Description != "" {
			t.Errorf("%s: %v %v", s.Name, s.Events, s.Status)
		}
	}
	if len(ended()) != 1 {
		t.Errorf("%d spans", len(ended()))
	}
}
