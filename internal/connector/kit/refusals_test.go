package kit_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

func rule(status int32, retryFor ...time.Duration) *connectionsv1.RefusalRule {
	r := &connectionsv1.RefusalRule{Status: status}
	if len(retryFor) > 0 {
		r.RetryFor = durationpb.New(retryFor[0])
	}
	return r
}

// TestRefusalsAreChecked checks which rules can be stated, for every status.
func TestRefusalsAreChecked(t *testing.T) {
	for status := range int32(1000) {
		_, err := kit.ParseRefusals("settings.http", []*connectionsv1.RefusalRule{rule(status)})
		allowed := status == 307 || status == 308 || status >= 400 && status <= 499 && status != 408 && status != 429
		if allowed != (err == nil) {
			t.Errorf("%d: %v", status, err)
		}
	}
	for name, rules := range map[string][]*connectionsv1.RefusalRule{
		"settings.http.refusals[1].status":    {rule(404), rule(404, time.Hour)},
		"settings.http.refusals[0].retry_for": {rule(404, -time.Second)},
		"settings.http.refusals[1].retry_for": {rule(403), rule(404, job.MaxKeepTrying+1)},
		"settings.http.refusals":              make([]*connectionsv1.RefusalRule, 21),
	} {
		_, err := kit.ParseRefusals("settings.http", rules)
		var bad *connector.InputError
		if !errors.As(err, &bad) || bad.Field != name || bad.Reason != connector.BadSettings {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRefusalsChangeOnlyWhatIsProven checks rules over every status and form of an answer: an
// unknown outcome and a rate limit stay what they are.
func TestRefusalsChangeOnlyWhatIsProven(t *testing.T) {
	for _, keyed := range []bool{true, false} {
		for status := 300; status < 600; status++ {
			for _, header := range []http.Header{{}, {"Retry-After": {"7"}}, {"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"9"}}} {
				for _, worth := range []time.Duration{-1, 0, time.Hour} {
					a := transport.Response{Written: 9, Sent: true, Complete: true, Status: status, Header: header}
					before := transport.ClassifyNamed(a, "the receiver", nil, keyed)
					after := before
					kit.Refusals{status: worth}.Judge(&after, a)
					changes := before.Result == job.ResultRejected && before.Kind != job.FailRateLimited
					switch {
					case after.Result != before.Result, !changes && after.Kind != before.Kind, !changes && after.Message != before.Message:
						t.Fatalf("%d, keyed %v, worth %v: %s %s became %s %s", status, keyed, worth, before.Result, before.Kind, after.Result, after.Kind)
					case !changes:
					case worth == 0 && (after.Kind != job.FailPermanent || after.RetryAfter != 0 || !strings.Contains(after.Message, "is final")):
						t.Errorf("%d, final: %s after %v: %s", status, after.Kind, after.RetryAfter, after.Message)
					case worth != 0 && (after.Kind != job.FailTransient || after.RetryFor != max(worth, 0) || !strings.Contains(after.Message, "is temporary")):
						t.Errorf("%d, worth %v: %s for %v: %s", status, worth, after.Kind, after.RetryFor, after.Message)
					case worth != 0 && header.Get("Retry-After") != "" && after.RetryAfter != 7*time.Second:
						t.Errorf("%d, worth %v: waits %v", status, worth, after.RetryAfter)
					}
				}
			}
		}
	}
	none := transport.ClassifyNamed(transport.Response{Written: 9, Sent: true, Complete: true, Status: 404, Header: http.Header{}}, "x", nil, false)
	same := none
	kit.Refusals{403: -1}.Judge(&same, transport.Response{Written: 9, Complete: true, Status: 404})
	if same.Kind != none.Kind {
		t.Errorf("a rule for another status: %s", same.Kind)
	}
}
