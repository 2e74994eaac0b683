package sandbox

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/fireonce/fireonce/internal/connector/httpapi/apitest"
	"github.com/fireonce/fireonce/internal/connector/mastodon/mastodontest"
	"github.com/fireonce/fireonce/internal/connector/resend/resendtest"
	"github.com/fireonce/fireonce/internal/connector/slack/slacktest"
	"github.com/fireonce/fireonce/internal/connector/tiktok/tiktoktest"
	"github.com/fireonce/fireonce/internal/connector/x/xtest"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/node"
)

// The platforms' names: their connections' keys, and their anchors on the page.
const (
	nameX        = "x"
	nameTikTok   = "tiktok"
	nameMastodon = "mastodon"
	nameSlack    = "slack"
	nameResend   = "resend"
	namePayments = "payments"
	nameOrders   = "orders"
	nameMail     = "mail"
)

// sites makes the fakes, in the order of the page and of their ports.
func sites() []*site {
	return []*site{xSite(), tiktokSite(), mastodonSite(), slackSite(), resendSite(), paymentsSite(), ordersSite(), mailSite()}
}

// post is a kind for platforms on which one POST to a path is the effect, and other POSTs
// are uploads.
func post(at func(path string) bool) func(request) kind {
	return func(r request) kind {
		path, _, _ := strings.Cut(r.URI, "?")
		switch {
		case r.Method != http.MethodPost:
			return reads
		case at(path):
			return effects
		default:
			return changes
		}
	}
}

func xSite() *site {
	s := &site{
		name: nameX, title: "X", faults: overHTTP,
		about: "Takes no idempotency key: an unknown outcome is looked up on the account.",
		kind: post(func(path string) bool {
			return path == "/2/tweets" || strings.HasPrefix(path, "/2/dm_conversations/")
		}),
	}
	p := xtest.New(xtest.Options{Now: s.now, ResetAfter: limitFor, Plan: func(xtest.Request) xtest.Answer {
		switch s.planned() {
		case Unauthorized:
			return xtest.Unauthorized
		case RateLimit:
			return xtest.RateLimit
		default:
			return xtest.Reply
		}
	}})
	s.handler = p
	s.list = func() (out []Thing) {
		for _, o := range p.Objects() {
			t := Thing{ID: o.ID, Kind: "post", Text: o.Text}
			switch {
			case o.Recipient != "":
				t.Kind, t.Note = "direct message", "to user "+o.Recipient
			case o.ReplyTo != "":
				t.Kind, t.Note = "reply", "to post "+o.ReplyTo
			}
			if n := len(o.Pictures); n > 0 {
				t.Note = strings.TrimSpace(t.Note + fmt.Sprintf(" with %d picture(s)", n))
			}
			out = append(out, t)
		}
		return out
	}
	return s
}

var uploadID = regexp.MustCompile(`upload_id=([0-9]+)`)

func tiktokSite() *site {
	s := &site{
		name: nameTikTok, title: "TikTok", faults: overHTTP,
		about: "Works in two phases: a name for the video first, which is asked for when an outcome is unknown.",
	}
	s.kind = func(r request) kind {
		path, _, _ := strings.Cut(r.URI, "?")
		switch {
		case r.Method == http.MethodPut:
			return effects
		case path == "/v2/post/publish/video/init/", path == "/v2/post/publish/content/init/":
			return prepares
		default:
			return reads
		}
	}
	s.tag = func(r request, answer []byte) string {
		text := r.URI
		if answer != nil {
			text = strings.ReplaceAll(string(answer), `\u0026`, "&")
		}
		if found := uploadID.FindStringSubmatch(text); found != nil {
			return found[1]
		}
		return ""
	}
	p := tiktoktest.New(tiktoktest.Options{Now: s.now, Process: sandboxWork, Moderate: sandboxWork, UploadLife: node.SandboxUploadLife, Plan: func(string) tiktoktest.Answer {
		switch s.planned() {
		case Unauthorized:
			return tiktoktest.Unauthorized
		case RateLimit:
			return tiktoktest.RateLimit
		default:
			return tiktoktest.Reply
		}
	}})
	s.handler, s.uploads = p, p.Uploads
	s.list = func() (out []Thing) {
		for _, v := range p.All() {
			out = append(out, Thing{ID: v.PublishID, Kind: "video", Text: v.Text, Note: strings.ToLower(strings.ReplaceAll(v.Privacy, "_", " "))})
		}
		return out
	}
	return s
}

func mastodonSite() *site {
	s := &site{
		name: nameMastodon, title: "Mastodon", faults: overHTTP,
		about: "Drops an idempotency key that it has seen: an unknown outcome is sent again under its key.",
		kind:  post(func(path string) bool { return path == "/api/v1/statuses" }),
	}
	p := mastodontest.New(mastodontest.Options{Now: s.now, AnyToken: true, LimitFor: limitFor, Plan: func(string) mastodontest.Answer {
		switch s.planned() {
		case Unauthorized:
			return mastodontest.Unauthorized
		case RateLimit:
			return mastodontest.RateLimit
		default:
			return mastodontest.Reply
		}
	}})
	s.handler = p
	s.list = func() (out []Thing) {
		for _, o := range p.Posts() {
			t := Thing{ID: o.ID, Kind: "post", Text: o.Text, Note: o.Visibility}
			if o.ReplyTo != "" {
				t.Kind, t.Note = "reply", "to post "+o.ReplyTo
			}
			out = append(out, t)
		}
		return out
	}
	return s
}

func slackSite() *site {
	s := &site{
		name: nameSlack, title: "Slack", faults: overHTTP,
		about: "Takes no idempotency key: an unknown outcome is looked up by the job's id, which is in each message.",
		kind:  post(func(path string) bool { return path == "/chat.postMessage" }),
	}
	p := slacktest.New(slacktest.Options{Now: s.now, RetryAfter: limitFor, Plan: func(slacktest.Request) slacktest.Answer {
		switch s.planned() {
		case Unauthorized:
			return slacktest.Unauthorized
		case RateLimit:
			return slacktest.RateLimit
		default:
			return slacktest.Reply
		}
	}})
	s.handler = p
	s.list = func() (out []Thing) {
		for _, m := range p.Messages() {
			out = append(out, Thing{ID: m.TS, Kind: "message", Text: m.Text, Note: "in " + m.Channel})
		}
		return out
	}
	return s
}

func resendSite() *site {
	s := &site{
		name: nameResend, title: "Resend", faults: overHTTP,
		about: "Sends e-mails, and drops an idempotency key that it has seen.",
		kind:  post(func(path string) bool { return path == "/emails" }),
	}
	p := resendtest.New(resendtest.Options{Now: s.now, Plan: func(string, int) resendtest.Answer {
		switch s.planned() {
		case Unauthorized:
			return resendtest.Unauthorized
		case RateLimit:
			return resendtest.RateLimit
		default:
			return resendtest.Reply
		}
	}})
	s.handler = p
	s.list = func() (out []Thing) {
		for _, e := range p.Sent() {
			out = append(out, Thing{ID: e.ID, Kind: "e-mail", Text: e.Subject, Note: "to " + strings.Join(e.To, ", ")})
		}
		return out
	}
	return s
}

func paymentsSite() *site {
	s := &site{
		name: namePayments, title: "Payments", faults: overHTTP,
		about: "An API that charges, and drops an Idempotency-Key that it has seen.",
		kind:  post(func(string) bool { return true }),
	}
	p := apitest.New(apitest.Options{Now: s.now, Plan: func(apitest.Request) apitest.Answer {
		switch s.planned() {
		case Unauthorized:
			return apitest.Unauthorized
		case RateLimit:
			return apitest.RateLimit
		default:
			return apitest.Reply
		}
	}})
	s.handler = p
	s.list = func() (out []Thing) {
		for _, o := range p.Objects() {
			out = append(out, Thing{ID: o.ID, Kind: "charge", Text: form(o.Body), Note: "POST /" + o.Subject})
		}
		return out
	}
	return s
}

// form writes a form's body for people; what is none stays as it is.
func form(body string) string {
	if text, err := url.QueryUnescape(body); err == nil && !strings.HasPrefix(body, "{") {
		return strings.ReplaceAll(text, "&", " · ")
	}
	return body
}
