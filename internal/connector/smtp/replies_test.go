package smtp_test

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/internal/connector/smtp"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/loopcert"
)

// stage is a place in the conversation where a relay replies.
type stage struct {
	name string
	// word is the command that is answered, and usual what the relay says elsewhere.
	word  string
	usual script
	// more is the rest of the reply, of which each line gets the code.
	more []string
	// goesOn is the first digit of a reply with which the conversation goes on.
	goesOn byte
	// early is set before the attempt is recorded.
	early bool
}

func stages() []stage {
	user, secret := base64.StdEncoding.EncodeToString([]byte(user)), base64.StdEncoding.EncodeToString([]byte(password))
	login := script{overTLS: "yes", "EHLO": "250-relay.test\r\n250 AUTH LOGIN", "AUTH": "334 VXNlcm5hbWU6", user: "334 UGFzc3dvcmQ6", secret: "235 ok"}
	return []stage{
		{name: "greeting", word: "", goesOn: '2', early: true},
		{name: "EHLO", word: "EHLO", more: []string{"relay.test", "SIZE 0"}, goesOn: '2', early: true},
		{name: "STARTTLS", word: "STARTTLS", usual: script{"EHLO": "250-relay.test\r\n250 STARTTLS"}, goesOn: '2', early: true},
		{name: "AUTH PLAIN", word: "AUTH", usual: script{overTLS: "yes", "EHLO": "250-relay.test\r\n250 AUTH PLAIN"}, goesOn: '2', early: true},
		{name: "AUTH LOGIN", word: "AUTH", usual: login, goesOn: '3', early: true},
		{name: "the user's name", word: user, usual: login, goesOn: '3', early: true},
		{name: "the password", word: secret, usual: login, goesOn: '2', early: true},
		{name: "MAIL", word: "MAIL", goesOn: '2'},
		{name: "RCPT", word: "RCPT", goesOn: '2'},
		{name: "DATA", word: "DATA", goesOn: '3'},
		{name: ".", word: ".", goesOn: '2'},
		{name: "QUIT", word: "QUIT"},
	}
}

// replyCodes are known and unknown codes of each first digit, and what is no code.
var replyCodes = strings.Fields("200 202 211 214 220 221 235 250 251 252 253 259 299 " +
	"300 334 350 354 399 400 401 421 430 432 450 451 452 454 455 499 " +
	"500 501 502 503 504 521 530 534 535 538 541 550 551 552 553 554 555 556 571 599 " +
	"000 099 100 150 199 600 650 999 25 2 2x0 abc -50 2500")

// TestFirstDigit: the first digit of a reply decides at each stage of the conversation, as RFC 5321,
// sections 4.2.1 and 4.3.2, has it. Before the message's end nothing is sent, whatever the relay
// says; after it only 4yz and 5yz prove that, and what is no reply is unknown.
func TestFirstDigit(t *testing.T) {
	t.Parallel()
	tried := 0
	for _, at := range stages() {
		for _, code := range replyCodes {
			lines := at.more
			if lines == nil {
				lines = []string{"words"}
			}
			for form, reply := range map[string]string{
				"one line":    code + " " + strings.Join(lines, "\r\n"+code+" "),
				"more lines":  code + "-" + strings.Join(append([]string{"first"}, lines...), "\r\n"+code+"-"),
				"bare":        code,
				"a long line": code + " " + strings.Repeat("long ", 4000),
			} {
				switch {
				case (form == "one line" || form == "a long line") && len(lines) > 1:
					continue // two replies
				case form == "more lines": // the last line ends it
					i := strings.LastIndex(reply, code+"-")
					reply = reply[:i] + code + " " + reply[i+len(code)+1:]
				}
				tried++
				t.Run(fmt.Sprintf("%s %s %s", at.name, code, form), func(t *testing.T) {
					t.Parallel()
					at.try(t, code, reply)
				})
			}
		}
	}
	if tried < 1000 {
		t.Errorf("%d replies were tried", tried)
	}
}

// digit is the first digit of a readable code; else 0.
func digit(code string) byte {
	if len(code) != 3 || code < "200" || code > "599" || strings.Trim(code, "0123456789") != "" {
		return 0
	}
	return code[0]
}

// kindFor is what a refusal means at a stage.
func (at stage) kindFor(code string) job.FailureKind {
	login := strings.HasPrefix(at.name, "AUTH") || strings.HasPrefix(at.name, "the ")
	switch d := digit(code); {
	case at.early && d == '4', slices.Contains([]string{"421", "432", "454"}, code):
		return job.FailRateLimited
	case at.early && d == '5' && login, !at.early && slices.Contains([]string{"530", "534", "535", "538"}, code):
		return job.FailAuth
	case d == '5' && !at.early:
		return job.FailPermanent
	default:
		return job.FailTransient
	}
}

func (at stage) try(t *testing.T, code, reply string) {
	relay := script{at.word: reply}
	for word, text := range at.usual {
		if word != at.word {
			relay[word] = text
		}
	}
	run := relay.start(t)
	_, roots := loopcert.Get()
	w := trusting(t, run.addr, roots)
	if _, ok := relay[overTLS]; ok {
		w.settings.Security, w.cred = implicit, basic(t, password)
	}
	if at.word == "STARTTLS" {
		w.settings.Security = startTLS
	}
	d := digit(code)
	goesOn := at.word == "QUIT" || d == at.goesOn
	s, err := w.open()
	if at.early && !goesOn {
		refusal := w.refused(err, at.kindFor(code))
		if busy := refusal.RetryAfter == smtp.DefaultBusyWait; busy != (refusal.Kind == job.FailRateLimited) {
			t.Errorf("to be left alone for %v", refusal.RetryAfter)
		}
		if slices.ContainsFunc(run.Said(), func(line string) bool { return strings.HasPrefix(line, "MAIL") }) {
			t.Errorf("said %q", run.Said())
		}
		return
	}
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	o := w.finish(s, commit(longTime))
	switch {
	case goesOn:
		check(t, o, job.ResultSucceeded, 0)
	case at.word == "." && d != '4' && d != '5':
		check(t, o, job.ResultUnknown, job.FailAmbiguous)
	default:
		check(t, o, job.ResultRejected, at.kindFor(code))
		if at.word != "." && slices.Contains(run.Said(), ".") {
			t.Errorf("the message's end was said in spite of %q", reply)
		}
	}
}
