//go:build unix

package postfix

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Stage is where a conversation has come to, as Postfix calls it.
type Stage string

// The stages at which rules are asked.
const (
	Connect   Stage = "CONNECT"
	Recipient Stage = "RCPT"
	// End is after the message's last dot and before its answer.
	End Stage = "END-OF-MESSAGE"
)

// Ask is what a rule is asked: may this go on?
type Ask struct {
	Stage             Stage
	Sender, Recipient string
}

// Action is a rule's answer, as access(5) has it: "450 4.2.0 later", "REJECT words".
// Empty: go on.
type Action string

// service answers Postfix's questions on a loopback port.
type service struct {
	listener net.Listener
	wg       sync.WaitGroup
	mu       sync.Mutex
	lines    map[net.Conn]bool
}

// serve starts a service, that ends with the test.
func serve(t testing.TB, talk func(net.Conn, *bufio.Reader)) *service {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &service{listener: l, lines: make(map[net.Conn]bool)}
	s.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.lines[c] = true
			s.mu.Unlock()
			s.wg.Go(func() {
				defer func() { _ = c.Close() }()
				talk(c, bufio.NewReader(c))
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		s.mu.Lock()
		for c := range s.lines {
			_ = c.Close()
		}
		s.mu.Unlock()
		s.wg.Wait()
	})
	return s
}

// rules is a policy server (https://www.postfix.org/SMTPD_POLICY_README.html).
type rules struct {
	*service
	// on is set if conversations are the test's own: before that, nothing is asked.
	on atomic.Bool
}

func startRules(t testing.TB, rule func(Ask) Action) *rules {
	t.Helper()
	r := &rules{}
	r.service = serve(t, func(c net.Conn, in *bufio.Reader) {
		said := make(map[string]string)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			if name, value, found := strings.Cut(strings.TrimSuffix(line, "\n"), "="); found {
				said[name] = value
				continue
			}
			action := Action("")
			if rule != nil && r.on.Load() {
				action = rule(Ask{Stage: Stage(said["protocol_state"]), Sender: said["sender"], Recipient: said["recipient"]})
			}
			if action == "" {
				action = "DUNNO"
			}
			if _, err := fmt.Fprintf(c, "action=%s\n\n", action); err != nil {
				return
			}
			clear(said)
		}
	})
	return r
}

func (r *rules) restriction() string {
	return "check_policy_service inet:" + r.listener.Addr().String()
}

// login is an authentication server as Dovecot's is, which Postfix asks about names
// and passwords (https://doc.dovecot.org/main/developers/design/auth_protocol.html).
type login struct {
	*service
	mu             sync.Mutex
	user, password string
}

func startLogin(t testing.TB, user, password string) *login {
	t.Helper()
	l := &login{user: user, password: password}
	l.service = serve(t, l.talk)
	return l
}

func (l *login) path() string { return "inet:" + l.listener.Addr().String() }

func (l *login) set(password string) { l.mu.Lock(); defer l.mu.Unlock(); l.password = password }

func (l *login) talk(c net.Conn, in *bufio.Reader) {
	if _, err := io.WriteString(c, "VERSION\t1\t2\nMECH\tPLAIN\tplaintext\nSPID\t1\nCUID\t1\nCOOKIE\t00112233445566778899aabbccddeeff\nDONE\n"); err != nil {
		return
	}
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		words := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if words[0] != "AUTH" || len(words) < 2 {
			continue // VERSION and CPID
		}
		answer := "FAIL\t" + words[1] + "\n"
		for _, word := range words[2:] {
			if encoded, found := strings.CutPrefix(word, "resp="); found && l.knows(encoded) {
				answer = "OK\t" + words[1] + "\tuser=" + l.user + "\n"
			}
		}
		if _, err := io.WriteString(c, answer); err != nil {
			return
		}
	}
}

// knows checks a response of the mechanism PLAIN (RFC 4616).
func (l *login) knows(encoded string) bool {
	response, err := base64.StdEncoding.DecodeString(encoded)
	l.mu.Lock()
	defer l.mu.Unlock()
	return err == nil && string(response) == "\x00"+l.user+"\x00"+l.password
}
