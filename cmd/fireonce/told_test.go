package main

import (
	"bytes"
	"errors"
	"io"
	"mime/quotedprintable"
	"net/mail"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector/slack/slacktest"
	"github.com/fireonce/fireonce/internal/connector/smtp/smtptest"
	"github.com/fireonce/fireonce/internal/proof/memdir"
)

// TestTold follows docs/told.md from the start of the server to the notice of recovery.
func TestTold(t *testing.T) {
	if crashRun {
		t.Skip("needs no failpoints")
	}
	t.Parallel()
	binary, err := exec.LookPath("fireonce") // this test's binary, see TestMain
	if err != nil {
		t.Fatal(err)
	}
	b := &beginner{page: toldPage, home: memdir.New(t)}
	b.env = []string{"HOME=" + b.home, "PATH=" + os.Getenv("PATH")}
	people := newPeople(t, b.home)
	// The page's ids, and those of this run.
	ids := map[string]string{}
	printed := ""
	for _, s := range snippets(t, toldPage) {
		switch marker(s.marker) {
		case toldStarts, toldRestarts, toldLinks:
			for line := range strings.Lines(s.text) {
				words := strings.Fields(line)
				switch words[1] {
				case "serve":
					if b.server != nil {
						b.server.Kill()
					}
					b.server, err = startProcess(binary, b.home, append(b.env, people.env...), slices.Concat(
						words[2:], []string{"--listen", "127.0.0.1:0", "--ops-listen", "off"}, people.flags)...)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(b.server.Kill)
				case "listen":
					if b.receiver != nil {
						b.receiver.Kill()
					}
					b.receiver = b.listen(t, binary, words[2:])
				default:
					t.Fatalf("%s starts %q, and this test does not", toldPage, line)
				}
			}
		case toldRuns:
			printed = b.run(t, s.text, ids)
		case toldPeople:
			b.run(t, people.places().Replace(s.text), ids)
		case toldReads:
			people.read(t, s.text)
		case toldCompares:
			comparePrinted(t, toldPage, s.text, printed)
		case toldFinds:
			for line := range strings.Lines(s.text) {
				b.server.says(t, strings.TrimSpace(line))
			}
		}
	}
	if !strings.Contains(b.receiver.logs(), "acted") {
		t.Errorf("the receiver did not act:\n%s", b.receiver.logs())
	}
}

// people are a Slack and a mail relay, by which notices reach people.
type people struct {
	slack *slacktest.Platform
	relay *smtptest.Relay
	// env and flags are for a server that uses them.
	env, flags []string
}

// newPeople starts them. The password is in the page's FILE.
func newPeople(t *testing.T, home string) *people {
	t.Helper()
	p := new(people)
	var err error
	if p.slack, err = slacktest.Start(slacktest.Options{Token: "xoxb-token"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.slack.Close() })
	if p.relay, err = smtptest.Start(smtptest.Options{Security: smtptest.StartTLS, User: "ops", Password: "secret"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.relay.Close() })
	certificate := filepath.Join(home, "relay.pem")
	for name, text := range map[string][]byte{filepath.Join(home, "FILE"): []byte("secret"), certificate: p.relay.Certificate()} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.env, p.flags = []string{"SSL_CERT_FILE=" + certificate}, []string{"--platform-url", "slack=" + p.slack.URL()}
	return p
}

// places replaces the page's names of these by what they are here.
func (p *people) places() *strings.Replacer {
	at := p.relay.Addr()
	return strings.NewReplacer("xoxb-…", "xoxb-token", "smtp.example.org", at.Host()+" --port "+strconv.Itoa(int(at.Port())))
}

// read waits until the channel and the mailbox have a message each with these lines.
func (p *people) read(t *testing.T, lines string) {
	t.Helper()
	has := func(text string) bool {
		for line := range strings.Lines(lines) {
			if !strings.Contains(text, strings.TrimSpace(line)) {
				return false
			}
		}
		return true
	}
	ctx := waiting(t)
	for {
		channel, mailbox := p.channel(), p.mailbox(t)
		if slices.ContainsFunc(channel, has) && slices.ContainsFunc(mailbox, has) {
			break
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the channel has %q, and the mailbox has %q; neither may lack\n%s", channel, mailbox, lines)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// channel returns the messages in the page's channel.
func (p *people) channel() (all []string) {
	for _, m := range p.slack.Messages() {
		if m.Channel == "C0123456789" {
			all = append(all, m.Text)
		}
	}
	return all
}

// mailbox returns the subjects and texts of the e-mails to the page's address.
func (p *people) mailbox(t *testing.T) (all []string) {
	t.Helper()
	for _, m := range p.relay.Stored() {
		in, err := mail.ReadMessage(bytes.NewReader(m.Data))
		if err != nil {
			t.Fatal(err)
		}
		body := in.Body
		switch encoding := in.Header.Get("Content-Transfer-Encoding"); encoding {
		case "quoted-printable":
			body = quotedprintable.NewReader(body)
		case "", "7bit", "8bit":
		default:
			t.Fatalf("the e-mail is encoded as %s", encoding)
		}
		text, err := io.ReadAll(body)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(m.To, "ann@example.org") && strings.HasPrefix(string(text), m.Subject()) {
			all = append(all, string(text))
		}
	}
	return all
}

// pageID matches the id of an incident and of a plan, in the page and in what commands print.
var pageID = regexp.MustCompile(`inc_[a-z2-7]{16}|--confirm [0-9a-f-]{36}`)

// run runs a block with the ids that the commands before it printed, line by line: an id is often
// printed by the line before.
func (b *beginner) run(t *testing.T, block string, ids map[string]string) string {
	t.Helper()
	place := strings.NewReplacer("http://127.0.0.1:8080", b.server.url, "http://127.0.0.1:9000", b.receiver.url)
	var all strings.Builder
	for line := range strings.Lines(block) {
		line = pageID.ReplaceAllStringFunc(line, func(id string) string {
			if now := ids[kindOfID(id)]; now != "" {
				return now
			}
			t.Fatalf("no command before has printed an id like %s", id)
			return ""
		})
		cmd := exec.CommandContext(waiting(t), "sh", "-ec", place.Replace(line))
		cmd.Dir, cmd.Env = b.home, append(b.env, "FIREONCE_SERVER="+b.server.url)
		out, err := cmd.CombinedOutput()
		if refused, ok := errors.AsType[*exec.ExitError](err); ok && refused.ExitCode() == 1 && strings.Contains(line, "# exits with 1") {
			err = nil
		}
		if err != nil {
			t.Fatalf("%v\n%s\n%s", err, line, out)
		}
		for _, id := range pageID.FindAllString(string(out), -1) {
			ids[kindOfID(id)] = id
		}
		all.Write(out)
	}
	return all.String()
}

// kindOfID returns what kind of id a match of pageID is.
func kindOfID(id string) string { return id[:4] }
