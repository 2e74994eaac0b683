package sandbox

import (
	"mime"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/connector/platform/fake"
	"github.com/fireonce/fireonce/internal/connector/smtp/smtptest"
)

// relay is the relay of a site at its port.
type relay struct {
	*smtptest.Relay
	site *site
	// before are the messages of earlier starts.
	before []smtptest.Message
}

func startRelay(s *site, port int) (*relay, error) {
	r := &relay{site: s}
	var err error
	if r.Relay, err = smtptest.Start(smtptest.Options{Port: port, PlanFor: r.plan}); err != nil {
		return nil, err
	}
	s.made.List = r.things
	return r, nil
}

// restore restores a message from the journal.
func (r *relay) restore(req request) {
	r.site.asked(mailed(req))
	r.before = append(r.before, smtptest.Message{From: req.From, To: req.To, Data: req.Body})
	r.site.at = req.At
	r.site.see()
	r.site.at = time.Time{}
}

// mailed returns the part of a message that its attempts have in common, for the words in it.
func mailed(req request) request {
	m := smtptest.Message{Data: req.Body}
	req.Body = []byte(m.ID() + "\n" + subject(m))
	return req
}

func subject(m smtptest.Message) string {
	text, err := new(mime.WordDecoder).DecodeHeader(m.Subject())
	if err != nil {
		return m.Subject()
	}
	return text
}

// plan decides what becomes of a message. It is called before the message is stored.
func (r *relay) plan(m smtptest.Message) smtptest.Fault {
	s := r.site
	req := request{Site: s.Name, At: time.Now().UTC(), From: m.From, To: m.To, Body: m.Data}
	s.mu.Lock()
	fault := s.strike(mailed(req), fake.Effects)
	visit := Visit{At: req.At, What: "a message to " + strings.Join(m.To, ", "), Fault: fault, Status: 250}
	out := smtptest.Take
	switch fault {
	case LoseAnswer:
		visit.Status, out = 0, smtptest.DropAfter
	case LoseRequest:
		visit.Status, out = 0, smtptest.DropBefore
	case Slow:
		visit.Status, out = 0, smtptest.SilentAfter
	case RateLimit:
		visit.Status, out = 451, smtptest.Defer
	default:
	}
	if out != smtptest.DropBefore && out != smtptest.Defer {
		if err := s.journal.add(req); err != nil {
			visit.Status, out = 451, smtptest.Defer
		}
	}
	s.visits = append(s.visits, visit)
	s.visits = s.visits[max(0, len(s.visits)-mostVisits):]
	s.mu.Unlock()
	s.changed()
	return out
}

func (r *relay) things() (out []fake.Thing) {
	for _, m := range append(append([]smtptest.Message(nil), r.before...), r.Stored()...) {
		out = append(out, fake.Thing{ID: m.ID(), Kind: "e-mail", Text: subject(m), Note: "to " + strings.Join(m.To, ", ")})
	}
	return out
}
