// Package sites are the platforms of the crash campaign that have a connector of their
// own: the simulated ones, a real SMTP server, and a real personal data server of the AT
// Protocol. They live in the platform's process, where nothing that is done to the
// servers under test reaches them, and say themselves what they have made.
//
// Read lags and the life of an upload are what connectors take them to be, Hasten times
// as short.
package sites

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
	"github.com/fireonce/fireonce/internal/proof/platforms/pds"
)

// Names of the sites.
const (
	X          = "x"
	Slack      = "slack"
	TikTok     = "tiktok"
	Resend     = "resend"
	Mastodon   = "mastodon"
	GoToSocial = "gotosocial"
	Bluesky    = "bluesky"
	SMTP       = "smtp"
)

// Hasten is how many times as fast these platforms are as connectors take real ones to
// be. The servers get the same number (internal/failpoint).
const Hasten = 400

// Certificate is the name of the file, in Start's folder, with the certificate that the
// relay shows.
const Certificate = "relay.pem"

// Person is who gets direct messages on X.
const Person = "2002"

// All lists the sites. Bluesky is among them unless Node is missing.
func All() []string {
	out := []string{X, Slack, TikTok, Resend, Mastodon, GoToSocial, SMTP}
	if os.Getenv(pds.Skip) != "1" {
		out = append(out, Bluesky)
	}
	return out
}

// Start starts every site. Files go to a folder.
func Start(ctx context.Context, dir string) ([]platform.Site, error) {
	var out []platform.Site
	for _, name := range All() {
		s, err := starts[name](ctx, dir)
		if err != nil {
			for _, s := range out {
				err = errors.Join(err, s.Close())
			}
			return nil, fmt.Errorf("site %s: %w", name, err)
		}
		s.Name = name
		out = append(out, s)
	}
	return out, nil
}

var starts = map[string]func(ctx context.Context, dir string) (platform.Site, error){
	X: startX, Slack: startSlack, TikTok: startTikTok, Resend: startResend, Mastodon: startMastodon, GoToSocial: startGoToSocial,
	Bluesky: startBluesky, SMTP: startSMTP,
}

// hastened is what is left of a time here.
func hastened(d time.Duration) time.Duration { return d / Hasten }

// tokens are a site's bearer tokens, of which the last one is valid.
type tokens struct {
	mu    sync.Mutex
	count int
}

func (t *tokens) token(n int) string { return fmt.Sprintf("token-%d", n) }

// guard has a site take only the valid token where one is shown.
func (t *tokens) guard(s platform.Site) platform.Site {
	s.Credential = platform.Credential{Token: t.token(0)}
	s.Allowed = func(r platform.Request) bool {
		t.mu.Lock()
		defer t.mu.Unlock()
		shown := r.Header.Get("Authorization")
		return shown == "" || shown == "Bearer "+t.token(t.count)
	}
	s.Revoke = func(context.Context) (platform.Credential, error) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.count++
		return platform.Credential{Token: t.token(t.count)}, nil
	}
	return s
}

// subject is what a text is about: its first word.
func subject(text string) string {
	first, _, _ := strings.Cut(text, " ")
	return first
}

func says(status int, body string) platform.Words {
	return platform.Words{Status: status, Header: map[string]string{"Content-Type": "application/json"}, Body: body}
}

// limited is a 429 that asks to wait for a second.
func limited(body string) platform.Words {
	w := says(http.StatusTooManyRequests, body)
	w.Header["Retry-After"] = "1"
	return w
}
