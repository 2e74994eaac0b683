package platformtest_test

import (
	"net/http"
	"testing"
	"time"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/resend"
	"github.com/fireonce/fireonce/internal/connector/resend/resendtest"
	"github.com/fireonce/fireonce/internal/faultproxy"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/platformtest"
)

// The simulated Resend.
func TestResend(t *testing.T) {
	t.Parallel()
	platformtest.Run(t, func(t *testing.T) platformtest.Platform {
		t.Helper()
		p, err := resendtest.Start(resendtest.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Close() })
		return platformtest.Platform{
			URL: p.URL(), Class: job.Keyed, Credential: bearer("first"), Renewed: bearer("second"),
			Connector: func(s *connector.Sender, baseURL string) connector.Connector {
				c, err := resend.New(resend.Config{Sender: s, BaseURL: baseURL})
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
		}
	})
}

// email is an e-mail that says text.
func email(text string) *fireoncev1.Payload {
	return &fireoncev1.Payload{Kind: &fireoncev1.Payload_Email{Email: &fireoncev1.Email{
		From: "Ada <ada@example.org>", To: []string{"bob@example.net"}, Subject: "Hello", TextBody: text,
	}}}
}
