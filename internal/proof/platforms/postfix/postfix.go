//go:build unix

// Package postfix runs Postfix (https://www.postfix.org), as a distribution installs
// it, on loopback, and lists what it has delivered: the oracle of the connector smtp
// is its mailbox. An instance has its configuration, queue and mailbox in a folder of
// its own, and no transport that could send anything to another host. It is for tests.
package postfix

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/mail"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector/smtp/smtptest"
	"github.com/fireonce/fireonce/internal/proof/heldport"
)

// Domain is the one whose mailboxes an instance has.
const Domain = "example.net"

// Mailboxes are those names in Domain that exist. What they get lies in one place.
var Mailboxes = []string{"bob", "carol", "jürgen"}

const (
	// startTimeout bounds the start of an instance, queueTimeout how long what it has
	// taken may be on its way to the mailbox.
	startTimeout = 30 * time.Second
	queueTimeout = 30 * time.Second
	// look is how often is looked whether it has come to that.
	look = 10 * time.Millisecond
)

// Options make an instance. The zero value takes everything for Mailboxes.
type Options struct {
	// Rule is asked at the stages of each conversation; nil says nothing. It is called
	// from many goroutines.
	Rule func(Ask) Action
	// User and Password are asked for if set, over STARTTLS only.
	User, Password string
}

// Server is one running instance.
type Server struct {
	dir   string
	addr  smtptest.Addr
	name  string // how it greets: as no other one does
	roots *x509.CertPool
	rules *rules
	login *login
}

// Message is one in the mailbox.
type Message struct {
	// ID is the Message-ID, with its angle brackets, and To who it was delivered to.
	ID, To string
	Header mail.Header
	Body   []byte
}

// Start runs an instance until the test ends. Without Postfix the test is skipped,
// but fails in CI where it could have been installed.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	master := program(t)
	s := &Server{rules: startRules(t, o.Rule)}
	if o.User != "" {
		s.login = startLogin(t, o.User, o.Password)
	}
	var words tail
	for try := 1; ; try++ {
		// One that has ended has taken its folder along. Two instances on one port both start,
		// as Postfix sets SO_REUSEPORT, and each gets some of the other's conversations.
		s.dir, s.addr = folder(t), smtptest.Addr(heldport.For(t))
		s.name = strings.Replace(filepath.Base(s.dir), "fireonce-postfix-", "relay-", 1) + ".test"
		s.configure(t)
		ended := run(t, master, s.dir, &words)
		if s.answers(ended) {
			break
		}
		// Where a port cannot be held another process may have taken it.
		if try == 3 {
			t.Fatalf("Postfix did not start: %s\n%s", words.String(), s.log())
		}
	}
	s.rules.on.Store(true)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("Postfix said:\n%s", s.log())
		}
	})
	return s
}

// program finds Postfix's master, or ends the test.
func program(t testing.TB) string {
	t.Helper()
	conf, err := exec.LookPath("postconf")
	if err != nil {
		conf = "/usr/sbin/postconf"
	}
	out, err := exec.CommandContext(t.Context(), conf, "-d", "-h", "daemon_directory").Output() //nolint:gosec // found above
	master := filepath.Join(strings.TrimSpace(string(out)), "master")
	switch {
	case os.Geteuid() != 0:
		t.Skip("no Postfix: it is started by root only")
	case err == nil:
		if _, err = os.Stat(master); err == nil {
			return master
		}
		fallthrough
	default:
		if _, debian := exec.LookPath("apt-get"); debian == nil && os.Getenv("CI") != "" {
			t.Fatalf("Postfix is missing, and can be installed here: run .ci/need-postfix (%v)", err)
		}
		t.Skipf("no Postfix: .ci/need-postfix installs it on Debian (%v)", err)
	}
	return ""
}

// folder makes an instance's folders. It is removed by the instance's watch.
func folder(t testing.TB) string {
	t.Helper()
	// Not the test's own folder: other users may not enter that.
	dir, err := os.MkdirTemp("", "fireonce-postfix-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	owner := account(t, "postfix")
	own := func(path string, mode fs.FileMode, uid, gid int) {
		path = filepath.Join(dir, path)
		err := os.MkdirAll(path, 0o700)
		if err == nil {
			err = os.Chown(path, uid, gid)
		}
		if err == nil {
			err = os.Chmod(path, mode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	own(".", 0o755, 0, 0)
	own("queue", 0o755, 0, 0)
	own("queue/pid", 0o755, 0, 0)
	for _, name := range []string{
		"active", "bounce", "corrupt", "defer", "deferred", "flush", "hold", "incoming", "maildrop", "private", "public", "saved", "trace",
	} {
		own("queue/"+name, 0o700, owner, -1)
	}
	own("data", 0o700, owner, -1)
	own("mail", 0o700, account(t, "nobody"), -1)
	return dir
}

func account(t testing.TB, name string) int {
	t.Helper()
	u, err := user.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	id, err := strconv.Atoi(u.Uid)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// watch runs a command until no process holds its input any more, however the test
// ended, or until it ends by itself; then it ends what is left of its process group,
// and removes the folder.
const watch = `dir=$1; shift
exec 3<&0
"$@" 3<&- & pid=$!
(read -r _ <&3; kill "$pid") &
wait "$pid"
trap "" TERM
kill 0
rm -rf "$dir"`

// run starts an instance. The channel is closed when it is over.
func run(t testing.TB, master, dir string, words io.Writer) <-chan struct{} {
	t.Helper()
	// Not bound to the test's context: its end is that of the watch's input.
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "sh", "-c", watch, "sh", dir, master, "-c", dir, "-d") //nolint:gosec // our own
	cmd.Stderr = words
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // it signals its process group
	held, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = held.Close()
		<-ended
	})
	return ended
}

// answers waits until the instance greets. Another program that has taken its port
// greets with another name.
func (s *Server) answers(ended <-chan struct{}) bool {
	tick, end := time.NewTicker(look), time.NewTimer(startTimeout)
	defer tick.Stop()
	defer end.Stop()
	for {
		c, err := (&net.Dialer{Timeout: startTimeout}).Dial("tcp", string(s.addr))
		if err == nil {
			_ = c.SetDeadline(time.Now().Add(startTimeout))
			want := "220 " + s.name + " "
			greeting := make([]byte, len(want))
			_, err = io.ReadFull(c, greeting)
			_ = c.Close()
			if err == nil && string(greeting) == want {
				return true
			}
		}
		select {
		case <-tick.C:
		case <-ended:
			return false
		case <-end.C:
			return false
		}
	}
}

// Addr is where the instance listens.
func (s *Server) Addr() smtptest.Addr { return s.addr }

// Roots hold the instance's certificate; nil without a login.
func (s *Server) Roots() *x509.CertPool { return s.roots }

// SetPassword replaces the password that is asked for.
func (s *Server) SetPassword(password string) { s.login.set(password) }

// Delivered returns what lies in the mailbox and says text, oldest first, as soon as
// nothing is on its way there. Conversations must be over.
func (s *Server) Delivered(t testing.TB, text string) []Message {
	t.Helper()
	tick, end := time.NewTicker(look), time.NewTimer(queueTimeout)
	defer tick.Stop()
	defer end.Stop()
	for {
		// In the order in which a message goes through them, so that none is missed.
		waiting := append(files(t, s.dir+"/queue/maildrop"), append(files(t, s.dir+"/queue/incoming"), files(t, s.dir+"/queue/active")...)...)
		if len(waiting) == 0 {
			break
		}
		select {
		case <-tick.C:
		case <-end.C:
			t.Fatalf("after %v still in the queue: %q", queueTimeout, waiting)
		}
	}
	if stuck := append(files(t, s.dir+"/queue/deferred"), files(t, s.dir+"/queue/hold")...); len(stuck) > 0 {
		t.Errorf("not delivered: %q", stuck)
	}
	var out []Message
	names := files(t, s.dir+"/mail/inbox/new")
	slices.Sort(names) // by time: that is how they are called
	for _, name := range names {
		if m := read(t, name); bytes.Contains(m.Body, []byte(text)) {
			out = append(out, m)
		}
	}
	return out
}

func files(t testing.TB, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case os.IsNotExist(err):
			return nil // gone on its way, or not made yet
		case err != nil:
			return err
		case d.Type().IsRegular():
			names = append(names, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func read(t testing.TB, name string) Message {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	m, err := mail.ReadMessage(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(m.Body)
	if err != nil {
		t.Fatal(err)
	}
	return Message{ID: m.Header.Get("Message-Id"), To: m.Header.Get("Delivered-To"), Header: m.Header, Body: body}
}

func (s *Server) log() string {
	text, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		return fmt.Sprint(err)
	}
	return string(text)
}

// tail keeps what a process said.
type tail struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (t *tail) Write(p []byte) (int, error) { t.mu.Lock(); defer t.mu.Unlock(); return t.text.Write(p) }

func (t *tail) String() string { t.mu.Lock(); defer t.mu.Unlock(); return t.text.String() }
