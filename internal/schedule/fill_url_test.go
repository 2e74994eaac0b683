package schedule_test

import (
	"errors"
	"math"
	"net/url"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/firing"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/store"
)

// ofURL returns payloads that have a URL, by the path of that.
func ofURL(text string) map[string]*fireoncev1.Payload {
	file := &fireoncev1.MediaRef{Url: text}
	post := &fireoncev1.SocialPost{Text: "x", Media: []*fireoncev1.MediaRef{file}}
	card := &fireoncev1.SocialPost{Text: "x", PlatformOptions: &fireoncev1.SocialPost_Bluesky{Bluesky: &fireoncev1.BlueskyOptions{
		Card: &fireoncev1.BlueskyOptions_Card{Url: text, Title: "x"},
	}}}
	mail := &fireoncev1.Email{To: []string{"a@example.org"}, Sender: "b@example.org", Subject: "x", TextBody: "x", Unsubscribe: &fireoncev1.Unsubscribe{Url: text}}
	return map[string]*fireoncev1.Payload{
		"webhook.url":                  {Kind: &fireoncev1.Payload_Webhook{Webhook: &fireoncev1.Webhook{Url: text}}},
		"http_request.url":             {Kind: &fireoncev1.Payload_HttpRequest{HttpRequest: &fireoncev1.HttpRequest{Url: text}}},
		"social_post.media[0].url":     {Kind: &fireoncev1.Payload_SocialPost{SocialPost: post}},
		"social_post.bluesky.card.url": {Kind: &fireoncev1.Payload_SocialPost{SocialPost: card}},
		"email.unsubscribe.url":        {Kind: &fireoncev1.Payload_Email{Email: mail}},
		"email.attachments[0].url":     {Kind: &fireoncev1.Payload_Email{Email: &fireoncev1.Email{To: mail.GetTo(), Sender: mail.GetSender(), Subject: "x", TextBody: "x", Attachments: []*fireoncev1.MediaRef{file}}}},
	}
}

func urlIn(p *fireoncev1.Payload) string {
	switch kind := p.GetKind().(type) {
	case *fireoncev1.Payload_Webhook:
		return kind.Webhook.GetUrl()
	case *fireoncev1.Payload_HttpRequest:
		return kind.HttpRequest.GetUrl()
	case *fireoncev1.Payload_Email:
		if files := kind.Email.GetAttachments(); len(files) > 0 {
			return files[0].GetUrl()
		}
		return kind.Email.GetUnsubscribe().GetUrl()
	case *fireoncev1.Payload_SocialPost:
		if files := kind.SocialPost.GetMedia(); len(files) > 0 {
			return files[0].GetUrl()
		}
		return kind.SocialPost.GetBluesky().GetCard().GetUrl()
	default:
		return ""
	}
}

// filledURL makes the job of a firing with a name whose template has a payload, and returns its URL.
func filledURL(t *testing.T, p *fireoncev1.Payload, zone, trigger string, run int64) (string, error) {
	t.Helper()
	times, err := schedule.Compile(newID(), 1, &schedulesv1.ScheduleSpec{TimeZone: zone, CronExpressions: []string{"30 2 * * *"}}, recur.NewZones(""))
	if err != nil {
		t.Fatal(err)
	}
	beat, _, _ := times.Next(times.After(time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC)))
	if trigger != "" {
		beat = firing.BeatAt(times, firing.TriggerName(trigger), beat.Instant)
	}
	made, err := schedule.JobOf(newID(), times, &schedulesv1.JobTemplate{Content: &schedulesv1.JobTemplate_Payload{Payload: p}}, beat, run)
	if err != nil {
		return "", err
	}
	var out fireoncev1.Payload
	if err := proto.Unmarshal(made.Spec.Payload, &out); err != nil {
		t.Fatal(err)
	}
	return urlIn(&out), nil
}

// TestURLsAreFilled: each URL of a payload may have placeholders in its path and in its query.
func TestURLsAreFilled(t *testing.T) {
	const in = "https://bücher.example/{{zone}}/{{nominal_date}}.png?at={{nominal_time}}&i={{instant}}&n={{run}}&{{{{x}}"
	const want = "https://bücher.example/Europe%2FVienna/2026-03-29.png?at=2026-03-29T02:30:00&i=2026-03-29T01:00:00Z&n=7&{{x}}"
	for path, p := range ofURL(in) {
		if err := schedule.CheckTexts(p); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if got, err := filledURL(t, p, "Europe/Vienna", "", 7); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", path, got, err, want)
		}
	}
	got, err := filledURL(t, ofURL("https://example.com/?n={{nominal_name}}&z={{zone}}")["webhook.url"], "Etc/GMT+5", "a+b/c.d_e:f-1", 1)
	u, wrong := url.Parse(got)
	if err != nil || wrong != nil || u.Query().Get("n") != firing.TriggerName("a+b/c.d_e:f-1") || u.Query().Get("z") != "Etc/GMT+5" {
		t.Errorf("%s, %v, %v", got, err, wrong)
	}
}

// TestURLsBeforeThePath: no placeholder may be where it could determine the target.
func TestURLsBeforeThePath(t *testing.T) {
	for _, bad := range []string{
		"{{zone}}", "{{zone}}/a", "{{zone}}://example.com/", "https://{{run}}.example.com/", "https://example{{run}}/a", "https://example.com:{{run}}/", "https://{{run}}@example.com/",
		"https://{{{{run}}.example.com/", "https://example.com{{run}}", "https://example.com{{run}}?a", "https:/{{run}}/example.com", "https://{{unknown}}/",
	} {
		for path, p := range ofURL(bad) {
			var wrong schedule.SpecError
			if err := schedule.CheckTexts(p); !errors.As(err, &wrong) || len(wrong) != 1 || wrong[0].Field != path || !strings.Contains(wrong[0].Message, "path and query") {
				t.Errorf("%s at %s: %v", bad, path, err)
			}
		}
	}
	for _, bad := range []string{"https://example.com/{{unknown}}", "https://example.com/?{{run", "https://example.com/{{ run }}"} {
		for path, p := range ofURL(bad) {
			var wrong schedule.SpecError
			if err := schedule.CheckTexts(p); !errors.As(err, &wrong) || len(wrong) != 1 || wrong[0].Field != path {
				t.Errorf("%s at %s: %v", bad, path, err)
			}
		}
	}
}

// TestTargetOfATemplate: whatever the values are, the jobs go where the template says.
func TestTargetOfATemplate(t *testing.T) {
	all := "{{" + strings.Join(recur.Placeholders, "}}{{") + "}}"
	for _, host := range []string{"https://example.com", "HTTPS://BÜCHER.example:8443", "http://[::1]:80", "http://例え.テスト"} {
		for _, rest := range []string{"/" + all, "?" + all, "/a/" + all + "/b?c=" + all + "&" + all + "=d", "//" + all, "/@" + all, "/..%2F" + all} {
			for _, key := range []string{"", "//evil.example/", "..", ":8080", "a+b", "/../../", "_.-:"} {
				template, err := transport.ParseURL(host + rest)
				if err != nil {
					t.Fatal(err)
				}
				text, err := filledURL(t, ofURL(host + rest)["webhook.url"], "America/Port-au-Prince", key, math.MaxInt64)
				if err != nil {
					t.Fatal(err)
				}
				got, err := transport.ParseURL(text)
				if err != nil || transport.TargetOf(got) != transport.TargetOf(template) {
					t.Fatalf("%s: %v, %v; want the target of %s", text, got, err, template)
				}
				if strings.Count(got.EscapedPath(), "/") != strings.Count(template.EscapedPath(), "/") || strings.Count(got.RawQuery, "&") != strings.Count(template.RawQuery, "&") {
					t.Errorf("%s has other parts than %s", got, template)
				}
			}
		}
	}
}

// TestFilledURLIsBounded: the bound of a URL holds after it is filled in.
func TestFilledURLIsBounded(t *testing.T) {
	onBoth(t, func(w *world) {
		with := func(over int) *schedulesv1.JobTemplate {
			out := template("x")
			const rest = "https://example.com/?a=&id="
			out.GetPayload().GetWebhook().Url = rest + strings.Repeat("a", 2048+over-len(rest)-len("01234567-89ab-cdef-0123-456789abcdef")) + "{{schedule_id}}"
			return out
		}
		fits := w.schedule(minutelySpec(), nil, func(s *store.Schedule) { s.Template = encoded(w.T, with(0)) })
		long := w.schedule(minutelySpec(), nil, func(s *store.Schedule) { s.Template = encoded(w.T, with(1)) })
		w.clock.advance(time.Minute)
		is(w, w.once(), 1, "fired")
		is(w, len(w.jobs(fits)), 1, "jobs of the one that fits")
		is(w, w.outcomes(long), "REFUSED 09:01", "ledger")
		is(w, w.ledger(long)[0].Reason, "payload.webhook.url: must have at most 2048 characters with the placeholders filled in", "reason")
		_, _, err := w.s.Trigger(w.ctx, ref(long), "k", true)
		if input, ok := errors.AsType[*connector.InputError](err); !ok || input.Reason != connector.BadPayload {
			w.Errorf("triggered: %v", err)
		}
	})
}
