package listen

import (
	"errors"
	"io"
	"net/http"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

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
