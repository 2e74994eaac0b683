package smtp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file:
//   - everything here happens before the arm, and nothing of it is about the
//     message, so every failure is a *connector.Refusal;
//   - a login goes only over TLS, and what came before TLS counts for nothing
//     after it (RFC 3207, section 4.2);
//   - a reply is read with limits, and one that was not asked for ends the dialog.

const (
	// openTimeout bounds everything up to the login.
	openTimeout = 15 * time.Second
	// maxReplyLine and maxReplyLines bound what is kept of a reply; RFC 5321 allows 512 bytes a line.
	// maxRestOfLine and maxLinesRead bound what is read beyond that, and forgotten.
	maxReplyLine  = 4 << 10
	maxReplyLines = 128
	maxRestOfLine = 64 << 10
	maxLinesRead  = 1024
	// maxQuote bounds what is quoted of a reply, in bytes.
	maxQuote = 300
)

// errNotSMTP is the error where the peer does not speak SMTP, or not as it should.
var errNotSMTP = errors.New("not a readable SMTP reply")

// reply is a relay's reply: a code and its words.
type reply struct {
	code int
	// text has the lines, without codes, joined by spaces; lines has them apart.
	text  string
	lines []string
}

// positive, wantsMore and refuses are what a reply's first digit means. RFC 5321, section
// 4.2.1, has a client decide by it alone, since servers may use codes that it does not know.

// positive reports that the command is done (2yz).
func (r reply) positive() bool { return r.code >= 200 && r.code < 300 }

// wantsMore reports that the relay waits for the rest of what the command began (3yz).
func (r reply) wantsMore() bool { return r.code >= 300 && r.code < 400 }

// refuses reports that the command was refused, for now or for good (4yz and 5yz).
func (r reply) refuses() bool { return r.code >= 400 && r.code < 600 }

// dialog is one conversation with a relay.
type dialog struct {
	conn   *transport.RawConn
	br     *bufio.Reader
	target transport.Target
	login  login
	busy   time.Duration     // the wait after a relay that is busy
	offers map[string]string // EHLO's keywords and their parameters
}

// dial connects, makes the connection private and logs in. It fails with
// *connector.Refusal.
func (c *Connector) dial(ctx context.Context, o connector.Opening) (*dialog, error) {
	s, err := c.settings(o.Settings)
	if err != nil {
		return nil, kit.UnusableSettings(err)
	}
	l, err := connector.Opened(o.Credential, openLogin)
	if err != nil {
		return nil, kit.UnusableCredential(err)
	}
	if l.set && s.security == plain {
		return nil, &connector.Refusal{Kind: job.FailPermanent, Msg: "a login needs TLS: change the connection's security"}
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	conn, err := c.cfg.Sender.Dial(ctx, s.target)
	if err != nil {
		return nil, fmt.Errorf("open smtp: %w", err)
	}
	d := &dialog{conn: conn, target: s.target, login: l, busy: c.cfg.BusyWait}
	stop := context.AfterFunc(ctx, conn.Abort)
	err = d.greet(ctx, s)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err == nil {
		return d, nil
	}
	conn.Abort()
	var refusal *connector.Refusal
	if errors.As(err, &refusal) {
		return nil, err
	}
	return nil, d.broke(ctx, err)
}

// broke is the refusal after a conversation that broke off before its first message.
func (d *dialog) broke(ctx context.Context, err error) error {
	if cause := ctx.Err(); cause != nil {
		err = cause // it closed the connection
	}
	return &connector.Refusal{Kind: job.FailTransient, Msg: "the conversation with " + d.target.String() + " broke off: " + why(err)}
}

// why returns why a conversation broke off.
func why(err error) string {
	switch {
	case errors.Is(err, errNotSMTP):
		return errNotSMTP.Error()
	case errors.Is(err, context.Canceled):
		return "it was stopped"
	}
	return transport.Broke(err)
}

// greet comes from the connection to the login.
func (d *dialog) greet(ctx context.Context, s settings) error {
	if at, ok := ctx.Deadline(); ok {
		if err := d.conn.SetDeadline(at); err != nil {
			return err
		}
	}
	if s.security == implicitTLS {
		if err := d.conn.Handshake(ctx); err != nil {
			return err
		}
	}
	d.br = bufio.NewReaderSize(d.conn, maxReplyLine)
	hello, err := d.read()
	if err != nil {
		return err
	}
	if !hello.positive() {
		return d.unwilling("greeted with", hello)
	}
	if err := d.ehlo(s.helo); err != nil {
		return err
	}
	if s.security == startTLS {
		if err := d.startTLS(ctx, s.helo); err != nil {
			return err
		}
	}
	if d.login.set {
		return d.authenticate()
	}
	return nil
}

// unwilling is the refusal of a relay that does not go on. Its operator must repair that,
// whatever the code, so it is no job's fault. After a "not now" all jobs pause for a
// while, because the relay knows nothing of this one.
func (d *dialog) unwilling(what string, r reply) error {
	refusal := &connector.Refusal{Kind: job.FailTransient, Msg: d.target.String() + " " + what + " " + d.quote(r)}
	if r.code >= 400 && r.code < 500 {
		refusal.Kind, refusal.RetryAfter = job.FailRateLimited, d.busy
	}
	return refusal
}

func (d *dialog) ehlo(name string) error {
	if name == "" {
		name = literal(d.conn)
	}
	r, err := d.ask("EHLO " + name)
	if err != nil {
		return err
	}
	if !r.positive() {
		return d.unwilling("answered EHLO with", r)
	}
	d.offers = make(map[string]string, len(r.lines))
	for _, line := range r.lines[1:] {
		word, rest, _ := strings.Cut(line, " ")
		d.offers[strings.ToUpper(word)] = strings.ToUpper(rest)
	}
	return nil
}

// literal is the own address in the form of EHLO (RFC 5321, section 4.1.3).
func literal(w *transport.RawConn) string {
	at := w.Local()
	if at.Is6() {
		return "[IPv6:" + at.WithZone("").String() + "]"
	}
	return "[" + at.String() + "]"
}

func (d *dialog) startTLS(ctx context.Context, helo string) error {
	if _, offered := d.offers["STARTTLS"]; !offered {
		return &connector.Refusal{
			Kind: job.FailTransient,
			Msg:  d.target.String() + " offers no STARTTLS, and without TLS nothing is sent; if it speaks TLS from the first byte, choose SECURITY_TLS",
		}
	}
	r, err := d.ask("STARTTLS")
	if err != nil {
		return err
	}
	if !r.positive() {
		return d.unwilling("answered STARTTLS with", r)
	}
	if d.br.Buffered() > 0 { // sent in the clear, to be believed under TLS
		return errNotSMTP
	}
	if err := d.conn.Handshake(ctx); err != nil {
		return err
	}
	d.br.Reset(d.conn)
	return d.ehlo(helo)
}

// authenticate logs in with PLAIN (RFC 4616) or LOGIN.
func (d *dialog) authenticate() error {
	if !d.conn.Secure() {
		return &connector.Refusal{Kind: job.FailPermanent, Msg: "a login needs TLS: change the connection's security"}
	}
	mechanisms := strings.Fields(d.offers["AUTH"])
	var steps []string
	switch {
	case slices.Contains(mechanisms, "PLAIN"):
		steps = []string{"AUTH PLAIN " + encode("\x00"+d.login.user+"\x00"+d.login.password)}
	case slices.Contains(mechanisms, "LOGIN"):
		steps = []string{"AUTH LOGIN", encode(d.login.user), encode(d.login.password)}
	default:
		return &connector.Refusal{
			Kind: job.FailTransient,
			Msg:  d.target.String() + " offers no login by PLAIN or LOGIN; if it wants none, remove the connection's credential",
		}
	}
	for i, step := range steps {
		r, err := d.ask(step)
		last := i == len(steps)-1
		switch {
		case err != nil:
			return err
		case last && r.positive(), !last && r.wantsMore():
		case r.code >= 500 && r.code < 600:
			return &connector.Refusal{
				Kind: job.FailAuth, Msg: "the relay refused the login (" + d.quote(r) + "): give this connection its present user name and password",
			}
		default:
			return d.unwilling("answered the login with", r)
		}
	}
	return nil
}

// fits refuses a message that the relay could not take, before anything is armed.
func (d *dialog) fits(m message, size int64) error {
	if _, offered := d.offers["SMTPUTF8"]; m.utf8 && !offered {
		return &connector.Refusal{
			Kind: job.FailPermanent,
			Msg:  "an address has letters beyond ASCII, and " + d.target.String() + " takes none (it offers no SMTPUTF8)",
		}
	}
	most, err := strconv.ParseInt(d.offers["SIZE"], 10, 64)
	if err == nil && most > 0 && size > most {
		return &connector.Refusal{
			Kind: job.FailPermanent,
			Msg:  fmt.Sprintf("the e-mail has %d bytes, and %s takes at most %d", size, d.target, most),
		}
	}
	return nil
}

// ask writes one line and reads its reply.
func (d *dialog) ask(line string) (reply, error) {
	if d.br.Buffered() > 0 {
		return reply{}, errNotSMTP // a reply to nothing
	}
	if _, err := d.conn.Write([]byte(line + "\r\n")); err != nil {
		return reply{}, err
	}
	return d.read()
}

// read reads one reply.
func (d *dialog) read() (reply, error) {
	var r reply
	for range maxLinesRead {
		line, err := d.line()
		switch {
		case err != nil && len(line) > 0 && errors.Is(err, io.EOF):
			return reply{}, io.ErrUnexpectedEOF
		case err != nil:
			return reply{}, err
		}
		code, text, last, ok := parseLine(strings.TrimRight(string(line), "\r\n"))
		if !ok || r.code != 0 && code != r.code {
			return reply{}, errNotSMTP
		}
		if r.code = code; len(r.lines) < maxReplyLines {
			r.lines = append(r.lines, text)
		}
		if last {
			r.text = strings.Join(r.lines, " ")
			return r, nil
		}
	}
	return reply{}, errNotSMTP
}

// line returns the next line of a reply, of a long one its beginning: the code stands there, and decides.
func (d *dialog) line() ([]byte, error) {
	line, err := d.br.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	line = bytes.Clone(line)
	for range maxRestOfLine / maxReplyLine {
		if _, err = d.br.ReadSlice('\n'); err == nil {
			return line, nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
	return nil, errNotSMTP
}

// parseLine reads "250-text", "250 text" or "250" (RFC 5321, section 4.2).
func parseLine(line string) (code int, text string, last, ok bool) {
	if len(line) < 3 || line[0] < '2' || line[0] > '5' {
		return 0, "", false, false
	}
	code, err := strconv.Atoi(line[:3])
	if err != nil || code < 200 {
		return 0, "", false, false
	}
	if len(line) == 3 {
		return code, "", true, true
	}
	if line[3] != ' ' && line[3] != '-' {
		return 0, "", false, false
	}
	return code, line[4:], line[3] == ' ', true
}

// quote returns a reply's words, fit for a user.
func (d *dialog) quote(r reply) string {
	text := d.login.hidden.Quote(r.text, maxQuote)
	return strings.TrimSpace(strconv.Itoa(r.code) + " " + text)
}

// quit ends the conversation in good order. Its answer is not waited for: nothing
// depends on it.
func (d *dialog) quit() {
	if d.conn.SetDeadline(time.Now().Add(time.Second)) == nil {
		_, _ = d.conn.Write([]byte("QUIT\r\n"))
	}
	d.conn.Close()
}
