package server

import (
	"strings"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
)

// Rules of this file: most requests are of one simple form. Here they are checked at a small part
// of the cost of the contract's rules. All other requests go to the rules, and only the rules
// refuse. So the fast path accepts fewer texts than the rules do, and never more.

const (
	fastPathMaxKey    = 255
	fastPathMaxURL    = 2048
	fastPathMaxBody   = 256 << 10
	fastPathMaxLabels = 32
)

// fastPathValid reports whether a request is of the common form and obeys the contract's rules.
// False proves nothing: the rules decide. It looks at every field of the request that a rule is
// about.
func fastPathValid(r *fireoncev1.ScheduleJobRequest) bool {
	hook := r.GetPayload().GetWebhook()
	return !hasTerms(r) && hook != nil && len(hook.GetHeaders()) == 0 &&
		within(r.GetIdempotencyKey(), 1, fastPathMaxKey, printableNoSpace) &&
		(fastPathUUID(r.GetConnectionId()) || within(r.GetConnectionKey(), 1, fastPathMaxKey, printableNoSpace)) && fastPathLabels(r.GetLabels()) && fastPathURL(hook.GetUrl()) &&
		(hook.GetContentType() == "" || hook.GetContentType() == "application/json") &&
		len(hook.GetBody()) <= fastPathMaxBody && len(hook.GetBodyText()) <= fastPathMaxBody
}

// hasTerms reports whether a request sets one of the fields that most leave out.
func hasTerms(r *fireoncev1.ScheduleJobRequest) bool {
	return r.GetDeriveKey() || r.GetStartWindow() != nil || r.GetRetryPolicy() != nil || r.GetAttemptTimeout() != nil ||
		r.GetTimeZone() != "" || r.GetLocalTime() != nil || r.GetReplyTo() != nil || r.GetWaitWindow() != nil ||
		r.GetEffectKey() != "" || r.GetSkipIfPresent() != nil ||
		r.GetAmbiguityPolicy() != fireoncev1.AmbiguityPolicy_AMBIGUITY_POLICY_UNSPECIFIED
}

func fastPathLabels(labels map[string]string) bool {
	if len(labels) > fastPathMaxLabels {
		return false
	}
	for k, v := range labels {
		if !within(k, 1, 63, labelByte) || !lower(k[0]) || !within(v, 0, 255, printable) {
			return false
		}
	}
	return true
}

// fastPathURL knows http and https with a host of ASCII, an optional port, a path
// and a query, with nothing that is encoded.
func fastPathURL(url string) bool {
	rest, found := strings.CutPrefix(url, "https://")
	if !found {
		rest, found = strings.CutPrefix(url, "http://")
	}
	if !found || len(url) > fastPathMaxURL {
		return false
	}
	authority, target := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, target = rest[:i], rest[i+1:]
	}
	host, port, withPort := strings.Cut(authority, ":")
	return within(host, 1, 255, hostByte) && (!withPort || within(port, 1, 5, digit)) && within(target, 0, fastPathMaxURL, targetByte)
}

// fastPathUUID knows the form with four hyphens, in any case.
func fastPathUUID(id string) bool {
	if len(id) != 36 {
		return false
	}
	for i := range len(id) {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if id[i] != '-' {
				return false
			}
		} else if c := id[i] | 0x20; !digit(id[i]) && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// within reports whether a text has so many bytes, each of a kind.
func within(s string, least, most int, kind func(byte) bool) bool {
	if len(s) < least || len(s) > most {
		return false
	}
	for i := range len(s) {
		if !kind(s[i]) {
			return false
		}
	}
	return true
}

func digit(c byte) bool            { return c >= '0' && c <= '9' }
func lower(c byte) bool            { return c >= 'a' && c <= 'z' }
func printable(c byte) bool        { return c >= ' ' && c <= '~' }
func printableNoSpace(c byte) bool { return c > ' ' && c <= '~' }
func labelByte(c byte) bool        { return lower(c) || digit(c) || c == '_' || c == '.' || c == '-' }
func hostByte(c byte) bool         { return lower(c|0x20) || digit(c) || c == '.' || c == '-' }

// targetByte is what stands unencoded in paths and in queries.
func targetByte(c byte) bool {
	return lower(c|0x20) || digit(c) || strings.IndexByte("-._~/=&+:@,;?!*'()$", c) >= 0
}
