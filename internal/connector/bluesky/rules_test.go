package bluesky_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/bluesky"
	"github.com/fireonce/fireonce/internal/connector/connectortest"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

func TestCheckRefuses(t *testing.T) {
	c := bluesky.New(bluesky.Config{HTTPSOnly: true})
	good := credential(t, handle, password)
	for name, base := range map[string]string{
		"http": "http://pds.example", "user": "https://a:b@pds.example", "query": "https://pds.example?a=b", "the pages": "https://bsky.app", "a page": "https://pds.example/profile/a", "an API": "https://pds.example/xrpc/", "long": "https://pds.example/" + strings.Repeat("a", 2030),
	} {
		_, err := c.Check(settingsOf(t, base), good)
		var input *connector.InputError
		if !errors.As(err, &input) || input.Reason != connector.BadSettings || input.Field != "settings.bluesky.base_url" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, err := c.Check(nil, good); err != nil || got.Class != job.Keyed || got.KeyWindow != bluesky.KeyWindow || got.Unsure {
		t.Errorf("bsky.social: %+v, %v", got, err)
	}
	for name, cred := range map[string]*connectionsv1.Credential{
		"none":        {},
		"a token":     {Kind: &connectionsv1.Credential_BearerToken{BearerToken: &connectionsv1.BearerToken{Token: "secret-token"}}},
		"no password": {Kind: &connectionsv1.Credential_Basic{Basic: &connectionsv1.BasicAuth{Username: handle}}},
		"no name":     {Kind: &connectionsv1.Credential_Basic{Basic: &connectionsv1.BasicAuth{Username: " @", Password: "secret-word"}}},
		"headers": {
			Kind:    &connectionsv1.Credential_Basic{Basic: &connectionsv1.BasicAuth{Username: handle, Password: "secret-word"}},
			Headers: []*connectionsv1.SecretHeader{{Name: "X-A", Value: "secret-header"}},
		},
	} {
		_, err := c.Check(nil, connector.Credential{Data: encode(t, cred)})
		var input *connector.InputError
		if !errors.As(err, &input) || input.Reason != connector.BadCredential || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPrepareRefuses(t *testing.T) {
	c := bluesky.New(bluesky.Config{})
	options := func(o *fireoncev1.BlueskyOptions) *fireoncev1.SocialPost {
		return &fireoncev1.SocialPost{Text: "x", PlatformOptions: &fireoncev1.SocialPost_Bluesky{Bluesky: o}}
	}
	for name, r := range map[string]struct {
		post    *fireoncev1.SocialPost
		replyTo string
		field   string
		reason  connector.InputReason
	}{
		"blank":               {&fireoncev1.SocialPost{Text: " \u2028\n"}, "", ".text", connector.BadPayload},
		"301 graphemes":       {&fireoncev1.SocialPost{Text: strings.Repeat("é", 301)}, "", ".text", connector.BadPayload},
		"too many bytes":      {&fireoncev1.SocialPost{Text: strings.Repeat("👩‍👩‍👧‍👦", 121)}, "", ".text", connector.BadPayload},
		"a reply to a number": {&fireoncev1.SocialPost{Text: "x", ReplyToId: "42"}, "", ".reply_to_id", connector.BadPayload},
		"a reply to a like":   {&fireoncev1.SocialPost{Text: "x", ReplyToId: "at://" + did + "/app.bsky.feed.like/3k"}, "", ".reply_to_id", connector.BadPayload},
		"two replies":         {&fireoncev1.SocialPost{Text: "x", ReplyToId: uriOf("3k")}, uriOf("3l"), ".reply_to_id", connector.BadPayload},
		"another's reply":     {&fireoncev1.SocialPost{Text: "x"}, "42", "", connector.BadPayload},
		"another's options": {
			&fireoncev1.SocialPost{Text: "x", PlatformOptions: &fireoncev1.SocialPost_X{X: &fireoncev1.XOptions{}}}, "", "", connector.PayloadMismatch,
		},
		"half a quote":       {options(&fireoncev1.BlueskyOptions{QuoteUri: uriOf("3k")}), "", ".bluesky", connector.BadPayload},
		"a quote of a page":  {options(&fireoncev1.BlueskyOptions{QuoteUri: "https://bsky.app", QuoteCid: "bafy"}), "", ".bluesky.quote_uri", connector.BadPayload},
		"no language at all": {&fireoncev1.SocialPost{Text: "x", Language: "-"}, "", ".language", connector.BadPayload},
	} {
		_, err := c.Prepare(connector.Request{
			EffectKey: effectKey, PayloadKind: bluesky.PayloadKind, Payload: payloadOf(t, r.post), ReplyTo: r.replyTo,
		})
		var input *connector.InputError
		if !errors.As(err, &input) || input.Reason != r.reason || input.Field != "payload.social_post"+r.field {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, text := range map[string]string{
		"300 graphemes": strings.Repeat("👩‍👩‍👧", 120) + strings.Repeat("e\u0301", 180),
		"one":           "x",
	} {
		if _, err := c.Prepare(connector.Request{
			EffectKey: effectKey, PayloadKind: bluesky.PayloadKind, Payload: payloadOf(t, &fireoncev1.SocialPost{Text: text}),
		}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// server scripts one server: what it answers by method of XRPC, in turn; the last
// answer stays.
type server struct {
	*connectortest.Platform
	mu      sync.Mutex
	answers map[string][]string
	asked   []string
}

func (s *server) answer(r connectortest.Received) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, method, _ := strings.Cut(strings.Fields(r.Line)[1], "/xrpc/")
	method, _, _ = strings.Cut(strings.TrimPrefix(method, "com.atproto."), "?")
	s.asked = append(s.asked, method)
	list := s.answers[method]
	if len(list) == 0 {
		return connectortest.Answer(501, "")
	}
	if len(list) > 1 {
		s.answers[method] = list[1:]
	}
	return list[0]
}

func (s *server) count(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(s.asked), func(m string) bool { return m != method }))
}

// world is a connector and a scripted server.
type world struct {
	*server
	c   *bluesky.Connector
	now time.Time
}

const (
	putRecord      = "repo.putRecord"
	getRecord      = "repo.getRecord"
	createSession  = "server.createSession"
	refreshSession = "server.refreshSession"
)

func sessionAnswer(access, refresh string) string {
	return connectortest.Answer(200, fmt.Sprintf(`{"did":%q,"handle":%q,"accessJwt":%q,"refreshJwt":%q}`, did, handle, access, refresh))
}

func failure(status int, name string, headers ...string) string {
	return connectortest.Answer(status, fmt.Sprintf(`{"error":%q,"message":"because"}`, name), headers...)
}

func putAnswer() string {
	return connectortest.Answer(200, fmt.Sprintf(`{"uri":%q,"cid":"bafyreia"}`, uriOf(postKey)))
}

func newWorld(t *testing.T, answers map[string][]string) *world {
	t.Helper()
	w := &world{server: &server{answers: answers}, now: time.Now()}
	if answers[createSession] == nil {
		answers[createSession] = []string{sessionAnswer(token("access", time.Hour), token("refresh", 24*time.Hour))}
	}
	w.Platform = connectortest.NewPlatform(t, false, connectortest.Script{Do: func(c *connectortest.Conn) { c.Write(w.answer(c.Request)) }})
	w.c = bluesky.New(bluesky.Config{Sender: w.Sender(), Now: func() time.Time { return w.now }})
	return w
}

func (w *world) opening(t *testing.T, p *fireoncev1.SocialPost) connector.Opening {
	t.Helper()
	settings := settingsOf(t, w.URL())
	prepared, err := w.c.Prepare(connector.Request{
		EffectKey: effectKey, Settings: settings, PayloadKind: bluesky.PayloadKind, Payload: payloadOf(t, p),
	})
	if err != nil {
		t.Fatal(err)
	}
	return connector.Opening{Settings: settings, Class: job.Keyed, Credential: credential(t, handle, password), Prepared: prepared}
}

func (w *world) send(t *testing.T, attempt int) (job.Outcome, error) {
	t.Helper()
	s, err := w.c.Open(t.Context(), w.opening(t, &fireoncev1.SocialPost{Text: text}))
	if err != nil {
		return job.Outcome{}, err
	}
	defer s.Close()
	at := time.Now().Add(30 * time.Second)
	return s.Publish(connector.Commit{Attempt: attempt, EffectKey: effectKey, SendBy: at, AnswerBy: at}), nil
}

// sent is send that must come to an outcome.
func (w *world) sent(t *testing.T, attempt int) job.Outcome {
	t.Helper()
	o, err := w.send(t, attempt)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestErrors: what the body names counts, and not the status.
func TestErrors(t *testing.T) {
	reset := fmt.Sprintf("RateLimit-Reset: %d", time.Now().Add(5*time.Minute).Unix())
	for name, c := range map[string]struct {
		answer string
		result job.Result
		kind   job.FailureKind
		words  string
	}{
		"invalid record":    {failure(400, "InvalidRequest"), job.ResultRejected, job.FailPermanent, "because"},
		"expired, fresh":    {failure(400, "ExpiredToken"), job.ResultRejected, job.FailAuth, "Reconnect this Bluesky account"},
		"invalid, fresh":    {failure(400, "InvalidToken"), job.ResultRejected, job.FailAuth, "Reconnect this Bluesky account"},
		"takedown":          {failure(400, "AccountTakedown"), job.ResultRejected, job.FailAuth, "Reconnect this Bluesky account"},
		"deactivated":       {failure(403, "AccountDeactivated"), job.ResultRejected, job.FailAuth, "Reconnect this Bluesky account"},
		"401":               {failure(401, "AuthMissing"), job.ResultRejected, job.FailAuth, "Reconnect this Bluesky account"},
		"limited":           {failure(429, "RateLimitExceeded", reset), job.ResultRejected, job.FailRateLimited, "because"},
		"limited with 400":  {failure(400, "RateLimitExceeded", reset), job.ResultRejected, job.FailRateLimited, "because"},
		"upstream":          {failure(502, "UpstreamFailure"), job.ResultUnknown, job.FailAmbiguous, "502"},
		"5xx, expired":      {failure(500, "ExpiredToken"), job.ResultUnknown, job.FailAmbiguous, "500"},
		"5xx, swap":         {failure(500, "InvalidSwap"), job.ResultUnknown, job.FailAmbiguous, "500"},
		"another's address": {connectortest.Answer(200, `{"uri":"at://did:plc:other/app.bsky.feed.post/`+postKey+`","cid":"x"}`), job.ResultUnknown, job.FailAmbiguous, "address"},
		"no cid":            {connectortest.Answer(200, fmt.Sprintf(`{"uri":%q}`, uriOf(postKey))), job.ResultUnknown, job.FailAmbiguous, "address"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, map[string][]string{putRecord: {c.answer}})
			o := w.sent(t, 1)
			if o.Result != c.result || o.Kind != c.kind || !strings.Contains(o.Message, c.words) {
				t.Errorf("%s %s: %s", o.Result, o.Kind, o.Message)
			}
			if o.Kind == job.FailRateLimited && (o.RetryAfter < 4*time.Minute || o.RetryAfter > 5*time.Minute) {
				t.Errorf("retry after %v", o.RetryAfter)
			}
		})
	}
}

// TestReadsBeforeTheSend: a session that is over as the post that is answered is read is
// renewed; one that began just now says that the account may not.
func TestReadsBeforeTheSend(t *testing.T) {
	reply := &fireoncev1.SocialPost{Text: text, ReplyToId: uriOf("3kabcdefghijk")}
	parent := connectortest.Answer(200, fmt.Sprintf(`{"uri":%q,"cid":"bafyreia","value":{"$type":"app.bsky.feed.post","text":"a","createdAt":"2026-11-21T08:00:00.000Z"}}`, reply.GetReplyToId()))
	for _, name := range []string{"ExpiredToken", "InvalidToken"} {
		w := newWorld(t, map[string][]string{
			putRecord: {putAnswer()}, getRecord: {failure(400, name), parent, failure(400, name), parent},
			createSession:  {sessionAnswer(token("access", time.Hour), token("refresh", 24*time.Hour)), sessionAnswer(token("access two", time.Hour), token("refresh two", 24*time.Hour))},
			refreshSession: {failure(400, "ExpiredToken")},
		})
		for i, want := range []job.FailureKind{job.FailAuth, 0, job.FailTransient, 0} {
			s, err := w.c.Open(t.Context(), w.opening(t, reply))
			if want != 0 {
				if r := wantRefusal(t, err, want); strings.Contains(r.Msg, "Reconnect this Bluesky account") != (want == job.FailAuth) {
					t.Errorf("%s: %v", name, err)
				}
				continue
			}
			if err != nil {
				t.Fatalf("%s, line %d: %v", name, i, err)
			}
			s.Close()
		}
		if w.count(putRecord) != 0 {
			t.Errorf("posted: %v", w.asked)
		}
	}
}

// TestMentions: a mention names the account's DID; a handle that no account has stays text, and a server
// that cannot be asked costs the attempt alone.
func TestMentions(t *testing.T) {
	const text = "@ada.bsky.social @nobody.example.org @ada.bsky.social #tag"
	there := connectortest.Answer(200, fmt.Sprintf(`{"did":%q}`, "did:plc:ada"))
	w := newWorld(t, map[string][]string{putRecord: {putAnswer()}, "identity.resolveHandle": {
		failure(502, "UpstreamFailure"), connectortest.Answer(200, `{}`), there, failure(400, "InvalidRequest"),
	}})
	o := w.opening(t, &fireoncev1.SocialPost{Text: text})
	if o.Prepared.OpenTime == 0 {
		t.Error("no time to ask for accounts")
	}
	for range 2 {
		_, err := w.c.Open(t.Context(), o)
		wantRefusal(t, err, job.FailTransient)
	}
	s, err := w.c.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	at := time.Now().Add(30 * time.Second)
	if got := s.Publish(connector.Commit{Attempt: 1, EffectKey: effectKey, SendBy: at, AnswerBy: at}); got.Result != job.ResultSucceeded {
		t.Fatalf("%s: %s", got.Result, got.Message)
	}
	all := w.Requests()
	body := string(all[len(all)-1].Body)
	if strings.Count(body, `"did":"did:plc:ada"`) != 2 || strings.Contains(body, `"did":"nobody`) || !strings.Contains(body, `"tag":"tag"`) {
		t.Errorf("the record is %s", body)
	}
	if n := w.count("identity.resolveHandle"); n != 4 {
		t.Errorf("asked %d times for two accounts", n)
	}
}

// TestOccupied: a record at our key is our post, or the words say that it may be.
func TestOccupied(t *testing.T) {
	at := func(key, text, created string) string {
		return connectortest.Answer(200, fmt.Sprintf(
			`{"uri":%q,"cid":"bafyreia","value":{"$type":"app.bsky.feed.post","text":%q,"createdAt":%q,"embed":{"$type":"app.bsky.embed.images","images":[]}}}`,
			uriOf(key), text, created))
	}
	const created = "2023-01-01T00:00:00.000Z" // of a request without a time
	for name, c := range map[string]struct {
		there   string
		attempt int
		result  job.Result
		kind    job.FailureKind
	}{
		"ours":                   {at(postKey, text, created), 2, job.ResultSucceeded, 0},
		"ours, to a first":       {at(postKey, text, created), 1, job.ResultSucceeded, 0},
		"another text":           {at(postKey, "edited", created), 2, job.ResultUnknown, job.FailAmbiguous},
		"another time":           {at(postKey, text, "2025-10-07T22:49:58.529Z"), 1, job.ResultSucceeded, 0},
		"another text, first":    {at(postKey, "edited", created), 1, job.ResultUnknown, job.FailAmbiguous},
		"another key":            {at("3kabcdefghijk", text, created), 2, job.ResultUnknown, job.FailAmbiguous},
		"gone":                   {failure(400, "RecordNotFound"), 2, job.ResultUnknown, job.FailAmbiguous},
		"cannot be read":         {failure(500, "InternalServerError"), 2, job.ResultUnknown, job.FailAmbiguous},
		"not readable as a post": {connectortest.Answer(200, `{"uri":"x"}`), 2, job.ResultUnknown, job.FailAmbiguous},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, map[string][]string{putRecord: {failure(400, "InvalidSwap")}, getRecord: {c.there}})
			o := w.sent(t, c.attempt)
			if o.Result != c.result || o.Kind != c.kind || o.Message == "" || (o.ExternalID == uriOf(postKey)) != (c.result == job.ResultSucceeded) {
				t.Errorf("%s %s %q: %s", o.Result, o.Kind, o.ExternalID, o.Message)
			}
			if w.count(putRecord) != 1 || w.count(getRecord) != 1 {
				t.Errorf("asked %v", w.asked)
			}
		})
	}
}

// TestSessions: a password is exchanged seldom, and one job at a time does.
func TestSessions(t *testing.T) {
	t.Run("one sign-in for many", func(t *testing.T) {
		w := newWorld(t, map[string][]string{putRecord: {putAnswer()}})
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if o, err := w.send(t, 1); err != nil || o.Result != job.ResultSucceeded {
					t.Errorf("%+v, %v", o, err)
				}
			})
		}
		wg.Wait()
		if n := w.count(createSession); n != 1 || w.count(putRecord) != 20 {
			t.Errorf("%d sign-ins for %d posts", n, w.count(putRecord))
		}
	})
	t.Run("refreshed before its end", func(t *testing.T) {
		w := newWorld(t, map[string][]string{
			putRecord: {putAnswer()}, refreshSession: {sessionAnswer(token("access two", 3*time.Hour), token("refresh two", 24*time.Hour))},
		})
		for _, passed := range []time.Duration{0, 54 * time.Minute, 2 * time.Minute, 10 * time.Minute} {
			w.now = w.now.Add(passed)
			w.sent(t, 1)
		}
		if w.count(createSession) != 1 || w.count(refreshSession) != 1 {
			t.Errorf("asked %v", w.asked)
		}
	})
	for name, refresh := range map[string]string{
		"a refresh that is refused is a sign-in":     failure(400, "ExpiredToken"),
		"a refresh for another account is a sign-in": strings.ReplaceAll(sessionAnswer(token("a", time.Hour), token("r", time.Hour)), did, "did:plc:another11111111111111111"[:len(did)]),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, map[string][]string{putRecord: {putAnswer()}, refreshSession: {refresh}})
			w.sent(t, 1)
			w.now = w.now.Add(2 * time.Hour)
			w.sent(t, 1)
			if w.count(createSession) != 2 || w.count(refreshSession) != 1 {
				t.Errorf("asked %v", w.asked)
			}
		})
	}
	t.Run("a refresh that fails is tried again", func(t *testing.T) {
		w := newWorld(t, map[string][]string{
			putRecord:      {putAnswer()},
			refreshSession: {failure(503, "NotNow"), sessionAnswer(token("access two", 3*time.Hour), token("refresh two", 24*time.Hour))},
		})
		w.sent(t, 1)
		w.now = w.now.Add(2 * time.Hour)
		_, err := w.send(t, 1)
		wantRefusal(t, err, job.FailTransient)
		w.sent(t, 1)
		if w.count(createSession) != 1 || w.count(refreshSession) != 2 {
			t.Errorf("asked %v", w.asked)
		}
	})
	for _, name := range []string{"ExpiredToken", "InvalidToken"} {
		t.Run(name+" of a kept session holds nobody", func(t *testing.T) {
			w := newWorld(t, map[string][]string{
				putRecord:      {putAnswer(), failure(400, name), putAnswer()},
				refreshSession: {sessionAnswer(token("access two", 3*time.Hour), token("refresh two", 24*time.Hour))},
			})
			w.sent(t, 1)
			if o := w.sent(t, 1); o.Result != job.ResultRejected || o.Kind != job.FailTransient {
				t.Errorf("%s %s: %s", o.Result, o.Kind, o.Message)
			}
			if o := w.sent(t, 2); o.Result != job.ResultSucceeded {
				t.Errorf("%s %s: %s", o.Result, o.Kind, o.Message)
			}
			if asked := w.count(createSession) + w.count(refreshSession); asked != 2 {
				t.Errorf("asked %v", w.asked)
			}
		})
	}
}

// TestSignInRefused: why there is no session, in words for the account's owner.
func TestSignInRefused(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		kind   job.FailureKind
		words  string
	}{
		"a wrong password":   {failure(401, "AuthenticationRequired"), job.FailAuth, "Reconnect this Bluesky account"},
		"a code by e-mail":   {failure(401, "AuthFactorTokenRequired"), job.FailAuth, "wants a code by e-mail"},
		"taken down":         {failure(400, "AccountTakedown"), job.FailAuth, "Reconnect"},
		"not active":         {connectortest.Answer(200, fmt.Sprintf(`{"did":%q,"handle":"a","accessJwt":"a","active":false}`, did)), job.FailAuth, "not active"},
		"limited":            {failure(429, "RateLimitExceeded", "Retry-After: 120"), job.FailRateLimited, "429"},
		"out of order":       {failure(500, "InternalServerError"), job.FailTransient, "500"},
		"a web page":         {connectortest.Answer(200, "<html>"), job.FailTransient, "no session"},
		"no DID":             {connectortest.Answer(200, `{"did":"ada","accessJwt":"a"}`), job.FailTransient, "no session"},
		"a token of two":     {connectortest.Answer(200, fmt.Sprintf(`{"did":%q,"accessJwt":"a\r\nX: b"}`, did)), job.FailTransient, "no session"},
		"echoes what it got": {failure(401, password), job.FailAuth, "[redacted]"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, map[string][]string{createSession: {c.answer}, putRecord: {putAnswer()}})
			_, err := w.send(t, 1)
			refusal := wantRefusal(t, err, c.kind)
			if !strings.Contains(refusal.Msg, c.words) || strings.Contains(err.Error(), password) {
				t.Errorf("%v", err)
			}
			if c.kind == job.FailRateLimited && refusal.RetryAfter != 2*time.Minute {
				t.Errorf("retry after %v", refusal.RetryAfter)
			}
			if w.count(putRecord) != 0 {
				t.Error("posted without a session")
			}
		})
	}
}

func wantRefusal(t *testing.T, err error, kind job.FailureKind) *connector.Refusal {
	t.Helper()
	var refusal *connector.Refusal
	if !errors.As(err, &refusal) || refusal.Kind != kind {
		t.Fatalf("%v, want a Refusal of kind %s", err, kind)
	}
	return refusal
}

// TestFrozen: the same job says the same, whenever it is prepared, and its time is
// when it was due.
func TestFrozen(t *testing.T) {
	c := bluesky.New(bluesky.Config{})
	due := time.Date(2026, 11, 21, 8, 0, 0, 123456789, time.FixedZone("", 3600))
	frozen := func(edit func(*connector.Request, *fireoncev1.SocialPost)) string {
		p := &fireoncev1.SocialPost{Text: text}
		r := connector.Request{EffectKey: effectKey, PayloadKind: bluesky.PayloadKind, Due: due}
		edit(&r, p)
		r.Payload = payloadOf(t, p)
		got, err := c.Prepare(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(got.Frozen)
	}
	first := frozen(func(*connector.Request, *fireoncev1.SocialPost) {})
	if !strings.Contains(first, `"createdAt":"2026-11-21T07:00:00.123Z"`) || !strings.Contains(first, postKey) {
		t.Errorf("frozen %q", first)
	}
	for name, edit := range map[string]func(*connector.Request, *fireoncev1.SocialPost){
		"text":     func(_ *connector.Request, p *fireoncev1.SocialPost) { p.Text += "." },
		"language": func(_ *connector.Request, p *fireoncev1.SocialPost) { p.Language = "de" },
		"reply":    func(_ *connector.Request, p *fireoncev1.SocialPost) { p.ReplyToId = uriOf("3k") },
		"key":      func(r *connector.Request, _ *fireoncev1.SocialPost) { r.EffectKey += ".2" },
		"time":     func(r *connector.Request, _ *fireoncev1.SocialPost) { r.Due = r.Due.Add(time.Second) },
	} {
		if frozen(edit) == first {
			t.Errorf("another %s, and the same bytes", name)
		}
	}
}

func TestTester(t *testing.T) {
	w := newWorld(t, map[string][]string{putRecord: {putAnswer()}})
	o := connector.Opening{Settings: settingsOf(t, w.URL()), Credential: credential(t, handle, password)}
	for range 2 { // a kept session says nothing about the password
		got, err := w.c.Test(t.Context(), o)
		if err != nil || got.Identity != did || !strings.Contains(got.Detail, "@"+handle) {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if w.count(createSession) != 2 || len(w.asked) != 2 {
		t.Errorf("asked %v", w.asked)
	}
	none := bluesky.New(bluesky.Config{Sender: transport.NewSender(transport.Config{Egress: transport.NewEgress(netip.MustParsePrefix("10.0.0.0/8"))})})
	_, err := none.Test(t.Context(), o)
	wantRefusal(t, err, job.FailEgressDenied)
	o.Credential = connector.Credential{Data: encode(t, proto.Message(&connectionsv1.Credential{}))}
	_, err = w.c.Test(t.Context(), o)
	wantRefusal(t, err, job.FailPermanent)
}

// TestPrepareMedia: what can be known of files before they are fetched.
func TestPrepareMedia(t *testing.T) {
	fetcher := kit.NewMedia(kit.MediaConfig{})
	ref := &fireoncev1.MediaRef{Url: "https://files.example/a"}
	for name, c := range map[string]struct {
		fetcher *kit.Media
		media   []*fireoncev1.MediaRef
		field   string
	}{
		"nobody fetches": {nil, []*fireoncev1.MediaRef{ref}, ".media"},
		"five":           {fetcher, []*fireoncev1.MediaRef{ref, ref, ref, ref, ref}, ".media"},
		"no file at all": {fetcher, []*fireoncev1.MediaRef{ref, {Url: "ftp://files.example/a"}}, ".media[1].url"},
		"another kind":   {fetcher, []*fireoncev1.MediaRef{{Url: ref.GetUrl(), MediaType: "video/mp4"}}, ".media[0].media_type"},
		"four":           {fetcher, []*fireoncev1.MediaRef{ref, ref, ref, ref}, ""},
	} {
		got, err := bluesky.New(bluesky.Config{Media: c.fetcher}).Prepare(connector.Request{EffectKey: effectKey, PayloadKind: bluesky.PayloadKind, Payload: payloadOf(t, &fireoncev1.SocialPost{Media: c.media})})
		if c.field == "" {
			if err != nil || got.OpenTime <= time.Minute {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
			continue
		}
		var input *connector.InputError
		if !errors.As(err, &input) || input.Reason != connector.BadPayload || input.Field != "payload.social_post"+c.field {
			t.Errorf("%s: %v", name, err)
		}
	}
}
