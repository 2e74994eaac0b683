package listen

import (
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
	lossy "github.com/fireonce/fireonce/cmd/fireonce/internal/receiver"
)

// maxBody bounds the body of a request, in bytes: four times what the contract allows.
const maxBody = 1 << 20

// Outcomes of a request.
const (
	acted    = "acted"
	dropped  = "seen before: dropped"
	failed   = "failed on demand: not acted"
	unsigned = "refused: "
	tooLarge = "refused: the body has more than 1 MiB"
)

// receiver acts once for each key. Its action is to print the request.
type receiver struct {
	secrets    []*standardwebhooks.Webhook
	lose, fail share
	keys       *memory
	out        *printer
}

// ServeHTTP serves any method and path.
func (rc *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	got := arrival{Time: time.Now(), Method: r.Method, Path: r.URL.RequestURI()}
	got.KeyHeader, got.Key = keyOf(r.Header)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		rc.answer(w, got, http.StatusRequestEntityTooLarge, tooLarge)
		return
	case err != nil:
		// An incomplete request has no effect. A plain return would answer 200 to a waiting client.
		lossy.CloseUnanswered(w)
		return
	}
	got.body = body
	if err := rc.check(r.Header, body); err != nil {
		rc.answer(w, got, http.StatusUnauthorized, unsigned+err.Error())
		return
	}
	status, outcome, lost := rc.act(got.Key)
	if lost {
		got.Outcome = outcome
		rc.out.arrived(got)
		lossy.CloseUnanswered(w)
		return
	}
	rc.answer(w, got, status, outcome)
}

// act decides the outcome of a request with a key, and records it.
func (rc *receiver) act(key string) (status int, outcome string, lost bool) {
	rc.keys.with(key, func(p *past) {
		switch first := !p.acted; {
		case rc.fail.takes(first && !p.failed):
			p.failed = true
			status, outcome = http.StatusInternalServerError, failed
		case first:
			p.acted = true
			status, outcome, lost = http.StatusOK, acted, rc.lose.takes(true)
		default:
			status, outcome, lost = http.StatusOK, dropped, rc.lose.takes(false)
		}
	})
	return status, outcome, lost
}

func (rc *receiver) answer(w http.ResponseWriter, got arrival, status int, outcome string) {
	got.Status, got.Outcome = status, outcome
	rc.out.arrived(got)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, outcome+"\n") // fails only if the client is gone
}

var errUnsigned = errors.New("the request is not signed with --secret")

// check verifies a signature. Without secrets every request passes.
func (rc *receiver) check(header http.Header, body []byte) error {
	if len(rc.secrets) == 0 {
		return nil
	}
	for _, secret := range rc.secrets {
		switch err := secret.Verify(body, header); {
		case err == nil:
			return nil
		case errors.Is(err, standardwebhooks.ErrMessageTooOld), errors.Is(err, standardwebhooks.ErrMessageTooNew):
			return errors.New("its timestamp is more than 5 minutes from this machine's clock")
		}
	}
	return errUnsigned
}

// keyOf returns the header that names the effect, and its value.
func keyOf(h http.Header) (name, key string) {
	for _, name := range []string{"webhook-id", "Idempotency-Key"} {
		if key := h.Get(name); key != "" {
			return name, key
		}
	}
	return "", ""
}

// share selects the requests that a flag affects.
type share struct {
	// first: the first request with each key.
	first bool
	// percent is the random share of all requests.
	percent float64
}

// shareOf parses a flag: "first", "30%" or "30". Empty: no request.
func shareOf(flag, text string) (share, error) {
	switch text {
	case "":
		return share{}, nil
	case "first":
		return share{first: true}, nil
	}
	percent, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
	if err != nil || !(percent >= 0 && percent <= 100) {
		return share{}, exit.Usagef("--%s %q: must be 0%% to 100%%, or first", flag, text)
	}
	return share{percent: percent}, nil
}

// takes reports whether the share includes a request.
func (s share) takes(first bool) bool {
	return s.first && first || rand.Float64()*100 < s.percent //nolint:gosec // chance, no secret
}

// maxKeys is how many keys are remembered. Only their digests are kept: a key may be as long
// as a header.
const maxKeys = 10_000

// memory records the outcomes of the requests with each key. The oldest keys are forgotten.
type memory struct {
	mu   sync.Mutex
	of   map[[sha256.Size]byte]*past
	ring [][sha256.Size]byte
	next int
}

// past is the outcome of the requests with one key.
type past struct{ failed, acted bool }

func newMemory(size int) *memory {
	return &memory{of: make(map[[sha256.Size]byte]*past), ring: make([][sha256.Size]byte, 0, size)}
}

// with calls do with the past of a key. An empty key has no past.
func (m *memory) with(key string, do func(*past)) {
	if key == "" {
		do(new(past))
		return
	}
	digest := sha256.Sum256([]byte(key))
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.of[digest]
	if p == nil {
		p = new(past)
		m.remember(digest, p)
	}
	do(p)
}

func (m *memory) remember(digest [sha256.Size]byte, p *past) {
	m.of[digest] = p
	if len(m.ring) < cap(m.ring) {
		m.ring = append(m.ring, digest)
		return
	}
	delete(m.of, m.ring[m.next])
	m.ring[m.next] = digest
	m.next = (m.next + 1) % len(m.ring)
}
