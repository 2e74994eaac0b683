package slack_test

import (
	"testing"

	"github.com/fireonce/fireonce/internal/connector/slack/slacktest"
	"github.com/fireonce/fireonce/internal/job"
)

// TestLookTellsOfTheToken: a look reports a token that Slack does not accept any more,
// but not a token that lacks the right to read, because that token can still send
// messages.
func TestLookTellsOfTheToken(t *testing.T) {
	for code, want := range map[string]job.FailureKind{
		"token_revoked": job.FailAuth, "invalid_auth": job.FailAuth, "account_inactive": job.FailAuth,
		"missing_scope": 0, "no_permission": 0, "not_in_channel": 0, "internal_error": 0,
	} {
		refuse := false
		w := newWorld(t, slacktest.Options{Code: code, Plan: func(r slacktest.Request) slacktest.Answer {
			switch {
			case r.Method == "chat.postMessage":
				return slacktest.Drop
			case refuse:
				return slacktest.Code
			default:
				return slacktest.Reply
			}
		}})
		e := w.effect(t, hello())
		e.Send(t)
		refuse = true
		if o := e.Look(t); o.Verdict != job.SawInconclusive || o.Kind != want {
			t.Errorf("%s: %s of kind %s (%s)", code, o.Verdict, o.Kind, o.Detail)
		}
	}
}
