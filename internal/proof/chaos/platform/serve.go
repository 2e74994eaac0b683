package platform

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/proof/loopback"
)

// maxRequest bounds a request's body, in bytes.
const maxRequest = 1 << 20

// body reads a request whole; false: it was torn, and nothing may come of it.
func (p *Platform) body(r *http.Request) ([]byte, bool) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest))
	if err != nil {
		p.mu.Lock()
		p.totals.Torn++
		p.mu.Unlock()
	}
	return body, err == nil
}

// effect acts on a request and returns the answer to it, and the ticket that says
// when both may be heard of. It is called once, and may find that there is
// nothing to do.
type effect func() (answer, uint64)

// carryOut does with a request as was decided.
func (p *Platform) carryOut(w http.ResponseWriter, r *http.Request, c call, act effect) {
	switch {
	case !c.Fault.Commits():
		p.acted()
		p.refuse(w, c)
		return
	case c.Fault == Late:
		p.late.Go(func() {
			defer p.acted()
			if p.pause(time.Duration(c.faults.LateBy)) {
				_, ticket := act()
				p.inLog(ticket)
			}
		})
		loopback.Reset(w)
		return
	case c.Fault == Delay && !p.pause(c.share(c.faults.Delay, drawTime)),
		c.Fault == Slow && c.Face != FaceUnlocked && !p.pause(time.Duration(c.faults.Work)):
		p.acted()
		loopback.Reset(w)
		return
	}
	a, ticket := act()
	p.inLog(ticket)
	p.acted()
	p.tell(w, r, c, a, ticket)
}

// inLog waits until what a request did can be read in the log, so that a reader who
// learns that nothing is pending finds all of it there. Broken logs are reported
// by tell and by Close.
func (p *Platform) inLog(ticket uint64) { _ = p.log.wait(ticket) }

// hook serves a receiver of webhooks.
func (p *Platform) hook(face string) http.HandlerFunc {
	prefix := "/hook/" + face + "/"
	return func(w http.ResponseWriter, r *http.Request) {
		body, ok := p.body(r)
		if !ok {
			return
		}
		c := p.receive(Record{
			Type: TypeRequest, Face: face, Subject: subjectOf(body, strings.TrimPrefix(r.URL.Path, prefix)), Key: keyOf(r.Header),
			Body: digestOf(body),
		})
		p.carryOut(w, r, c, func() (answer, uint64) {
			switch {
			case face == FaceOpaque || c.Key == "":
				id := effectID(c)
				return named(id), p.took(c, id)
			case face == FaceUnlocked:
				return p.lookActStore(c)
			default:
				return p.onceFor(c)
			}
		})
	}
}

// onceFor acts on a request unless one with its key has acted before.
func (p *Platform) onceFor(c call) (answer, uint64) {
	p.keys.mu.Lock()
	defer p.keys.mu.Unlock()
	if seen, ok := p.repeated(c); ok {
		return named(seen.id), seen.ticket
	}
	made := p.make(c)
	return named(made.id), made.ticket
}

// lookActStore is onceFor of a receiver that holds no lock while it works. One that the end
// of the platform interrupts does not act.
func (p *Platform) lookActStore(c call) (answer, uint64) {
	p.keys.mu.Lock()
	seen, ok := p.repeated(c)
	p.keys.mu.Unlock()
	switch {
	case ok:
		return named(seen.id), seen.ticket
	case c.Fault == Slow && !p.pause(time.Duration(c.faults.Work)):
		return failed(http.StatusServiceUnavailable, "the receiver ends"), 0
	}
	p.keys.mu.Lock()
	defer p.keys.mu.Unlock()
	made := p.make(c)
	return named(made.id), made.ticket
}

// repeated returns what a request's key was used for. The caller holds keys.mu.
func (p *Platform) repeated(c call) (seen remembered, ok bool) {
	if seen, ok = p.keys.find(c.Key); ok {
		p.mu.Lock()
		p.totals.Repeats++
		p.mu.Unlock()
	}
	return seen, ok
}

// make acts on a request and remembers its key. The caller holds keys.mu.
func (p *Platform) make(c call) remembered {
	made := remembered{id: effectID(c)}
	made.ticket = p.took(c, made.id)
	if p.keys.add(c.Key, made) {
		p.mu.Lock()
		p.totals.Forgotten++
		p.mu.Unlock()
	}
	return made
}

// effectID names the effect of a request.
func effectID(c call) string { return "effect-" + strconv.FormatInt(c.N, 10) }

// named is what a receiver answers: what it made.
func named(id string) answer {
	return answer{status: http.StatusOK, body: toJSON(map[string]string{"id": id})}
}

// keyOf returns the key that a request is to be recognized by.
func keyOf(h http.Header) string {
	if key := h.Get("Webhook-Id"); key != "" {
		return key
	}
	return h.Get("Idempotency-Key")
}

// digestOf returns the digest of a body.
func digestOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:8])
}

// subjectOf returns what is to happen once.
func subjectOf(body []byte, otherwise string) string {
	var in struct {
		Subject string `json:"subject"`
	}
	if err := json.Unmarshal(body, &in); err != nil || in.Subject == "" {
		return otherwise
	}
	return in.Subject
}

// toJSON writes what cannot fail to be written.
func toJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(errors.Join(errors.New("platform: an answer cannot be written"), err))
	}
	return append(text, '\n')
}
