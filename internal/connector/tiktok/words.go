package tiktok

import (
	"strings"

	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// verdict is what a code of TikTok's means. Empty words: the default rule's.
type verdict struct {
	kind  job.FailureKind
	auth  job.AuthCause // why, for job.FailAuth; zero: refused
	words string
	// quote adds TikTok's own message.
	quote bool
}

func (v verdict) message(e envelope, hidden transport.Secrets) string {
	text := v.words
	if said := hidden.Quote(e.Error.Message, quoted); v.quote && said != "" {
		text += ": " + said
	}
	return transport.Clean(text, transport.MaxMessage)
}

// quoted bounds what a message quotes of TikTok's own words, in bytes.
const quoted = 500

// reconnect is what a user does about a refused token.
const reconnect = "Reconnect this TikTok account: "

// refusals are the codes by which TikTok refuses a request without having acted
// (API v2 "Error Handling" and the error tables of the Content Posting API).
var refusals = map[string]verdict{
	"access_token_invalid":    {kind: job.FailAuth, words: reconnect + "TikTok takes its access token no more"},
	"scope_not_authorized":    {kind: job.FailAuth, auth: job.AuthPermission, words: reconnect + "its owner has not allowed what this needs", quote: true},
	"scope_permission_missed": {kind: job.FailAuth, auth: job.AuthPermission, words: reconnect + "its owner has not allowed what this needs", quote: true},
	"rate_limit_exceeded":     {kind: job.FailRateLimited, words: "TikTok asks to wait: too many requests for this account in a minute"},

	"spam_risk":                          {kind: job.FailPermanent, words: "TikTok takes this post for spam"},
	"spam_risk_text":                     {kind: job.FailPermanent, words: "TikTok takes this post's text for spam"},
	"spam_risk_too_many_posts":           {kind: job.FailPermanent, words: "TikTok takes no more posts of this account by apps today"},
	"spam_risk_too_many_pending_share":   {kind: job.FailPermanent, words: "TikTok takes no more posts of this account until those that wait in its inbox are done with"},
	"spam_risk_user_banned_from_posting": {kind: job.FailPermanent, words: "TikTok has banned this account from posting"},
	"reached_active_user_cap":            {kind: job.FailPermanent, words: "the app behind this connection has had its number of TikTok accounts for today"},
	"unaudited_client_can_only_post_to_private_accounts": {
		kind:  job.FailPermanent,
		words: "TikTok has not audited the app behind this connection yet: it can post for private accounts only",
	},
	"url_ownership_unverified": {
		kind: job.FailPermanent,
		words: "TikTok fetches files from verified domains only: verify the media's in the TikTok app, or choose FILE_UPLOAD as " +
			"the connection's source",
	},
	"privacy_level_option_mismatch": {kind: job.FailPermanent, words: "this account does not offer who may see the post: choose another privacy"},
	"invalid_param":                 {kind: job.FailPermanent, words: "TikTok does not take this post", quote: true},
	"invalid_params":                {kind: job.FailPermanent, words: "TikTok does not take this post", quote: true},
	"invalid_file_upload":           {kind: job.FailPermanent, words: "TikTok does not take this file", quote: true},
}

// judge finds what an answer's code means, else what its status means for certain.
// A 5xx is never sure.
func judge(status int, e envelope, ok bool) (verdict, bool) {
	if status >= 500 || !ok {
		return byStatus(status)
	}
	return refusal(e.Error.Code)
}

// refusal finds what a code means; a new one that begins as spam's do is spam's.
func refusal(code string) (v verdict, known bool) {
	if v, known = refusals[code]; !known && strings.HasPrefix(code, "spam_risk") {
		return refusals["spam_risk"], true
	}
	return v, known
}

func byStatus(status int) (verdict, bool) {
	switch status {
	case 401:
		return verdict{kind: job.FailAuth, words: reconnect + "TikTok refuses its access token"}, true
	case 429:
		return verdict{kind: job.FailRateLimited}, true
	default:
		return verdict{}, false
	}
}

// failures are the reasons for which a post that was begun came to nothing
// (Get Post Status, "fail_reason").
var failures = map[string]verdict{
	"file_format_check_failed":  {kind: job.FailPermanent, words: "TikTok does not take the file's format: MP4, MOV or WebM for videos, JPEG or WebP for photos"},
	"duration_check_failed":     {kind: job.FailPermanent, words: "the video is too short or too long for this TikTok account"},
	"frame_rate_check_failed":   {kind: job.FailPermanent, words: "TikTok does not take the video's frame rate: 23 to 60 frames per second"},
	"picture_size_check_failed": {kind: job.FailPermanent, words: "TikTok does not take the size of the picture: 360 to 4096 pixels for videos, at most 1080p for photos"},
	"video_pull_failed":         {kind: job.FailTransient, words: "TikTok could not fetch the video from its URL"},
	"photo_pull_failed":         {kind: job.FailTransient, words: "TikTok could not fetch a photo from its URL"},
	"publish_cancelled":         {kind: job.FailPermanent, words: "the post was cancelled at TikTok"},
	"auth_removed":              {kind: job.FailAuth, auth: job.AuthLoginEnded, words: reconnect + "its owner took the permission back while TikTok worked on the post"},
	"internal":                  {kind: job.FailTransient, words: "TikTok failed while it worked on the post"},
}

// failure returns what became of a post that failed.
func failure(reason string) verdict {
	if v, known := failures[reason]; known {
		return v
	}
	if v, known := refusal(reason); known {
		return v
	}
	return verdict{kind: job.FailPermanent, words: "TikTok did not post it: " + transport.Clean(reason, quoted)}
}
