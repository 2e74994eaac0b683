package resend

import (
	"encoding/json"
	"net/url"
	"regexp"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// platformName is how messages name the platform.
const platformName = "Resend"

// maxAnswer is how much of an answer is read for its meaning, in bytes.
const maxAnswer = 64 << 10

// session is one connection with one e-mail for it.
type session struct {
	kit.Link

	emails  *url.URL
	request request
	auth    kit.Auth
}

// Close implements connector.Session.
func (s *session) Close() {
	s.Link.Close()
	s.request.letGo()
}

// SendTime implements connector.Uploader.
func (s *session) SendTime() time.Duration { return s.request.sendTime() }

// Publish implements connector.Session.
func (s *session) Publish(c connector.Commit) job.Outcome {
	headers := append([]transport.Header{
		{Name: "Content-Type", Value: kit.UsualContentType}, {Name: "Idempotency-Key", Value: c.EffectKey},
	}, s.auth.Headers...)
	return s.Commit(c, transport.Request{
		Method: "POST", URL: s.emails, Headers: headers, Body: s.request.reader(), Length: s.request.size(), Keep: maxAnswer,
	}, func(a transport.Response) job.Outcome { return classify(a, s.auth.Hidden) })
}

// How long to wait for a quota that does not say when it ends. Both quotas are a team's
// and end with its day or month; a job whose window ends before that expires.
const (
	dayQuotaWait   = time.Hour
	monthQuotaWait = 24 * time.Hour
)

var validID = regexp.MustCompile(`^[0-9A-Za-z_-]{1,128}$`)

// classify narrows the default rules, and only these (the names are those of
// resend.com/docs/api-reference/errors):
//
//   - a success is 200 or 201 with the e-mail's id. Without one the outcome is
//     unknown, and the repeat settles it: it gets the same answer as the first.
//   - 401, and 403 invalid_api_key, are about the key: the account is held. Other
//     403 are about the e-mail: a domain that is not verified, a recipient that a
//     test account may not write to.
//   - 409 is unknown, whatever its name. concurrent_idempotent_requests: the request
//     that came first is still at work. invalid_idempotent_request: an e-mail with
//     this key was sent in the last 24 hours, and it was another one. That is no
//     proof that this job has had no effect: a database that was restored may not
//     know of it.
//   - 429 waits as Retry-After or ratelimit-reset say.
func classify(a transport.Response, secrets transport.Secrets) job.Outcome {
	o := transport.Classify(a, platformName, secrets)
	if !a.Complete || a.Written == 0 {
		return o
	}
	switch {
	case o.Result == job.ResultSucceeded:
		var created struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(a.Excerpt, &created); err == nil && validID.MatchString(created.ID) && (a.Status == 200 || a.Status == 201) {
			o.ExternalID = created.ID
			break
		}
		transport.Doubt(&o, " without the id of an e-mail; it may have sent it")
	case a.Status == 401, a.Status == 403 && nameOf(a) == "invalid_api_key":
		o.Kind = job.FailAuth
		o.Message += "; give this connection a valid API key of Resend"
	case a.Status == 403:
		o.Message += "; see that the sender's domain is verified at Resend"
	case a.Status == 409:
		conflict(&o, a)
	case a.Status == 429:
		o.RetryAfter = wait(a)
	}
	o.Message = transport.Clean(o.Message, transport.MaxMessage)
	return o
}

// nameOf is the name of an error, which an answer that is no success has.
func nameOf(a transport.Response) string {
	var failure struct {
		Name string `json:"name"`
	}
	if json.Unmarshal(a.Excerpt, &failure) != nil {
		return ""
	}
	return failure.Name
}

func conflict(o *job.Outcome, a transport.Response) {
	switch nameOf(a) {
	case "concurrent_idempotent_requests":
		transport.Doubt(o, "; an earlier request for this e-mail is still at work there")
		o.RetryAfter = a.Wait(transport.DefaultRetryAfter)
	case "invalid_idempotent_request":
		transport.Doubt(o, "; another e-mail was sent with this job's key in the last 24 hours: look at Resend whether it is the one that was meant")
	default:
		transport.Doubt(o, "; it may have sent the e-mail")
	}
}

// wait is how long a 429 asks to wait.
func wait(a transport.Response) time.Duration {
	var otherwise time.Duration
	switch nameOf(a) {
	case "daily_quota_exceeded":
		otherwise = dayQuotaWait
	case "monthly_quota_exceeded":
		otherwise = monthQuotaWait
	default:
		return a.Wait(transport.DefaultRetryAfter)
	}
	if wait, stated := transport.RetryAfter(a.Header, a.At); stated {
		return wait // a reset would be that of the rate, not of the quota
	}
	return otherwise
}
