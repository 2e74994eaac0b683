package server_test

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/internal/wirelimit"
)

// hookOf is a webhook whose body is typed as JSON.
func hookOf(t *testing.T, text string) *fireoncev1.Payload {
	t.Helper()
	body := &structpb.Value{}
	if err := protojson.Unmarshal([]byte(text), body); err != nil {
		t.Fatal(err)
	}
	return hookWith(body)
}

func hookWith(body *structpb.Value) *fireoncev1.Payload {
	return &fireoncev1.Payload{Kind: &fireoncev1.Payload_Webhook{Webhook: &fireoncev1.Webhook{
		Url: "https://example.org/hook", Content: &fireoncev1.Webhook_BodyJson{BodyJson: body},
	}}}
}

func hookOfText(text string) *fireoncev1.Payload {
	p := hookWith(nil)
	p.GetWebhook().Content = &fireoncev1.Webhook_BodyText{BodyText: text}
	return p
}

func paying(p *fireoncev1.Payload) func(*scheduleRequest) {
	return func(r *scheduleRequest) { r.Payload = p }
}

// TestBodyInJSON checks in every protocol that a body in JSON is stored and answered as text, and that
// only what it says makes another request.
func TestBodyInJSON(t *testing.T) {
	const canonical = `{"items":[{"id":"a","n":2.5}],"order":43}`
	overEach(t, func(t *testing.T, f *fixture, c client) {
		send := func(key string, p *fireoncev1.Payload, edit ...func(*scheduleRequest)) (*fireoncev1.ScheduleJobResponse, error) {
			return ask[fireoncev1.ScheduleJobResponse](t, c, scheduleJob, f.request(key, append(edit, paying(p))...))
		}
		only := func(r *scheduleRequest) { r.ValidateOnly = true }
		shown, err := send("k", hookOf(t, ` { "order": 43.0, "items": [{"n": 25e-1, "id": "a"}] } `), only)
		f.must(err)
		if got := shown.GetJob().GetPayload().GetWebhook().GetBodyText(); got != canonical {
			t.Errorf("validate_only shows %q", got)
		}
		first, err := send("k", hookOf(t, ` { "order": 43.0, "items": [{"n": 25e-1, "id": "a"}] } `))
		f.must(err)
		id := first.GetJob().GetJobId()
		if got := first.GetJob().GetPayload().GetWebhook().GetBodyText(); !first.GetCreated() || got != canonical {
			t.Errorf("the answer is %v", first)
		}
		if got := f.read(c, id).GetPayload().GetWebhook().GetBodyText(); got != canonical {
			t.Errorf("GetJob answers %q", got)
		}
		for name, p := range map[string]*fireoncev1.Payload{
			"the same": hookOf(t, canonical), "another order": hookOf(t, `{"items":[{"id":"a","n":2.5}],"order":43}`), "as text": hookOfText(canonical),
		} {
			for _, edit := range []func(*scheduleRequest){func(*scheduleRequest) {}, only} {
				res, err := send("k", p, edit)
				if err != nil || res.GetCreated() || res.GetJob().GetJobId() != id {
					t.Errorf("%s: %v, %v", name, res, err)
				}
			}
		}
		for name, p := range map[string]*fireoncev1.Payload{
			"another value": hookOf(t, `{"order": 44, "items": [{"id": "a", "n": 2.5}]}`), "null": hookOf(t, `null`), "other text": hookOfText(canonical + " "),
		} {
			_, err := send("k", p)
			e := wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED)
			if got := e.detail.GetIdempotencyConflict().GetMismatchedFields(); len(got) != 1 || got[0] != "payload" {
				t.Errorf("%s differs in %q", name, got)
			}
		}
		derive := func(r *scheduleRequest) {
			r.IdempotencyKey, r.DeriveKey, r.ScheduleTime = "", true, timestamppb.New(f.clock.Now().Add(time.Hour))
		}
		a, err := send("", hookOf(t, `{"b": 1, "a": 2}`), derive)
		f.must(err)
		if b, err := send("", hookOf(t, `{"a": 2, "b": 1}`), derive); err != nil || b.GetCreated() || b.GetJob().GetJobId() != a.GetJob().GetJobId() {
			t.Errorf("a derived key: %v, %v", b, err)
		}

		j, err := f.update(c, f.read(c, id), newPayload(hookOf(t, `{"b": [], "a": {}}`)))
		if err != nil || f.read(c, j.GetJobId()).GetPayload().GetWebhook().GetBodyText() != `{"a":{},"b":[]}` {
			t.Errorf("an update: %v, %v", j, err)
		}
	})
}

// TestBodyInJSONOfBatch checks that each request of a batch is read on its own.
func TestBodyInJSONOfBatch(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		results := f.batch(c, f.request("a", paying(hookOf(t, `{"b": 1, "a": 2}`))),
			f.request("b", paying(hookWith(structpb.NewStringValue(strings.Repeat("\x01", 44000))))), f.request("a", paying(hookOfText(`{"a":2,"b":1}`))))
		id := results[0].GetSuccess().GetJob().GetJobId()
		if got := results[2].GetSuccess(); got.GetCreated() || got.GetJob().GetJobId() != id || id == "" {
			t.Errorf("a repeat in text: %v", results)
		}
		if got := f.read(c, id).GetPayload().GetWebhook().GetBodyText(); got != `{"a":2,"b":1}` {
			t.Errorf("stored as %q", got)
		}
		if got := results[1].GetError().GetMessage(); !strings.Contains(got, "payload.webhook.body_json: must have at most 262144 bytes") {
			t.Errorf("too long a body: %q", got)
		}
	})
}

// TestBodyInJSONOfSchedules checks templates, items of queues, and the jobs that are made of them.
func TestBodyInJSONOfSchedules(t *testing.T) {
	var s *schedule.Scheduler
	f := start(t, firing(&s))
	for name, c := range map[string]client{"curl": overCurl(f), "grpc": overGRPC(f)} {
		created := f.recurring(t.Context(), c, f.newSchedule(name, func(r *createScheduleRequest) {
			r.JobTemplate.Content = contentOf(hookOf(t, `{"run": "{{run}}", "a": {"zone": "{{zone}}"}}`))
		}))
		const text = `{"a":{"zone":"{{zone}}"},"run":"{{run}}"}`
		if got := created.GetJobTemplate().GetPayload().GetWebhook().GetBodyText(); got != text {
			t.Errorf("%s: the template has %q", name, got)
		}
		again := f.recurring(t.Context(), c, f.newSchedule(name, func(r *createScheduleRequest) { r.JobTemplate.Content = contentOf(hookOfText(text)) }))
		if again.GetScheduleId() != created.GetScheduleId() {
			t.Errorf("%s: the same schedule in text is another one", name)
		}
		fired, err := f.trigger(c, created.GetScheduleId(), "now", false)
		f.must(err)
		if got := f.read(c, fired.GetFiring().GetJobId()).GetPayload().GetWebhook().GetBodyText(); got != `{"a":{"zone":"Europe/Vienna"},"run":"1"}` {
			t.Errorf("%s: its job has %q", name, got)
		}
		changed, err := f.updateSchedule(c, f.getSchedule(c, created.GetScheduleId()).GetSchedule(), func(r *updateScheduleRequest) {
			r.JobTemplate = templateOn(f.conn)
			r.JobTemplate.Content = contentOf(hookOf(t, `[ 1 ]`))
		}, "job_template")
		if got := changed.GetSchedule().GetJobTemplate().GetPayload().GetWebhook().GetBodyText(); err != nil || got != `[1]` {
			t.Errorf("%s: the changed template has %q, %v", name, got, err)
		}

		queue := f.recurring(t.Context(), c, f.newSchedule(name+"-queue", fromQueue)).GetScheduleId()
		item := f.addItem(c, queue, "i", hookOf(t, `{"b": 1, "a": 2}`))
		repeat := f.addItem(c, queue, "i", hookOfText(`{"a":2,"b":1}`))
		if repeat.GetCreated() || repeat.GetItem().GetItemId() != item.GetItem().GetItemId() {
			t.Errorf("%s: the same item in text: %v", name, repeat)
		}
		listed := f.listItems(c, queue, func(r *schedulesv1.ListScheduleItemsRequest) { r.IncludePayloads = true })
		if len(listed) != 1 || listed[0].GetPayload().GetWebhook().GetBodyText() != `{"a":2,"b":1}` {
			t.Errorf("%s: items %v", name, listed)
		}
	}
}

// TestBodiesThatAreRefused checks what JSON and binary cannot ask for. No answer has what was sent.
func TestBodiesThatAreRefused(t *testing.T) {
	f := start(t)
	h := &http.Client{Transport: bringing{&http.Transport{}}}
	t.Cleanup(h.CloseIdleConnections)
	const field, unheld = "payload.webhook.body_json", "has a number that a double would change; bodyText takes it as it is"
	for body, want := range map[string][3]string{
		`{"HUSH": 9007199254740993}`:                {field, "body_json.number", unheld},
		`[1, 1e400]`:                                {field, "body_json.number", unheld},
		`{"HUSH": 1, "HUSH": 2}`:                    {field, "json.set_twice", "has a name twice"},
		`"HUSH\ud800"`:                              {field, "json.value", "whose strings are UTF-8"},
		`{"HUSH": NaN}`:                             {"", "json.syntax", "is not JSON"},
		`"` + strings.Repeat(`\u0001`, 44000) + `"`: {field, "body_json.max_bytes", "must have at most 262144 bytes without white space"},
	} {
		body = `{"payload": {"webhook": {"bodyJson": ` + body + `}}}`
		wantViolation(t, body[:min(len(body), 80)], postJSON(t.Context(), h, "http://"+f.addr+scheduleJob, body, nil), want)
	}
	for name, c := range map[string]client{"connect": overConnect(f), "grpc": overGRPC(f), "native": overNative(f)} {
		for body, want := range map[*structpb.Value][3]string{
			{}: {field, "body_json.kind", "has a value of no kind"},
			structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{{}}}): {field, "body_json.kind", "has a value of no kind"},
			structpb.NewNumberValue(math.NaN()):                                       {field, "body_json.number", "NaN or an infinity"},
			structpb.NewNumberValue(math.Inf(1)):                                      {field, "body_json.number", "NaN or an infinity"},
		} {
			_, err := ask[fireoncev1.ScheduleJobResponse](t, c, scheduleJob, f.request("k", paying(hookWith(body))))
			wantViolation(t, name, err, want)
		}
	}
}

// TestBodiesThatAreTooMuch checks bodies at the limits and beyond, and that nesting costs a server no more
// than its bytes.
func TestBodiesThatAreTooMuch(t *testing.T) {
	wide := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("1,", n-1), ",") + "]" }
	deep := func(n int) string { return strings.Repeat(`{"a":[`, n/2) + "1" + strings.Repeat("]}", n/2) }
	overEach(t, func(t *testing.T, f *fixture, c client) {
		for key, body := range map[string]string{"wide": wide(wirelimit.Values), "deep": deep(wirelimit.Levels)} {
			res, err := ask[fireoncev1.ScheduleJobResponse](t, c, scheduleJob, f.request(key, paying(hookOf(t, body))))
			if err != nil || res.GetJob().GetPayload().GetWebhook().GetBodyText() != body {
				t.Errorf("%s: %v", key, err)
			}
		}
		for limit, body := range map[int]string{wirelimit.Values: wide(wirelimit.Values + 1), wirelimit.Levels: deep(wirelimit.Levels + 2)} {
			_, err := ask[fireoncev1.ScheduleJobResponse](t, c, scheduleJob, f.request("k", paying(hookOf(t, body))))
			e := wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_TOO_MANY_ELEMENTS)
			if e.detail.GetViolations()[0].GetField() != "payload.webhook.body_json" || e.info.GetMetadata()["limit"] != fmt.Sprint(limit) {
				t.Errorf("%d: %v", limit, e.info)
			}
		}
	})
	f := start(t)
	h := &http.Client{Transport: bringing{&http.Transport{}}}
	t.Cleanup(h.CloseIdleConnections)
	for _, open := range []string{"[", `{"a":`} {
		body := `{"payload": {"webhook": {"bodyJson": ` + strings.Repeat(open, 1e6/len(open))
		wantReason(t, postJSON(t.Context(), h, "http://"+f.addr+scheduleJob, body, nil), fireoncev1.ErrorReason_ERROR_REASON_TOO_MANY_ELEMENTS)
	}
}
