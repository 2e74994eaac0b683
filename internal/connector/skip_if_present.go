package connector

import (
	"errors"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
)

// Why a job cannot look for its content before its first attempt.
var (
	errNotFound = errors.New("skip_if_present: this connection cannot be looked at for content that no job has made; " +
		"only an OBSERVABLE one of feed, x or mastodon can")
	errFiles = errors.New("skip_if_present: files cannot be compared with those that are there; leave payload.social_post.media out")
)

// CheckPresence returns why skip_if_present cannot be used with a payload on a
// connection of a connector, or nil.
func CheckPresence(c Connector, class job.Class, p *fireoncev1.Payload) error {
	switch {
	case !FindsContent(c, class):
		return errNotFound
	case len(p.GetSocialPost().GetMedia()) > 0:
		return errFiles
	default:
		return nil
	}
}
