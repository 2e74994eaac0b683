// Package webhooktest is a receiver of webhooks (Standard Webhooks 1.0) that checks signatures and
// acts once on each webhook-id. It is for the sandbox.
package webhooktest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/connector/platform/fake"
)

// secret signs the webhooks. The README's example has the same one.
const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" //nolint:gosec // a public value, for a receiver on this machine

// Fake returns the entry of internal/connector/builtin/fakes.
func Fake() fake.Fake {
	return fake.Fake{
		Name: "orders", Connector: "webhook", Title: "Webhooks", New: sandboxed,
		About: "A receiver of your own: it checks the signature, and drops a webhook-id that it has seen.",
		Connection: func(string) (*connectionsv1.Connection, *connectionsv1.Credential) {
			return &connectionsv1.Connection{Connector: "webhook", Settings: &connectionsv1.Connection_Webhook{Webhook: &connectionsv1.WebhookSettings{
					ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_YES, KeyWindow: durationpb.New(24 * time.Hour),
				}}}, &connectionsv1.Credential{Kind: &connectionsv1.Credential_WebhookSecrets{
					WebhookSecrets: &connectionsv1.WebhookSecrets{Secrets: []string{secret}},
				}}
		},
	}
}

func sandboxed(h fake.Host) fake.Platform {
	r := &receiver{seen: make(map[string]bool), refuse: h.Refuse}
	return fake.Platform{Handler: r, List: r.things, Kind: fake.Post(func(string) bool { return true })}
}

type receiver struct {
	refuse func() fake.Refusal

	mu     sync.Mutex
	seen   map[string]bool
	events []fake.Thing
}

func (h *receiver) things() []fake.Thing {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]fake.Thing(nil), h.events...)
}

// ServeHTTP serves any path.
func (h *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // not the whole request: no effect
	}
	id := r.Header.Get("Webhook-Id")
	switch refuse := h.refuse(); {
	case refuse == fake.RateLimit:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many requests", http.StatusTooManyRequests)
		return
	case refuse == fake.Unauthorized || id == "" || !signed(r.Header, id, body):
		http.Error(w, "the signature is not valid", http.StatusUnauthorized)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seen[id] {
		return // 200, as for the first
	}
	h.seen[id] = true
	h.events = append(h.events, fake.Thing{ID: id, Kind: "event", Text: string(body), Note: "POST " + r.URL.Path})
}

// signed checks a signature, and not its age: the journal is played again later.
func signed(header http.Header, id string, body []byte) bool {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return false
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + header.Get("Webhook-Timestamp") + "."))
	mac.Write(body)
	for _, one := range strings.Fields(header.Get("Webhook-Signature")) {
		if hmac.Equal([]byte(one), []byte("v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))) {
			return true
		}
	}
	return false
}
