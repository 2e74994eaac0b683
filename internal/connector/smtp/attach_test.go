package smtp_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"net/netip"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/smtp"
	"github.com/fireonce/fireonce/internal/connector/smtp/smtptest"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// filesAt serves files by their names, from memory.
func filesAt(t *testing.T, files map[string][]byte) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, ok := files[strings.TrimPrefix(r.URL.Path, "/")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write(content)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// withMedia makes the world's connector fetch attachments.
func (w *world) withMedia(r *smtptest.Relay) {
	w.tb.Helper()
	egress := transport.NewEgress(netip.MustParsePrefix("127.0.0.0/8"))
	sender := transport.NewSender(transport.Config{Egress: egress, RootCAs: r.Roots()})
	w.tb.Cleanup(sender.Close)
	w.c = smtp.New(smtp.Config{
		Sender: sender, Media: kit.NewMedia(kit.MediaConfig{Egress: egress, Dir: w.tb.TempDir()}), HeloName: "client.test",
	})
}

func pattern(n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(i * 7 / 5)
	}
	return out
}

// attached reads a message's attachments, by code that is not ours.
func attached(t *testing.T, m smtptest.Message) (names, types []string, contents [][]byte, body string) {
	t.Helper()
	parsed, err := mail.ReadMessage(bytes.NewReader(m.Data))
	if err != nil {
		t.Fatal(err)
	}
	kind, params, err := mime.ParseMediaType(parsed.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/mixed" {
		t.Fatalf("%q: %v", kind, err)
	}
	for r := multipart.NewReader(parsed.Body, params["boundary"]); ; {
		p, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return names, types, contents, body
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(p)
		if err != nil {
			t.Fatal(err)
		}
		if p.Header.Get("Content-Disposition") == "" {
			body = p.Header.Get("Content-Type") + ":" + string(text)
			continue
		}
		kind, _, err := mime.ParseMediaType(p.Header.Get("Content-Type"))
		if err != nil {
			t.Fatal(err)
		}
		content, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(string(text), "\r\n", ""))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(string(text), "\r\n") {
			if len(line) > 76 {
				t.Errorf("a line of %d bytes", len(line))
			}
		}
		names, types, contents = append(names, p.FileName()), append(types, kind), append(contents, content)
	}
}

func TestAttachments(t *testing.T) {
	t.Parallel()
	files := map[string][]byte{"a.pdf": []byte("%PDF-1.7 x"), "b": pattern(57 * 100), "c": pattern(2<<20 + 5), "d": []byte(".\r\n")}
	url := filesAt(t, files)
	long := strings.Repeat("漢字", 60) + " 100%.txt"
	sum := sha256.Sum256(files["b"])
	w, r := relay(t, smtptest.Options{Security: smtptest.StartTLS, MaxSize: 8 << 20})
	w.withMedia(r)
	e := usual()
	e.HtmlBody = "<p>Hello</p>"
	e.Attachments = []*fireoncev1.MediaRef{
		{Url: url + "/a.pdf"},
		{Url: url + "/b", FileName: `"quoted" 'n'.bin`, Sha256: sum[:], MediaType: "image/png"},
		{Url: url + "/c", FileName: long},
		{Url: url + "/d", MediaType: "message/rfc822"},
	}
	w.prepare(e)
	if w.prepared.OpenTime != job.MaxOpenTimeout {
		t.Errorf("open time %v", w.prepared.OpenTime)
	}
	s := w.mustOpen()
	if took := s.(connector.Uploader).SendTime(); took < job.SendTimeout {
		t.Errorf("send time %v", took)
	}
	check(t, w.finish(s, commit(longTime)), job.ResultSucceeded, 0)
	stored := r.Stored()
	if len(stored) != 1 {
		t.Fatalf("%d stored", len(stored))
	}
	names, types, contents, body := attached(t, stored[0])
	if fmt.Sprint(names) != fmt.Sprint([]string{"a.pdf", e.Attachments[1].GetFileName(), long, "d"}) {
		t.Errorf("names %q", names)
	}
	if fmt.Sprint(types) != "[application/pdf image/png application/octet-stream application/octet-stream]" {
		t.Errorf("types %q", types)
	}
	for i, name := range []string{"a.pdf", "b", "c", "d"} {
		if !bytes.Equal(contents[i], files[name]) {
			t.Errorf("%s: %d bytes, want %d", name, len(contents[i]), len(files[name]))
		}
	}
	if !strings.HasPrefix(body, "multipart/alternative;") || !strings.Contains(body, "<p>Hello</p>") {
		t.Errorf("body %q", body)
	}
}

// What cannot be fetched fails before the relay hears of it.
func TestAttachmentRefused(t *testing.T) {
	t.Parallel()
	url := filesAt(t, map[string][]byte{"a": pattern(9000)})
	for name, c := range map[string]struct {
		ref  *fireoncev1.MediaRef
		want job.FailureKind
	}{
		"gone":        {&fireoncev1.MediaRef{Url: url + "/none"}, job.FailPermanent},
		"another one": {&fireoncev1.MediaRef{Url: url + "/a", Sha256: make([]byte, 32)}, job.FailPermanent},
		"no host":     {&fireoncev1.MediaRef{Url: "http://127.0.0.1:1/a"}, job.FailTransient},
		"too large":   {&fireoncev1.MediaRef{Url: url + "/a"}, job.FailPermanent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, r := relay(t, smtptest.Options{MaxSize: 10000})
			w.withMedia(r)
			e := usual()
			e.Attachments = []*fireoncev1.MediaRef{c.ref}
			w.prepare(e)
			_, err := w.open()
			w.refused(err, c.want)
			if r.Tried() != 0 {
				t.Error("something was sent")
			}
		})
	}
	w := at(t, "127.0.0.1:1", nil)
	e := usual()
	e.Attachments = []*fireoncev1.MediaRef{{Url: url + "/a"}}
	_, err := w.c.Prepare(requestFor(t, e))
	checkInput(t, err, connector.BadPayload)
	_, err = smtp.New(smtp.Config{HTTPSOnly: true, Media: kit.NewMedia(kit.MediaConfig{})}).Prepare(requestFor(t, e))
	checkInput(t, err, connector.BadPayload)
}

// SIZE is what is sent, to the byte.
func TestSize(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 56, 57, 58, 113, 114, 5000} {
		url := filesAt(t, map[string][]byte{"a": pattern(n)})
		run := script{"EHLO": "250-relay.test\r\n250 SIZE 1000000"}.start(t)
		w := at(t, run.addr, nil)
		w.c = smtp.New(smtp.Config{
			Sender: transport.NewSender(transport.Config{Egress: transport.NewEgress(netip.MustParsePrefix("127.0.0.0/8"))}),
			Media:  kit.NewMedia(kit.MediaConfig{Egress: transport.NewEgress(netip.MustParsePrefix("127.0.0.0/8"))}),
		})
		e := usual()
		e.TextBody = "no dots"
		e.Attachments = []*fireoncev1.MediaRef{{Url: url + "/a"}}
		w.prepare(e)
		check(t, w.publish(commit(longTime)), job.ResultSucceeded, 0)
		said, inside, size := 0, false, ""
		for _, line := range run.Said() {
			switch {
			case line == "DATA":
				inside = true
			case line == ".":
				inside = false
			case inside:
				said += len(line) + 2
			case strings.HasPrefix(line, "MAIL"):
				_, size, _ = strings.Cut(line, "SIZE=")
			}
		}
		if fmt.Sprint(said) != size {
			t.Errorf("a file of %d: SIZE=%s, and %d bytes were sent", n, size, said)
		}
	}
}

// The conversation is cut inside the attachment: nothing is stored, or it is
// unknown.
func TestCutAttachment(t *testing.T) {
	t.Parallel()
	url := filesAt(t, map[string][]byte{"a": pattern(3 << 20)})
	for _, up := range []int64{1 << 10, 100 << 10, 1 << 20, 4 << 20} {
		r, err := smtptest.Start(smtptest.Options{})
		if err != nil {
			t.Fatal(err)
		}
		c, err := smtptest.NewCutter(string(r.Addr()))
		if err != nil {
			t.Fatal(err)
		}
		c.Cut(up, -1)
		w := at(t, c.Addr(), r)
		w.withMedia(r)
		e := usual()
		e.Attachments = []*fireoncev1.MediaRef{{Url: url + "/a"}}
		w.prepare(e)
		o := w.publish(commit(longTime))
		c.Settle()
		honest(t, fmt.Sprintf("cut after %d bytes", up), &o, len(r.Stored()))
		_ = r.Close()
	}
}
