package platforms_test

import (
	"bytes"
	"crypto/sha256"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/resend"
	"github.com/fireonce/fireonce/internal/connector/resend/resendtest"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/faultproxy"
	"github.com/fireonce/fireonce/internal/proof/platforms"
)

// The simulated Resend.
func TestResend(t *testing.T) {
	t.Parallel()
	platforms.Run(t, func(t *testing.T) platforms.Platform {
		t.Helper()
		p, _ := resendOf(t)
		return p
	})
}

// resendOf is a simulated Resend, with its URL.
func resendOf(t *testing.T) (platforms.Platform, *resendtest.Platform) {
	t.Helper()
	p, err := resendtest.Start(resendtest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return platforms.Platform{
		URL: p.URL(), Class: job.Keyed, Credential: bearer("first"), Renewed: bearer("second"),
		Connector: func(s *transport.Sender, baseURL string) connector.Connector {
			c, err := resend.New(resend.Config{Sender: s, BaseURL: baseURL, Media: fetcher()})
			if err != nil {
				t.Fatal(err)
			}
			return c
		},
		Settings: func(string) []byte { return nil },
		Payload:  email,
		Commits:  func(r faultproxy.Request) bool { return r.Method == http.MethodPost },
		Effects: func(text string) (ids []string) {
			for _, sent := range p.Sent() {
				if sent.Text == text {
					ids = append(ids, sent.ID)
				}
			}
			return ids
		},
		Unauthorized: status(http.StatusForbidden, resendtest.Failure(403, "invalid_api_key", "API key is invalid")),
		Refused:      status(http.StatusUnprocessableEntity, resendtest.Failure(422, "invalid_from_address", "Invalid from field")),
		Limited:      func(wait time.Duration) faultproxy.Fate { return faultproxy.RetryAfter(wait) },
	}, p
}

// E-mails with files, of which the first answer is lost.
func TestResendFiles(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		digest, changes bool
		attempts        int
		words           string
	}{
		"the same file: settled by the repeat":             {digest: true, attempts: 2},
		"another file, and Resend says so: unknown":        {changes: true, attempts: 2, words: "another e-mail was sent with this job's key"},
		"another file than the payload says: not repeated": {digest: true, changes: true, attempts: 1, words: "SHA-256 differs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := hostFiles(t)
			p, server := resendOf(t)
			w := platforms.NewWorld(t, p)
			n := 0
			w.Proxy.Plan(func(r faultproxy.Request) faultproxy.Fate {
				if n++; p.Commits(r) && n == 1 {
					f.changes.Store(c.changes) // the repeat may come before this test sees the effect
					return faultproxy.Fate{Fault: faultproxy.DropAfter}
				}
				return faultproxy.Fate{}
			})
			payload, digest := email("with a file"), sha256.Sum256(picture(t, 0))
			ref := f.ref("/a.png", "")
			if payload.GetEmail().Attachments = []*fireoncev1.MediaRef{ref}; c.digest {
				ref.Sha256 = digest[:]
			}
			id := w.Submit("one", payload)
			s := w.Until(id, "as far as it comes", func(s job.Snapshot) bool {
				if c.words == "" {
					return s.State == job.Succeeded
				}
				return s.State == job.Ambiguous && strings.Contains(w.Story(id), c.words)
			})
			if s.Attempt != c.attempts {
				t.Errorf("%d attempts\n%s", s.Attempt, w.Story(id))
			}
			sent := server.Sent()
			if len(sent) != 1 || len(sent[0].Attachments) != 1 || !bytes.Equal(sent[0].Attachments[0].Content, picture(t, 0)) {
				t.Fatalf("%d sent\n%s", len(sent), w.Story(id))
			}
			if s.State == job.Succeeded && s.Effect.ExternalID != sent[0].ID {
				t.Errorf("bound to %+v\n%s", s.Effect, w.Story(id))
			}
		})
	}
}

// email is an e-mail that says text.
func email(text string) *fireoncev1.Payload {
	return &fireoncev1.Payload{Kind: &fireoncev1.Payload_Email{Email: &fireoncev1.Email{
		Sender: "Ada <ada@example.org>", To: []string{"bob@example.net"}, Subject: "Hello", TextBody: text,
	}}}
}
