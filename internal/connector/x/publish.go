package x

import (
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// platformName names X in messages.
const platformName = "X"

const msgReconnect = "X does not accept this account's token any more: reconnect this X account"

// statusDuplicate is how X refuses a duplicate. An attempt whose outcome was unknown with
// this status was refused as one, or in words that were lost: any other is a refusal.
const statusDuplicate = 403

// asDuplicate reports whether an attempt was refused as a duplicate, also if looks have
// proven its absence since.
func asDuplicate(a job.Attempt) bool {
	return a.HTTPStatus == statusDuplicate && (a.Result == job.ResultUnknown || a.Result == job.ResultAbsent)
}

// classify narrows the default rules, and only these:
//
//   - a success is 200 or 201 with the object's id. Without one, or with another
//     2xx, it may be there or still to come: unknown, and looked up.
//   - 403 for duplicate content means that the account has this content, and not
//     whose job made it. It may be an earlier try's, also to the first attempt that is
//     known: a database that was lost may have known of another. Unknown, and looked
//     up (docs/platforms/x.md).
//   - 403 that bars the account or its app holds it, as 401 does.
//   - 402 for credits that are used up, and 429, hold until the reset that X names.
func classify(a transport.Response, message bool, secrets transport.Secrets) job.Outcome {
	o := transport.Classify(a, platformName, secrets)
	if o.Result == job.ResultSucceeded {
		id, ok := parseCreated(a.Excerpt, message)
		if ok && (a.Status == 200 || a.Status == 201) {
			o.ExternalID, o.ExternalURL = externalID(id, message), webURL(id, message)
			return o
		}
		transport.Doubt(&o, " without an id; it may have acted")
		return o
	}
	if o.Result != job.ResultRejected {
		return o
	}
	p := problemOf(a)
	switch {
	case a.Status == 401:
		o.Message = msgReconnect
	case a.Status == 429:
		p.hold(&o, a, "X wants no more requests of this account for now", secrets)
	case a.Status == 402 && p.credits():
		o.Kind = job.FailRateLimited
		p.hold(&o, a, "the credits for the API of X are used up: buy some, or wait", secrets)
	case a.Status == statusDuplicate && p.duplicate():
		o.Result, o.Kind = job.ResultUnknown, job.FailAmbiguous
		o.Message = "X says that this account has the same content already; it may be from an earlier try, and is looked for"
	case a.Status == 403 && p.barred():
		o.Kind, o.Auth = job.FailAuth, job.AuthPermission
		if p.suspended() {
			o.Auth = job.AuthAccountBarred
		}
		o.Message = p.quote("X does not let this account post: see to it at X, then reconnect this X account", secrets)
	}
	return o
}
