package slack

import (
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// name is what messages call Slack.
const name = "Slack"

// classify narrows the default rules, and only these:
//
//   - a success is 200 with ok:true, a conversation and a time stamp. Another 2xx, or
//     one that does not say, is unknown.
//   - 200 with ok:false and a code that is listed in codes.go has the meaning of the code.
//     Any other code is unknown, fatal_error and internal_error among them.
func classify(a transport.Response, secrets transport.Secrets, thread, site string) job.Outcome {
	o := transport.Classify(a, name, secrets)
	if o.Result != job.ResultSucceeded {
		if o.Kind == job.FailAuth {
			o.Message = msgReconnect
		}
		return o
	}
	said, channel, ts, posted := parsePosted(a.Excerpt)
	kind, definite := kinds[said.Error]
	switch {
	case posted && a.Status == 200:
		o.ExternalID, o.ExternalURL = externalID(channel, ts, thread), link(site, channel, ts, thread)
	case definite && a.Status == 200 && said.OK != nil && !*said.OK:
		o.Result, o.Kind, o.Auth, o.Message = job.ResultRejected, kind, causeOf(said.Error), saying(said, secrets)
		if kind == job.FailRateLimited {
			transport.Limit(&o, a, transport.DefaultRetryAfter)
		}
	case said.Error != "":
		o.Result, o.Kind = job.ResultUnknown, job.FailAmbiguous
		o.Message = transport.Clean(name+" answered "+secrets.Quote(said.Error, transport.MaxMessage)+"; it may have acted", transport.MaxMessage)
	default:
		transport.Doubt(&o, " without saying where the message is; it may have acted")
	}
	return o
}
