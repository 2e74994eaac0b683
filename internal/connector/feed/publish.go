package feed

import (
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// platformName is how messages name the platform.
const platformName = "the platform"

// Every hold states what the account's owner has to do.
const (
	refused = "; give this connection a new credential of the account"
	mayNot  = "; allow this connection's credential to post and to list posts, or give it another one"
)

// classify narrows the default rules, and only these:
//
//   - a success is 200 or 201 with the post's id. Without one, or with another
//     2xx, the post may be there or still to come: unknown, and looked up, which
//     also finds the id.
//   - 403 holds the account as 401 does: the token may not post (docs/platforms/feed.md).
func classify(a transport.Response, secrets transport.Secrets) job.Outcome {
	o := transport.Classify(a, platformName, secrets)
	switch {
	case o.Result == job.ResultSucceeded:
		post, err := parseCreated(a.Excerpt)
		if err == nil && (a.Status == 200 || a.Status == 201) {
			o.ExternalID, o.ExternalURL = post.id, post.url
			break
		}
		transport.Doubt(&o, " without the id of a post; it may have acted")
	case o.Kind == job.FailPermanent && a.Status == 403:
		o.Kind = job.FailAuth
		o.Message += mayNot
	case o.Result == job.ResultRejected && a.Status == 401:
		o.Message += refused
	}
	return o
}
