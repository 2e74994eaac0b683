package mastodon

import (
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// classify narrows the default rules, and only these:
//
//   - a success is 200 with the post's id. Without one, or with another 2xx, the post
//     may be there or still to come: unknown.
//   - 401 and 403 hold the account: the token is void, or may not write posts
//     (https://docs.joinmastodon.org/methods/statuses/#create).
func classify(a transport.Response, secrets transport.Secrets) job.Outcome {
	o := transport.Classify(a, platformName, secrets)
	o.PeerEnded = o.PeerEnded && a.Complete // a proxy may close the connection while Mastodon works on
	switch {
	case o.Result == job.ResultSucceeded:
		if p, err := parseStatus(a.Excerpt); err == nil && a.Status == 200 {
			o.ExternalID, o.ExternalURL = p.id, p.url
			break
		}
		transport.Doubt(&o, " without the id of a post; it may have acted")
	case o.Result != job.ResultRejected:
	case a.Status == 401, a.Status == 403 && o.Kind == job.FailPermanent: // one that asks to wait is no verdict on the token
		if o.Kind = job.FailAuth; a.Status == 403 {
			o.Auth = job.AuthPermission
		}
		o.Message = transport.Clean(o.Message+"; "+reconnect, transport.MaxMessage)
	}
	return o
}
