package smtp

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file:
//   - the message's end is one line, a dot, written by itself and after leave was
//     asked again. Before it nothing is handed over: whatever breaks off is proven to
//     have had no effect (RFC 5321, section 4.1.1.4: the relay processes the message
//     upon the end of data; 4.1.1.10: it must abandon a transaction that breaks off);
//   - from its first byte until the answer the outcome is unknown;
//   - all recipients or none: a message is one effect, and half of it could be
//     neither repeated nor called done;
//   - after the answer nothing matters.

// wordsWait is how long a relay that hung up, or spoke out of turn, is given for
// its last words. They decide nothing.
const wordsWait = time.Second

// maxNamed bounds how many refused recipients a message names.
const maxNamed = 3

// session is one logged-in conversation with one message for it.
type session struct {
	dialog  *dialog
	message message
	parts   []part // the attachments
	version int
	now     func() time.Time
	used    atomic.Bool
}

// Close implements connector.Session.
func (s *session) Close() {
	if s.used.CompareAndSwap(false, true) {
		s.dialog.quit()
	}
	s.letGo()
}

// Publish implements connector.Session.
func (s *session) Publish(c connector.Commit) job.Outcome {
	o := unsent(job.FailTransient, "the connection was used already")
	if s.used.CompareAndSwap(false, true) {
		conn := s.dialog.conn
		before := conn.Written()
		o = s.hand(c)
		o.BytesWritten = conn.Written() - before
	}
	if o.Result == job.ResultRejected && o.BytesWritten == 0 {
		o.Result = job.ResultNotSent
	}
	o.Attempt, o.CredentialVersion = c.Attempt, s.version
	o.Message = transport.Clean(o.Message, transport.MaxMessage)
	return o
}

// hand brings the message to its end, and reads the answer.
func (s *session) hand(c connector.Commit) job.Outcome {
	d := s.dialog
	sendBy := c.SendBy
	if sendBy.After(c.AnswerBy) {
		sendBy = c.AnswerBy
	}
	switch {
	case d.br.Buffered() > 0 || !d.conn.Quiet():
		return s.drop(unsent(job.FailTransient, "the relay ended the conversation before the e-mail"+s.lastWords()))
	case !time.Now().Before(sendBy) || d.conn.SetDeadline(sendBy) != nil:
		return s.drop(unsent(job.FailTransient, "out of time before the first byte"))
	}
	if err := c.MaySend(); err != nil {
		return s.drop(unsent(job.FailTransient, err.Error()))
	}
	if o, refused := s.envelope(); refused {
		return o
	}
	if o, refused := s.content(); refused {
		return s.drop(o) // in the middle of a message there is no other way out
	}
	// The dot: proofs made before it do not hold after it.
	if d.br.Buffered() > 0 || !d.conn.Quiet() {
		return s.drop(unsent(job.FailTransient, "the relay did not wait for the message's end"+s.lastWords()))
	}
	if err := c.MaySend(); err != nil {
		return s.drop(unsent(job.FailTransient, err.Error()))
	}
	if !time.Now().Before(sendBy) || d.conn.SetReadDeadline(c.AnswerBy) != nil {
		return s.drop(unsent(job.FailTransient, "out of time before the message's end"))
	}
	before := d.conn.Written()
	if _, err := d.conn.Write([]byte(".\r\n")); err != nil {
		if d.conn.Written() == before {
			return s.drop(unsent(job.FailTransient, "the conversation broke off before the message's end ("+why(err)+")"))
		}
		return s.drop(unknown("the conversation broke off at the message's end (" + why(err) + ")"))
	}
	return s.answer()
}

// unsent is an outcome that is proven to have had no effect.
func unsent(kind job.FailureKind, msg string) job.Outcome {
	return job.Outcome{Result: job.ResultRejected, Kind: kind, Message: "this try sent nothing: " + msg}
}

// refused is unsent with the kind of a reply.
func (s *session) refused(kind job.FailureKind, msg string) job.Outcome {
	o := unsent(kind, msg)
	if kind == job.FailRateLimited {
		o.RetryAfter = s.dialog.busy
	}
	if kind == job.FailAuth {
		o.Message += ": give this connection a user name and password that the relay takes"
	}
	return o
}

func unknown(msg string) job.Outcome {
	return job.Outcome{Result: job.ResultUnknown, Kind: job.FailAmbiguous, Message: msg + "; the relay may have taken the e-mail"}
}

// drop aborts the connection, and discards all that the kernel has not sent yet.
func (s *session) drop(o job.Outcome) job.Outcome {
	s.dialog.conn.Abort()
	return o
}

// leave ends the conversation between two messages.
func (s *session) leave(o job.Outcome) job.Outcome {
	s.dialog.quit()
	return o
}

// lastWords quotes what the relay sent out of turn, mostly a 421: " (421 …)", or
// nothing.
func (s *session) lastWords() string {
	if s.dialog.conn.SetReadDeadline(time.Now().Add(wordsWait)) != nil {
		return ""
	}
	r, err := s.dialog.read()
	if err != nil {
		return ""
	}
	return " (" + s.dialog.quote(r) + ")"
}

// envelope names the sender and the recipients, and asks to send.
func (s *session) envelope() (o job.Outcome, refused bool) {
	d := s.dialog
	replies, err := s.introduce()
	if o, refused := s.refusals(replies); refused { // also of a relay that then hung up
		return s.leave(o), true
	}
	if err != nil {
		return s.drop(unsent(job.FailTransient, "the conversation with the relay broke off ("+why(err)+")")), true
	}
	r, err := d.ask("DATA")
	switch {
	case err != nil:
		return s.drop(unsent(job.FailTransient, "the conversation with the relay broke off ("+why(err)+")")), true
	case !r.wantsMore():
		return s.leave(s.refused(kindOf(r), "the relay would not take the e-mail ("+d.quote(r)+")")), true
	}
	return o, false
}

// introduce sends MAIL and RCPT, together if the relay allows (RFC 2920), and
// reads the replies; with an error, those that came before it.
func (s *session) introduce() ([]reply, error) {
	d, m := s.dialog, s.message
	from := "MAIL FROM:" + m.from
	if _, offered := d.offers["SIZE"]; offered {
		from += fmt.Sprintf(" SIZE=%d", s.size())
	}
	if m.utf8 {
		if _, offered := d.offers["8BITMIME"]; offered {
			from += " BODY=8BITMIME"
		}
		from += " SMTPUTF8"
	}
	lines := []string{from}
	for _, to := range m.to {
		lines = append(lines, "RCPT TO:"+to)
	}
	replies := make([]reply, 0, len(lines))
	if _, offered := d.offers["PIPELINING"]; offered {
		if _, err := d.conn.Write([]byte(strings.Join(lines, "\r\n") + "\r\n")); err != nil {
			return nil, err
		}
		for range lines {
			r, err := d.read()
			if err != nil {
				return replies, err
			}
			replies = append(replies, r)
		}
		return replies, nil
	}
	for _, line := range lines {
		r, err := d.ask(line)
		if err != nil {
			return replies, err
		}
		replies = append(replies, r)
		if !r.positive() {
			break // one refusal is enough
		}
	}
	return replies, nil
}

// worst orders the reasons for which recipients can be refused: the first decides for
// all of them.
var worst = []job.FailureKind{job.FailPermanent, job.FailAuth, job.FailRateLimited, job.FailTransient}

// refusals judges the replies to MAIL and RCPT. One refused recipient refuses them
// all: for good if one of them is refused for good.
func (s *session) refusals(replies []reply) (o job.Outcome, refused bool) {
	if len(replies) == 0 {
		return o, false
	}
	if from := replies[0]; !from.positive() {
		return s.refused(kindOf(from), "the relay refused the sender "+s.message.from+" ("+s.dialog.quote(from)+")"), true
	}
	replies = replies[1:]
	var named []string
	kind, count := job.FailTransient, 0
	for i, r := range replies {
		if r.positive() {
			continue
		}
		count++
		if k := kindOf(r); slices.Index(worst, k) < slices.Index(worst, kind) {
			kind = k
		}
		if len(named) < maxNamed {
			named = append(named, s.message.to[i]+" ("+s.dialog.quote(r)+")")
		}
	}
	if count == 0 {
		return o, false
	}
	msg := "the relay refused " + strings.Join(named, ", ")
	if count > len(named) {
		msg += fmt.Sprintf(" and %d more", count-len(named))
	}
	if len(s.message.to) > 1 {
		msg += "; an e-mail goes to all its recipients or to none"
	}
	return s.refused(kind, msg), true
}

// content writes all of the message but its end.
func (s *session) content() (o job.Outcome, refused bool) {
	if err := s.write(s.dialog.conn); err != nil {
		words := ""
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			words = s.lastWords()
		}
		return unsent(job.FailTransient, "the conversation broke off in the middle of the e-mail ("+why(err)+")"+words), true
	}
	return o, false
}

// answer reads the relay's reply to the message's end.
//
// 2yz means that it has accepted the message, whatever the other digits (RFC 5321, sections
// 4.2.1, 4.2.5 and 6.1). 4yz and 5yz mean that it has not, and so does 421, with which relays
// also refuse for their limits here. 3yz has no meaning here, and what is no reply has none at
// all: whether the message was accepted stays unknown.
func (s *session) answer() job.Outcome {
	d := s.dialog
	r, err := d.read()
	switch {
	case err != nil:
		return s.drop(unknown("the relay gave no answer to the message's end (" + why(err) + ")"))
	case r.positive():
		return s.leave(job.Outcome{
			Result: job.ResultSucceeded, ExternalID: s.message.id, Message: "the relay took the e-mail (" + d.quote(r) + ")",
		})
	case r.refuses():
		return s.leave(s.refused(kindOf(r), "the relay refused the e-mail ("+d.quote(r)+")"))
	default:
		return s.drop(unknown("the relay answered the message's end with " + d.quote(r)))
	}
}

// kindOf classifies a refusal. 530, 534, 535 and 538 are about the login (RFC 4954,
// section 6). 421 ends the conversation after any command (RFC 5321, section 3.8); 432
// and 454 are about the login's state, and relays use them against clients that send too
// much. All three are about the relay, not the message, so the relay is left alone for a
// while. Of other codes the first digit decides. A reply that is neither a refusal nor the
// expected one comes from a relay that is out of step: worth another attempt.
func kindOf(r reply) job.FailureKind {
	switch {
	case r.code == 530, r.code == 534, r.code == 535, r.code == 538:
		return job.FailAuth
	case r.code == 421, r.code == 432, r.code == 454:
		return job.FailRateLimited
	case r.code >= 500 && r.code < 600:
		return job.FailPermanent
	default:
		return job.FailTransient
	}
}
