package x

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// problem is how X describes a request that it refuses: RFC 9457, or the older list of
// codes.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Detail string `json:"detail"`
	Reason string `json:"reason"`
	Errors []struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Detail  string `json:"detail"`
	} `json:"errors"`
}

func problemOf(a transport.Response) problem {
	var p problem
	_ = json.Unmarshal(a.Excerpt, &p) // another body leaves it empty
	return p
}

// text is all of its words, in lower case.
func (p problem) text() string {
	all := []string{p.Type, p.Title, p.Detail, p.Reason}
	for _, e := range p.Errors {
		all = append(all, e.Message, e.Detail)
	}
	return strings.ToLower(strings.Join(all, "\n"))
}

func (p problem) code(codes ...int) bool {
	for _, e := range p.Errors {
		if slices.Contains(codes, e.Code) {
			return true
		}
	}
	return false
}

// duplicate reports that the account has the same content already: "You are not allowed
// to create a Tweet with duplicate content." (403, type about:blank, seen in 2023 and
// 2026), code 187 of the older API, and 151 for direct messages.
func (p problem) duplicate() bool {
	return strings.Contains(p.text(), "duplicate content") || p.code(187, 151)
}

// barred reports that it is the account or its app that X does not serve, and not this
// request: client-forbidden and the like (problems' types), suspended (code 64),
// locked (326), without the right to write (261).
func (p problem) barred() bool {
	return p.suspended() || p.code(261) || p.says(
		"/problems/client-forbidden", "/problems/unsupported-authentication", "/problems/oauth1-permissions", "client-not-enrolled",
		"not configured with the appropriate")
}

// suspended reports that the account is suspended (code 64) or locked (326).
func (p problem) suspended() bool {
	return p.code(64, 326) || p.says(
		"your account is suspended", "your account is temporarily locked", "your account has been locked")
}

func (p problem) says(words ...string) bool {
	text := p.text()
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(text, word) })
}

// credits reports that what was paid for is used up.
func (p problem) credits() bool {
	return p.Title == "CreditsDepleted" || strings.HasSuffix(p.Type, "/problems/credits")
}

// capped reports that a month's use is used up.
func (p problem) capped() bool {
	return strings.HasSuffix(p.Type, "/problems/usage-capped") || p.Title == "UsageCapExceeded"
}

// quote puts X's own words behind ours.
func (p problem) quote(ours string, secrets transport.Secrets) string {
	words := p.Detail
	if words == "" && len(p.Errors) > 0 {
		words = p.Errors[0].Message
	}
	const limit = 300
	if words = secrets.Quote(words, limit); words == "" {
		return ours
	}
	return transport.Clean(ours+" (X says: "+words+")", transport.MaxMessage)
}

// longWait is the pause after a limit is used up whose reset X does not name.
const longWait = time.Hour

// wait is how long a limit lasts: until the latest reset of those that are used up, or
// as Retry-After has it. Resets are in seconds of X's own clock. asked reports whether X says so.
func (p problem) wait(a transport.Response) (wait time.Duration, asked bool) {
	now, ok := clockOf(a)
	if !ok {
		now = a.At
	}
	var until time.Time
	for _, name := range []string{"x-rate-limit", "x-app-limit-24hour", "x-user-limit-24hour"} {
		if left := a.Header.Get(name + "-remaining"); left != "0" && (left != "" || name != "x-rate-limit") {
			continue
		}
		if n, err := strconv.ParseInt(a.Header.Get(name+"-reset"), 10, 64); err == nil && time.Unix(n, 0).After(until) {
			until = time.Unix(n, 0)
		}
	}
	wait, asked = transport.RetryAfter(a.Header, a.At)
	switch {
	case !until.IsZero():
		asked = true
		// Its second, and one for what its clock's whole seconds took off.
		wait = max(min(until.Sub(now), transport.MaxRetryAfter-time.Second)+time.Second, transport.MinRetryAfter)
	case !asked && (p.credits() || p.capped()):
		wait = longWait
	case !asked && a.Status == 429:
		wait = transport.DefaultRetryAfter
	}
	return wait, asked
}

// hold has an outcome wait for a limit.
func (p problem) hold(o *job.Outcome, a transport.Response, ours string, secrets transport.Secrets) {
	wait, asked := p.wait(a)
	o.RetryAfter, o.Message = wait, p.quote(ours, secrets)
	if asked {
		o.Message = transport.Clean(o.Message+transport.AsksToWait(a, wait), transport.MaxMessage)
	}
}
