package schedule_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/contract"
	"github.com/fireonce/fireonce/internal/firing"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/store"
)

// neverFilled maps the fields of payloads that may have no placeholders to the reason.
var neverFilled = map[string]string{
	"SocialPost.reply_to_id": "where to", "SocialPost.language": "a code",
	"XOptions.quote_post_id": "where to", "BlueskyOptions.quote_uri": "where to", "BlueskyOptions.quote_cid": "where to",
	"BlueskyOptions.self_labels": "codes", "SlackOptions.channel": "where to", "DirectMessage.recipient_id": "where to",
	"MediaRef.sha256": "a digest", "MediaRef.media_type": "a code", "MediaRef.file_name": "a name that is a path elsewhere",
	"Email.sender": "an address", "Email.to": "where to", "Email.cc": "where to", "Email.bcc": "where to", "Email.reply_to": "where to",
	"Email.in_reply_to": "an id", "Email.references": "ids", "EmailHeader.name": "a code", "Unsubscribe.mailto": "where to",
	"Webhook.content_type": "a code", "HttpRequest.content_type": "a code",
	"HttpRequest.id_json_pointer": "where to look", "HttpHeader.name": "a code", "CustomPayload.schema": "a code", "CustomPayload.content_type": "a code",
}

// TestEveryTextIsThoughtOf checks that each text of a payload is either filled in or listed as
// never filled in, and that one of these is refused with a placeholder, which would be sent as it is.
func TestEveryTextIsThoughtOf(t *testing.T) {
	seen := make(map[string]bool)
	var walk func(d protoreflect.MessageDescriptor, wrap func(protoreflect.Message) *fireoncev1.Payload)
	walk = func(d protoreflect.MessageDescriptor, wrap func(protoreflect.Message) *fireoncev1.Payload) {
		for i := range d.Fields().Len() {
			field := d.Fields().Get(i)
			in := func(set func(m protoreflect.Message)) *fireoncev1.Payload {
				m := newMessage(t, d)
				set(m)
				return wrap(m)
			}
			if field.Name() == "body_json" {
				continue // body_text by then
			}
			if field.Message() != nil {
				walk(field.Message(), func(inner protoreflect.Message) *fireoncev1.Payload {
					return in(func(m protoreflect.Message) {
						if field.IsList() {
							m.Mutable(field).List().Append(protoreflect.ValueOfMessage(inner))
						} else {
							m.Set(field, protoreflect.ValueOfMessage(inner))
						}
					})
				})
				continue
			}
			var value protoreflect.Value
			switch field.Kind() {
			case protoreflect.StringKind:
				value = protoreflect.ValueOfString("{{unknown}}")
			case protoreflect.BytesKind:
				value = protoreflect.ValueOfBytes([]byte("{{unknown}}"))
			default:
				continue
			}
			name := string(d.Name()) + "." + string(field.Name())
			p := in(func(m protoreflect.Message) {
				if field.IsList() {
					m.Mutable(field).List().Append(value)
				} else {
					m.Set(field, value)
				}
			})
			err := schedule.CheckTexts(p)
			seen[name] = true
			var wrong schedule.SpecError
			path := string(field.Name())
			if field.IsList() {
				path += "[0]"
			}
			switch never := neverFilled[name] != ""; {
			case never && field.Kind() == protoreflect.BytesKind: // no text
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			case !errors.As(err, &wrong) || len(wrong) != 1 || !strings.HasSuffix(wrong[0].Field, path):
				t.Errorf("%s: %v", name, err)
			case never != strings.HasPrefix(wrong[0].Message, "has no placeholders: "):
				t.Errorf("%s: %v; is it listed as never filled in? %t", name, err, never)
			}
		}
	}
	root := (&fireoncev1.Payload{}).ProtoReflect().Descriptor()
	walk(root, func(m protoreflect.Message) *fireoncev1.Payload { return m.Interface().(*fireoncev1.Payload) })
	for name := range maps.Keys(neverFilled) {
		if !seen[name] {
			t.Errorf("%s is listed, and there is no such field", name)
		}
	}
	if len(seen) < 30 {
		t.Errorf("%d texts were seen", len(seen))
	}
}

func newMessage(t *testing.T, d protoreflect.MessageDescriptor) protoreflect.Message {
	t.Helper()
	for _, m := range []proto.Message{
		&fireoncev1.Payload{}, &fireoncev1.SocialPost{}, &fireoncev1.MastodonOptions{}, &fireoncev1.TikTokOptions{}, &fireoncev1.XOptions{},
		&fireoncev1.BlueskyOptions{}, &fireoncev1.BlueskyOptions_Card{}, &fireoncev1.SlackOptions{}, &fireoncev1.DirectMessage{}, &fireoncev1.MediaRef{}, &fireoncev1.Email{},
		&fireoncev1.Webhook{}, &fireoncev1.HttpRequest{}, &fireoncev1.HttpHeader{}, &fireoncev1.CustomPayload{},
		&fireoncev1.EmailHeader{}, &fireoncev1.Unsubscribe{},
	} {
		if m.ProtoReflect().Descriptor() == d {
			return m.ProtoReflect()
		}
	}
	t.Fatalf("message %s is new: see which of its texts may have placeholders", d.FullName())
	return nil
}

// TestCheckTexts checks that all faults are found, each with its path, in a fixed order.
func TestCheckTexts(t *testing.T) {
	p := &fireoncev1.Payload{Kind: &fireoncev1.Payload_Email{Email: &fireoncev1.Email{
		Subject: "{{nominal_date}} {{what}}", TextBody: "{{{{ is literal, {{run", HtmlBody: "{{run}}",
		Attachments: []*fireoncev1.MediaRef{{AltText: "fine"}, {AltText: "{{ run }}", Url: "https://example.com/{{what}}/{{run}}"}},
	}}}
	for range 20 {
		var wrong schedule.SpecError
		if err := schedule.CheckTexts(p); !errors.As(err, &wrong) {
			t.Fatal(err)
		}
		var got []string
		for _, v := range wrong {
			got = append(got, v.Field)
		}
		if want := []string{"email.attachments[1].alt_text", "email.attachments[1].url", "email.subject", "email.text_body"}; !slices.Equal(got, want) {
			t.Fatalf("%q, want %q", got, want)
		}
	}
	if err := schedule.CheckTexts(template("at {{nominal_time}}").GetPayload()); err != nil {
		t.Error(err)
	}
	binary := &fireoncev1.Payload{Kind: &fireoncev1.Payload_Webhook{Webhook: &fireoncev1.Webhook{
		Content: &fireoncev1.Webhook_Body{Body: []byte("\xff{{what}}")},
	}}}
	if err := schedule.CheckTexts(binary); err != nil {
		t.Errorf("bytes that are not text: %v", err)
	}
}

// TestValuesNeedNoQuoting checks that whatever key a trigger may have, and whatever times a spec
// names, JSON and HTML take the filled-in values as they are.
func TestValuesNeedNoQuoting(t *testing.T) {
	rules, err := contract.Rules()
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 3, 29, 0, 59, 0, 0, time.UTC)
	names := make(map[string]bool)
	check := func(times *recur.Schedule, beat recur.Beat) {
		names[beat.Name] = true
		all := "{{" + strings.Join(recur.Placeholders, "}} {{") + "}}"
		one, err := schedule.JobOf(newID(), times, template(`{"all":"`+all+`"}`), beat, math.MaxInt64)
		var payload fireoncev1.Payload
		if err == nil {
			err = proto.Unmarshal(one.Spec.Payload, &payload)
		}
		if err != nil {
			t.Fatal(err)
		}
		body := payload.GetWebhook().GetBodyText()
		if body == "" {
			body = string(payload.GetWebhook().GetBody())
		}
		values := strings.TrimSuffix(strings.TrimPrefix(body, `{"all":"`), `"}`)
		var got struct{ All string }
		if err := json.Unmarshal([]byte(body), &got); err != nil || got.All != values || html.EscapeString(values) != values {
			t.Errorf("%s: %v", body, err)
		}
		if fields := strings.Split(values, " "); len(fields) != len(recur.Placeholders) || !strings.Contains(values, beat.Name) {
			t.Errorf("%q has not one value for each placeholder", values)
		}
	}
	times := make(map[string]*recur.Schedule)
	start := timestamppb.New(at.Add(-time.Hour))
	for name, spec := range map[string]*schedulesv1.ScheduleSpec{
		"cron":     {TimeZone: "Etc/GMT+5", CronExpressions: []string{"* * * * *"}},
		"rule":     {TimeZone: "America/Port-au-Prince", RecurrenceRules: []*schedulesv1.RecurrenceRule{{Rule: "FREQ=DAILY", Start: "2026-03-01T00:00:00"}}},
		"interval": {TimeZone: "UTC", StartTime: start, Intervals: []*schedulesv1.ScheduleInterval{{Every: durationpb.New(time.Minute)}}},
	} {
		compiled, err := schedule.Compile(newID(), 3, spec, recur.NewZones(""))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		times[name] = compiled
		cursor := compiled.After(at)
		for range 150 { // the end of winter time is among them
			beat, next, ok := compiled.Next(cursor)
			if !ok {
				t.Fatalf("%s has no beat", name)
			}
			check(compiled, beat)
			cursor = next
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	accepted := 0
	for i := range 20_000 {
		key := make([]byte, 1+random.IntN(3))
		for j := range key {
			key[j] = byte('!' + random.IntN(0x7f-'!'))
		}
		if '!' <= i && i < 0x7f {
			key = []byte{byte(i)}
		}
		if rules.Validate(&schedulesv1.TriggerScheduleRequest{
			Schedule:   &schedulesv1.TriggerScheduleRequest_IdempotencyKey{IdempotencyKey: "k"},
			TriggerKey: string(key),
		}) == nil {
			accepted++
			check(times["cron"], firing.BeatAt(times["cron"], firing.TriggerName(string(key)), at))
		}
	}
	if accepted < 1000 || len(names) < 1000 {
		t.Errorf("%d keys were accepted, %d names were seen", accepted, len(names))
	}
}

// headed returns a template whose header, once filled in, is over by a number of characters.
func headed(over int) *schedulesv1.JobTemplate {
	t := template("x")
	value := strings.Repeat("h", 4096+over-len("01234567-89ab-cdef-0123-456789abcdef")) + "{{schedule_id}}"
	t.GetPayload().GetWebhook().Headers = []*fireoncev1.HttpHeader{{Name: "X-Schedule", Value: value}}
	return t
}

// TestFilledObeysTheContract checks that the contract's bounds apply after the placeholders are
// filled in: a firing makes no job that ScheduleJob would refuse.
func TestFilledObeysTheContract(t *testing.T) {
	onBoth(t, func(w *world) {
		fits := w.schedule(minutelySpec(), nil, func(s *store.Schedule) { s.Template = encoded(w.T, headed(0)) })
		long := w.schedule(minutelySpec(), nil, func(s *store.Schedule) { s.Template = encoded(w.T, headed(1)) })
		w.clock.advance(time.Minute)
		is(w, w.once(), 1, "fired")
		is(w, len(w.jobs(fits)), 1, "jobs of the one that fits")
		is(w, len(w.jobs(long)), 0, "jobs of the one that is too long")
		is(w, w.outcomes(long), "REFUSED 09:01", "ledger")
		want := "payload.webhook.headers[0].value: must have at most 4096 characters with the placeholders filled in"
		is(w, w.ledger(long)[0].Reason, want, "reason")
		got := w.read(long)
		is(w, got.PauseCause, store.PausedByRefusal, "cause")
		_, _, err := w.s.Trigger(w.ctx, ref(long), "k", true)
		if input, ok := errors.AsType[*connector.InputError](err); !ok || input.Reason != connector.BadPayload {
			w.Errorf("triggered: %v", err)
		}
	})
}

// TestItemObeysTheContract checks that an item is validated together with its template, which may
// have changed since the item was added.
func TestItemObeysTheContract(t *testing.T) {
	in(t, func(w *world) {
		labels := func(n int, prefix string) map[string]string {
			out := make(map[string]string)
			for i := range n {
				out[fmt.Sprint(prefix, i)] = "v"
			}
			return out
		}
		many := template("x")
		content := encoded(w.T, many.GetPayload())
		many.Content, many.Labels = &schedulesv1.JobTemplate_Queue{Queue: &schedulesv1.QueueContent{}}, labels(20, "template")
		s := w.schedule(minutelySpec(), nil, func(s *store.Schedule) { s.Queued, s.Template = true, encoded(w.T, many) })
		add := func(key string, own int) store.ScheduleItem {
			i, _, err := w.store.AddItem(w.ctx, store.NewItem{Project: project, Item: store.ScheduleItem{
				ID: newID(), Schedule: s.ID, Key: key, Payload: content, PayloadKind: "webhook", Labels: labels(own, "item"),
			}})
			w.ok(err)
			return i
		}
		bad, good := add("bad", 13), add("good", 12)
		w.clock.advance(time.Minute)
		is(w, w.once(), 1, "fired")
		is(w, len(w.jobs(s)[0].Labels), 32, "labels")
		for i, want := range map[job.ID]store.ItemState{bad.ID: store.ItemRefused, good.ID: store.ItemUsed} {
			got, err := w.store.Item(w.ctx, store.ItemRef{Project: project, Schedule: s.ID, ID: i})
			w.ok(err)
			is(w, got.State, want, "state of "+got.Key)
		}
		is(w, w.read(s).State, store.ScheduleActive, "state")
	})
}

func minutelySpec() *schedulesv1.ScheduleSpec {
	spec, _ := minutely()
	return spec
}
