package slack

import (
	"cmp"
	"strings"

	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file: Slack answers 200 with ok:false and a code. Only the codes that
// are listed here are definite, by docs.slack.dev/reference/methods/chat.postMessage
// and conversations.open; after any other code the outcome is unknown. Of fatal_error
// and internal_error Slack documents that some aspect may have succeeded.

// codes are the definite ones: Slack looked at the request and did nothing.
var codes = map[job.FailureKind]string{
	job.FailAuth: "not_authed invalid_auth account_inactive token_revoked token_expired no_permission missing_scope org_login_required " +
		"ekm_access_denied not_allowed_token_type access_denied two_factor_setup_required team_access_not_granted",
	job.FailRateLimited: "ratelimited rate_limited message_limit_exceeded accesslimited",
	job.FailPermanent: "channel_not_found not_in_channel is_archived msg_too_long no_text restricted_action restricted_action_read_only_channel " +
		"restricted_action_thread_only_channel restricted_action_non_threadable_channel restricted_action_thread_locked cannot_reply_to_message " +
		"messages_tab_disabled metadata_too_large metadata_must_be_sent_from_app invalid_metadata_format invalid_metadata_schema " +
		"user_not_found users_not_found user_disabled user_not_visible cannot_dm_bot method_not_supported_for_channel_type " +
		"enterprise_is_restricted team_not_found deprecated_endpoint method_deprecated invalid_arguments invalid_arg_name invalid_array_arg " +
		"invalid_charset invalid_form_data invalid_post_type missing_post_type missing_charset invalid_json json_not_object missing_argument",
}

var kinds = func() map[string]job.FailureKind {
	all := make(map[string]job.FailureKind)
	for kind, list := range codes {
		for code := range strings.FieldsSeq(list) {
			all[code] = kind
		}
	}
	return all
}()

// rights are the codes of FailAuth whose token is valid, but lacks a right.
var rights = map[string]bool{
	"missing_scope": true, "no_permission": true, "access_denied": true, "ekm_access_denied": true,
	"not_allowed_token_type": true, "team_access_not_granted": true,
}

// causes are why, for the codes of FailAuth that say it.
var causes = map[string]job.AuthCause{
	"token_expired": job.AuthExpired, "token_revoked": job.AuthLoginEnded, "account_inactive": job.AuthAccountBarred,
}

// causeOf returns why a credential was refused; zero: a code of another kind.
func causeOf(code string) job.AuthCause {
	switch {
	case kinds[code] != job.FailAuth:
		return 0
	case rights[code]:
		return job.AuthPermission
	default:
		return cmp.Or(causes[code], job.AuthRefused)
	}
}

// sayings are what a user can do about a code.
var sayings = map[string]string{
	"channel_not_found":                   "Slack knows no such conversation, or the app may not see it",
	"not_in_channel":                      "the app is not in this conversation: invite it there",
	"is_archived":                         "the conversation is archived",
	"msg_too_long":                        "the message is too long for Slack",
	"restricted_action":                   "a rule of the workspace does not let this app post there",
	"restricted_action_read_only_channel": "only some may post in this conversation, and this app is not one of them",
	"cannot_reply_to_message":             "the message that is replied to takes no answers",
	"messages_tab_disabled":               "the app takes no direct messages: switch on its messages tab",
	"user_not_found":                      "Slack knows no such person",
	"user_disabled":                       "this person has left the workspace",
	"cannot_dm_bot":                       "a direct message cannot go to another app",
	"missing_scope":                       "the app lacks a right that it needs: give it, and reconnect this Slack workspace",
	"ratelimited":                         "Slack wants no more requests for now",
}

const msgReconnect = "Slack does not accept this token any more: reconnect this Slack workspace"

// saying returns words for a code.
func saying(r answered, secrets transport.Secrets) string {
	words, known := sayings[r.Error]
	switch {
	case !known && kinds[r.Error] == job.FailAuth:
		words = msgReconnect
	case !known:
		words = "Slack refused"
	}
	if words += " (" + r.Error; r.Needed != "" {
		words += ", needed: " + r.Needed
	}
	return secrets.Quote(words+")", transport.MaxMessage)
}
