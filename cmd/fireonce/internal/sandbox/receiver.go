package sandbox

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"sync"
)

// ordersSite is a receiver of webhooks (Standard Webhooks 1.0) that checks signatures and
// acts once on each webhook-id.
func ordersSite() *site {
	s := &site{
		name: nameOrders, title: "Webhooks", faults: overHTTP,
		about: "A receiver of your own: it checks the signature, and drops a webhook-id that it has seen.",
		kind:  post(func(string) bool { return true }),
	}
	h := &hooks{seen: make(map[string]bool), planned: s.planned}
	s.handler, s.list = h, h.things
	return s
}

type hooks struct {
	planned func() Fault

	mu     sync.Mutex
	seen   map[string]bool
	events []Thing
}

func (h *hooks) things() []Thing {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]Thing(nil), h.events...)
}

// ServeHTTP serves any path.
func (h *hooks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // not the whole request: no effect
	}
	id := r.Header.Get("Webhook-Id")
	switch refuse := h.planned(); {
	case refuse == RateLimit:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many requests", http.StatusTooManyRequests)
		return
	case refuse == Unauthorized || id == "" || !signed(r.Header, id, body):
		http.Error(w, "the signature is not valid", http.StatusUnauthorized)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seen[id] {
		return // 200, as for the first
	}
	h.seen[id] = true
	h.events = append(h.events, Thing{ID: id, Kind: "event", Text: string(body), Note: "POST " + r.URL.Path})
}

// signed checks a signature. Its age is not looked at: the journal is played again later.
func signed(header http.Header, id string, body []byte) bool {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(webhookSecret, "whsec_"))
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
