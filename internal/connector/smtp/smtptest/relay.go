// Package smtptest is a mail relay for tests and the sandbox: a real SMTP server
// (github.com/emersion/go-smtp) on a loopback port, that stores what it takes,
// loses its answers or refuses when asked to, and counts what it has stored.
package smtptest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/mail"
	"strconv"
	"strings"
	"sync"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/fireonce/fireonce/internal/proof/loopcert"
)

// Fault is what the relay does with one message.
type Fault int

const (
	// Take stores the message and answers 250.
	Take Fault = iota
	// DropBefore reads the message whole and hangs up; it stores nothing.
	DropBefore
	// DropAfter stores the message and hangs up without an answer.
	DropAfter
	// SilentAfter stores the message and answers nothing until the client has given up.
	SilentAfter
	// Defer answers 451 to the message's end, and stores nothing.
	Defer
	// Refuse answers 550 to the message's end, and stores nothing.
	Refuse
)

// Security is how the relay's connections are made private.
type Security int

// The ways, as SmtpSettings has them.
const (
	Plain Security = iota
	StartTLS
	TLS
)

// Options make a relay. The zero value takes everything, without TLS and login.
type Options struct {
	Security Security
	// Port is the port to listen on; 0: a free one.
	Port int
	// User and Password are asked for if set.
	User, Password string
	// Mechanisms are the logins that are offered; nil: PLAIN. PLAIN and LOGIN work.
	Mechanisms []string
	// UTF8 takes addresses beyond ASCII.
	UTF8 bool
	// MaxSize is the SIZE that is offered; 0: none.
	MaxSize int64
	// Plan decides what becomes of a message; nil takes all. n counts, from 1.
	Plan func(n int) Fault
	// PlanFor decides by the message, instead of Plan. It may block; how long the
	// client waits is the client's own.
	PlanFor func(Message) Fault
}

// Message is one that was stored.
type Message struct {
	From string
	To   []string
	// UTF8 reports that it was announced with SMTPUTF8.
	UTF8 bool
	Data []byte
}

// ID is the Message-ID, with its angle brackets.
func (m Message) ID() string { return m.header("Message-Id") }

// Subject is the subject as it was written.
func (m Message) Subject() string { return m.header("Subject") }

func (m Message) header(name string) string {
	parsed, err := mail.ReadMessage(strings.NewReader(string(m.Data)))
	if err != nil {
		return ""
	}
	return parsed.Header.Get(name)
}

// Relay is the relay.
type Relay struct {
	options  Options
	listener net.Listener
	server   *smtp.Server
	roots    *x509.CertPool
	ended    chan struct{}
	once     sync.Once

	certificate []byte

	mu       sync.Mutex
	password string
	busy     int
	refused  map[string]*smtp.SMTPError
	logins   int
	tried    int
	stored   []Message
}

// Start starts a relay.
func Start(o Options) (*Relay, error) {
	r := &Relay{options: o, password: o.Password, refused: make(map[string]*smtp.SMTPError), ended: make(chan struct{})}
	raw, err := new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(o.Port)))
	if err != nil {
		return nil, err
	}
	r.listener = raw
	r.server = smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		return &session{relay: r, conn: c}, nil
	}))
	r.server.Domain, r.server.EnableSMTPUTF8, r.server.MaxMessageBytes = "relay.test", o.UTF8, o.MaxSize
	r.server.ErrorLog = log.New(io.Discard, "", 0)
	var listener net.Listener = greeter{raw, r}
	if o.Security != Plain {
		pair, roots := loopcert.Get()
		r.roots = roots
		r.certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})
		config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
		if o.Security == TLS {
			listener = tls.NewListener(listener, config)
		} else {
			r.server.TLSConfig = config
		}
	}
	go func() {
		defer close(r.ended)
		_ = r.server.Serve(listener)
	}()
	return r, nil
}

// Addr is where the relay listens.
func (r *Relay) Addr() Addr { return Addr(r.listener.Addr().String()) }

// Addr is "host:port".
type Addr string

// Host is the address without its port.
func (a Addr) Host() string { host, _, _ := net.SplitHostPort(string(a)); return host }

// Port is the port.
func (a Addr) Port() int32 {
	addr, err := net.ResolveTCPAddr("tcp", string(a))
	if err != nil {
		return 0
	}
	return int32(addr.Port)
}

// Roots hold the relay's certificate; nil without TLS.
func (r *Relay) Roots() *x509.CertPool { return r.roots }

// Certificate is the same for other programs, as PEM; nil without TLS.
func (r *Relay) Certificate() []byte { return r.certificate }

// Close ends the relay and its connections. Safe to call twice.
func (r *Relay) Close() error {
	r.once.Do(func() {
		_ = r.server.Close()
		_ = r.listener.Close() // Serve may not have taken it over
		<-r.ended
	})
	return nil
}

// Busy greets the next n connections with 421 and hangs up.
func (r *Relay) Busy(n int) { r.mu.Lock(); defer r.mu.Unlock(); r.busy = n }

// SetPassword replaces the password that is asked for.
func (r *Relay) SetPassword(password string) { r.mu.Lock(); defer r.mu.Unlock(); r.password = password }

// RefuseRecipient answers the code to an address from now on; 0 takes it again.
func (r *Relay) RefuseRecipient(address string, code int) {
	r.RefuseRecipientWith(address, code, "no such mailbox")
}

// RefuseRecipientWith is RefuseRecipient with these words.
func (r *Relay) RefuseRecipientWith(address string, code int, words string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.refused, address)
	if code != 0 {
		r.refused[address] = &smtp.SMTPError{Code: code, EnhancedCode: smtp.EnhancedCode{code / 100, 1, 1}, Message: words}
	}
}

// Stored returns what the relay has taken, in order.
func (r *Relay) Stored() []Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Message(nil), r.stored...)
}

// Tried counts the messages that were begun to be sent.
func (r *Relay) Tried() int { r.mu.Lock(); defer r.mu.Unlock(); return r.tried }

// Logins counts the logins that were taken.
func (r *Relay) Logins() int { r.mu.Lock(); defer r.mu.Unlock(); return r.logins }

// greeter sends clients away while the relay is busy.
type greeter struct {
	net.Listener
	relay *Relay
}

func (g greeter) Accept() (net.Conn, error) {
	for {
		c, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		g.relay.mu.Lock()
		busy := g.relay.busy > 0
		if busy {
			g.relay.busy--
		}
		g.relay.mu.Unlock()
		if !busy {
			return c, nil
		}
		_, _ = io.WriteString(c, "421 4.3.2 relay.test is busy, come back later\r\n")
		_ = c.Close()
	}
}

// session is one client's.
type session struct {
	relay *Relay
	conn  *smtp.Conn
	in    bool
	next  Message
}

var _ smtp.AuthSession = (*session)(nil)

// AuthMechanisms implements smtp.AuthSession.
func (s *session) AuthMechanisms() []string {
	if s.relay.options.User == "" {
		return nil
	}
	if s.relay.options.Mechanisms != nil {
		return s.relay.options.Mechanisms
	}
	return []string{sasl.Plain}
}

// Auth implements smtp.AuthSession.
func (s *session) Auth(mechanism string) (sasl.Server, error) {
	if mechanism == sasl.Login {
		return &loginServer{session: s}, nil
	}
	return sasl.NewPlainServer(func(_, user, password string) error { return s.login(user, password) }), nil
}

func (s *session) login(user, password string) error {
	s.relay.mu.Lock()
	defer s.relay.mu.Unlock()
	if user != s.relay.options.User || password != s.relay.password {
		return smtp.ErrAuthFailed
	}
	s.in = true
	s.relay.logins++
	return nil
}

// loginServer is the mechanism LOGIN, which asks for one thing after the other.
type loginServer struct {
	session *session
	said    []string
}

// Next implements sasl.Server.
func (l *loginServer) Next(response []byte) (challenge []byte, done bool, err error) {
	if response != nil {
		l.said = append(l.said, string(response))
	}
	switch len(l.said) {
	case 0:
		return []byte("Username:"), false, nil
	case 1:
		return []byte("Password:"), false, nil
	default:
		return nil, true, l.session.login(l.said[0], l.said[1])
	}
}

// Mail implements smtp.Session.
func (s *session) Mail(from string, o *smtp.MailOptions) error {
	if s.relay.options.User != "" && !s.in {
		return &smtp.SMTPError{Code: 530, EnhancedCode: smtp.EnhancedCode{5, 7, 0}, Message: "Authentication required"}
	}
	s.next = Message{From: from, UTF8: o.UTF8}
	return nil
}

// Rcpt implements smtp.Session.
func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.relay.mu.Lock()
	defer s.relay.mu.Unlock()
	if refusal := s.relay.refused[to]; refusal != nil {
		return refusal
	}
	s.next.To = append(s.next.To, to)
	return nil
}

// errHungUp ends a conversation whose connection is closed already.
var errHungUp = errors.New("hung up")

// Data implements smtp.Session. What breaks off before its end is not stored.
func (s *session) Data(in io.Reader) error {
	r := s.relay
	r.mu.Lock()
	r.tried++
	n := r.tried
	r.mu.Unlock()
	data, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	s.next.Data = data
	fault := Take
	switch {
	case r.options.PlanFor != nil:
		fault = r.options.PlanFor(s.next)
	case r.options.Plan != nil:
		fault = r.options.Plan(n)
	}
	switch fault {
	case Defer:
		return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "try again later"}
	case Refuse:
		return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 7, 1}, Message: "not this one"}
	case DropBefore:
		_ = s.conn.Conn().Close()
		return errHungUp
	default:
	}
	r.mu.Lock()
	r.stored = append(r.stored, s.next)
	r.mu.Unlock()
	switch fault {
	case DropAfter:
		_ = s.conn.Conn().Close()
		return errHungUp
	case SilentAfter:
		_, _ = io.Copy(io.Discard, s.conn.Conn()) // the client has given up, or the relay ends
		return errHungUp
	default:
	}
	return nil
}

// Reset implements smtp.Session.
func (s *session) Reset() { s.next = Message{} }

// Logout implements smtp.Session.
func (*session) Logout() error { return nil }
