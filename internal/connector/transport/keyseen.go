package transport

import (
	"encoding/json"
	"slices"
	"strings"
)

// Rules of this file: a refusal of a request with a key may be about the key, and then an
// earlier request with it may have acted. Only 409 and 422 say so by their status (IETF draft
// idempotency-key-header, section 2.7); other statuses say it in words, of which no list is
// complete. A word too many costs a repeat under the key; one that is missing reports a request
// that acted as refused. So words of a kind count, and not codes of services.

// seenWords are said of a key that was there before, in small letters and with blanks.
var seenWords = []string{
	"already", "reuse", "re use", "been used", "was used", "used for", "used with", "used by", "in use", "same", "duplicate", "mismatch", "conflict", "different", "inconsistent",
	"changed", "previous", "in progress", "in process", "concurrent", "in flight", "pending", "locked",
}

// seenPhrases say it without a name for the key.
var seenPhrases = []string{
	"duplicate request", "duplicate transaction", "already processed", "already been processed", "already being processed", "request already", "request id has already",
	"invalid idempotent request", "idempotency error", "idempotent error",
}

// keySeen reports whether an answer says that its request's key was there before.
func keySeen(a Response) bool {
	var body any
	if json.Unmarshal(a.Excerpt, &body) != nil {
		return saysSeen(string(a.Excerpt))
	}
	if problem, is := body.(map[string]any); is && strings.Contains(a.Header.Get("Content-Type"), "application/problem+json") {
		// The draft's example is a problem document (RFC 9457) whose type names idempotency.
		if kind, _ := problem["type"].(string); strings.Contains(strings.ToLower(kind), "idempotency") {
			return true
		}
	}
	return anySeen(body)
}

// anySeen looks at each text of a JSON value. Names are not looked at: an answer may repeat the
// request's headers.
func anySeen(value any) bool {
	switch v := value.(type) {
	case string:
		return saysSeen(v)
	case []any:
		return slices.ContainsFunc(v, anySeen)
	case map[string]any:
		for _, member := range v {
			if anySeen(member) {
				return true
			}
		}
	}
	return false
}

func saysSeen(text string) bool {
	text = strings.Join(strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return r <= ' ' || r == '_' || r == '-' }), " ")
	has := func(words string) bool { return strings.Contains(text, words) }
	// Between the words of a code such as IdempotentParameterMismatch there are no blanks.
	return slices.ContainsFunc(seenPhrases, has) || has("idempoten") && slices.ContainsFunc(seenWords, has)
}
