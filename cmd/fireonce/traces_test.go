package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/proof/memdir"
)

// TestTracesInTheSandbox checks exported traces. A lost answer has a look that is linked to the
// request; a repeat after a lost answer is an attempt of its own; a video has polls. The spans
// have only what docs/traces.md lists, and no text of a job.
func TestTracesInTheSandbox(t *testing.T) {
	long(t)
	var mu sync.Mutex
	var raw bytes.Buffer
	var spans []*otlp.Span
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		req := &coltrace.ExportTraceServiceRequest{}
		if err == nil {
			err = proto.Unmarshal(body, req)
		}
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		raw.Write(body)
		for _, of := range req.GetResourceSpans() {
			for _, in := range of.GetScopeSpans() {
				spans = append(spans, in.GetSpans()...)
			}
		}
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	s, stop := startSandbox(t, memdir.New(t))
	api := dial(t, s.Server())
	jobs := map[string]string{
		"look":   scheduleIn(t, api, s, "x", "no span says this one [lose the answer]"),
		"repeat": scheduleIn(t, api, s, "orders", "no span says this two [lose the answer]"),
		"poll":   scheduleIn(t, api, s, "tiktok", "no span says this three"),
		"person": scheduleIn(t, api, s, "mail", "no span says this four [lose the answer]"),
	}
	h := settled(t, api, len(jobs))
	if got := h.state(jobs["look"]); got != fireoncev1.JobState_JOB_STATE_SUCCEEDED {
		t.Fatalf("%v\n%s", got, h.undone())
	}
	stop()

	byID := make(map[string]*otlp.Span)
	works := make(map[string][]*otlp.Span) // of a job
	for _, one := range spans {
		byID[string(one.GetSpanId())] = one
		if id := valueOf(one, "fireonce.job.id"); id != "" {
			works[id] = append(works[id], one)
		}
		documentedAs(t, one)
	}
	named := func(job, name string) (found []*otlp.Span) {
		for _, one := range works[jobs[job]] {
			if one.GetName() == name {
				found = append(found, one)
			}
		}
		return found
	}
	first := named("look", "job.attempt")[0]
	if call := byID[string(first.GetParentSpanId())]; call.GetName() != "fireonce.v1.JobService/ScheduleJob" {
		t.Errorf("the attempt is below %q", call.GetName())
	}
	looks := named("look", "job.look")
	if len(looks) == 0 {
		t.Fatal("no look at a lost answer")
	}
	if got := valueOf(looks[len(looks)-1], "fireonce.verdict"); got != "PRESENT" {
		t.Errorf("the last look saw %q", got)
	}
	for i, look := range looks {
		if len(look.GetLinks()) == 0 && i < len(looks)-1 {
			continue // it could not begin
		}
		sent := byID[string(look.GetLinks()[0].GetSpanId())]
		if sent.GetName() != "job.send" || !bytes.Equal(sent.GetParentSpanId(), first.GetSpanId()) {
			t.Errorf("a look is linked to %q", sent.GetName())
		}
		if !bytes.Equal(look.GetParentSpanId(), first.GetParentSpanId()) {
			t.Error("a look that begins soon is not below the call")
		}
	}
	attempts := named("repeat", "job.attempt")
	if len(attempts) < 2 || !slices.ContainsFunc(attempts, func(one *otlp.Span) bool { return valueOf(one, "fireonce.attempt.repeat") == "true" }) {
		t.Errorf("no repeat among %d attempts", len(attempts))
	}
	if len(named("poll", "job.poll")) == 0 {
		t.Error("no poll of a video")
	}
	if !slices.ContainsFunc(works[jobs["person"]], func(one *otlp.Span) bool {
		return slices.ContainsFunc(one.GetEvents(), func(e *otlp.Span_Event) bool { return e.GetName() == "job.needs_resolution" })
	}) {
		t.Error("no event of a job that needs a person")
	}
	if strings.Contains(raw.String(), "no span says this") || strings.Contains(raw.String(), "127.0.0.1") {
		t.Error("a span has a text of a job, or a URL")
	}
}

// valueOf returns an attribute of a span as text.
func valueOf(s *otlp.Span, key string) string {
	for _, a := range s.GetAttributes() {
		if v := a.GetValue(); a.GetKey() == key {
			switch v.GetValue().(type) {
			case *common.AnyValue_BoolValue:
				return strconv.FormatBool(v.GetBoolValue())
			default:
				return v.GetStringValue()
			}
		}
	}
	return ""
}

// documentedAs checks that docs/traces.md lists a span, its attributes and its events.
func documentedAs(t *testing.T, s *otlp.Span) {
	t.Helper()
	text, err := os.ReadFile("../../docs/traces.md")
	if err != nil {
		t.Fatal(err)
	}
	name := s.GetName()
	if strings.HasPrefix(name, "fireonce.") && strings.Contains(name, "Service/") {
		name = "fireonce.PACKAGE.SERVICE/METHOD"
	}
	row := regexp.MustCompile("(?m)^\\| `" + regexp.QuoteMeta(name) + "` \\|.*$").FindString(string(text))
	var has []string
	for _, a := range s.GetAttributes() {
		has = append(has, a.GetKey())
	}
	for _, e := range s.GetEvents() {
		has = append(has, e.GetName())
	}
	for _, one := range has {
		if !strings.Contains(row, "`"+one+"`") {
			t.Errorf("%s has %s; docs/traces.md: %q", s.GetName(), one, row)
		}
	}
	if s.GetStatus().GetMessage() != "" {
		t.Errorf("the status of %s says %q", s.GetName(), s.GetStatus().GetMessage())
	}
}
