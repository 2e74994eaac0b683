package resend_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/resend"
	"github.com/fireonce/fireonce/internal/connector/resend/resendtest"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// host serves files by their names, and may change them.
type host struct {
	url   string
	mu    sync.Mutex
	files map[string][]byte
	kind  string
}

func newHost(t *testing.T, files map[string][]byte) *host {
	t.Helper()
	h := &host{files: files, kind: "application/octet-stream"}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		content, ok := h.files[strings.TrimPrefix(r.URL.Path, "/")]
		kind := h.kind
		h.mu.Unlock()
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(content)
	}))
	t.Cleanup(s.Close)
	h.url = s.URL
	return h
}

// put changes a file and how its host calls it; without content it is gone.
func (h *host) put(name, kind string, content []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.files, name)
	if h.kind = kind; content != nil {
		h.files[name] = content
	}
}

// withMedia makes the world's connector fetch attachments, this many files
// concurrently.
func (w *world) withMedia(room int) {
	w.tb.Helper()
	egress := transport.NewEgress(netip.MustParsePrefix("127.0.0.0/8"))
	sender := transport.NewSender(transport.Config{Egress: egress})
	w.tb.Cleanup(sender.Close)
	var err error
	if w.c, err = resend.New(resend.Config{
		Sender: sender, BaseURL: w.p.URL(),
		Media: kit.NewMedia(kit.MediaConfig{Egress: egress, Dir: w.tb.TempDir(), MaxAssets: room}),
	}); err != nil {
		w.tb.Fatal(err)
	}
}

func random(n int) []byte {
	out := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(out)
	return out
}

// What arrives is the files, whatever their length is at the edges of the encoding.
func TestAttachments(t *testing.T) {
	t.Parallel()
	w := newWorld(t, resendtest.Options{})
	w.withMedia(20)
	files := make(map[string][]byte)
	e := usual()
	for i, n := range []int{1, 2, 3, 48<<10 - 1, 48 << 10, 48<<10 + 1, 3<<20 + 1} {
		name := fmt.Sprintf("file-%d.bin", i)
		files[name] = random(n)
	}
	h := newHost(t, files)
	for i := range len(files) {
		e.Attachments = append(e.Attachments, &fireoncev1.MediaRef{Url: fmt.Sprintf("%s/file-%d.bin", h.url, i)})
	}
	sum := sha256.Sum256(files["file-1.bin"])
	e.Attachments[1].Sha256, e.Attachments[1].FileName, e.Attachments[1].MediaType = sum[:], `漢字 "quoted" <b>.pdf`, "Application/PDF; x=y"
	o := w.publish(e, 1, longTime)
	check(t, o, job.ResultSucceeded, 0)
	sent := w.p.Sent()
	if len(sent) != 1 || sent[0].ID != o.ExternalID || len(sent[0].Attachments) != len(files) || sent[0].Text != e.TextBody {
		t.Fatalf("%d sent", len(sent))
	}
	for i, got := range sent[0].Attachments {
		name, kind := fmt.Sprintf("file-%d.bin", i), ""
		content := files[name]
		if i == 1 {
			name, kind = e.Attachments[1].FileName, "application/pdf"
		}
		if got.Name != name || got.Type != kind || !bytes.Equal(got.Content, content) {
			t.Errorf("attachment %d: %q %q, %d bytes, want %q %q, %d bytes", i, got.Name, got.Type, len(got.Content), name, kind, len(content))
		}
	}
}

// An answer is lost, and the file's host calls the file something else: the repeat is
// the same to the byte, and settles it.
func TestAttachmentsLostAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, resendtest.Options{Plan: func(_ string, n int) resendtest.Answer {
		if n == 1 {
			return resendtest.Reset
		}
		return resendtest.Reply
	}})
	w.withMedia(1)
	h := newHost(t, map[string][]byte{"a": random(100_000)})
	e := usual()
	e.Attachments = []*fireoncev1.MediaRef{{Url: h.url + "/a"}}
	check(t, w.publish(e, 1, longTime), job.ResultUnknown, job.FailAmbiguous)
	h.put("a", "image/png", random(100_000))
	o := w.publish(e, 2, longTime)
	check(t, o, job.ResultSucceeded, 0)
	if sent := w.p.Sent(); len(sent) != 1 || sent[0].ID != o.ExternalID {
		t.Errorf("%d sent, bound to %q", len(sent), o.ExternalID)
	}
}

// A file that changed after an e-mail was sent makes it no other e-mail: nothing is
// sent, and nothing is called sent.
func TestAttachmentChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, resendtest.Options{Plan: func(string, int) resendtest.Answer { return resendtest.Reset }})
	w.withMedia(1)
	h := newHost(t, map[string][]byte{"a": random(10)})
	e := usual()
	e.Attachments = []*fireoncev1.MediaRef{{Url: h.url + "/a"}}
	check(t, w.publish(e, 1, longTime), job.ResultUnknown, job.FailAmbiguous)
	h.put("a", "image/png", random(11))
	check(t, w.publish(e, 2, longTime), job.ResultUnknown, job.FailAmbiguous)
	if n := len(w.p.Sent()); n != 1 {
		t.Errorf("%d sent", n)
	}
}

// A file that cannot be sent fails before Resend hears anything.
func TestAttachmentRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, resendtest.Options{})
	w.withMedia(2)
	other := sha256.Sum256([]byte("another"))
	h := newHost(t, map[string][]byte{"a": random(10), "full": random(resend.MaxFiles / 4 * 3), "over": random(resend.MaxFiles/4*3 + 1)})
	for name, c := range map[string]struct {
		refs  []*fireoncev1.MediaRef
		words string
	}{
		"gone":         {[]*fireoncev1.MediaRef{{Url: h.url + "/a"}, {Url: h.url + "/gone"}}, "is not there"},
		"another one":  {[]*fireoncev1.MediaRef{{Url: h.url + "/a", Sha256: other[:]}}, "SHA-256 differs"},
		"a byte more":  {[]*fireoncev1.MediaRef{{Url: h.url + "/over"}}, "too large: more than 30000000 bytes"},
		"together":     {[]*fireoncev1.MediaRef{{Url: h.url + "/full"}, {Url: h.url + "/a"}}, "too large"},
		"no such host": {[]*fireoncev1.MediaRef{{Url: "http://127.0.0.1:1/a"}}, "could not be fetched"},
	} {
		e := usual()
		e.Attachments = c.refs
		_, err := w.c.Open(t.Context(), w.opening(e))
		var refusal *connector.Refusal
		if !errors.As(err, &refusal) || !strings.Contains(refusal.Msg, c.words) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := w.p.Requests(effectKey); n != 0 {
		t.Errorf("%d requests", n)
	}
	e := usual()
	e.Attachments = []*fireoncev1.MediaRef{{Url: h.url + "/full"}} // the space is free again, and the file has the largest size allowed
	check(t, w.publish(e, 1, longTime), job.ResultSucceeded, 0)
}

// Files are let go with their session.
func TestAttachmentsLetGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, resendtest.Options{})
	w.withMedia(1)
	h := newHost(t, map[string][]byte{"a": random(10)})
	e := usual()
	e.Attachments = []*fireoncev1.MediaRef{{Url: h.url + "/a"}}
	for range 3 {
		s, err := w.c.Open(t.Context(), w.opening(e))
		if err != nil {
			t.Fatal(err)
		}
		if up := s.(connector.Uploader); up.SendTime() < 10*time.Second {
			t.Errorf("%v to send", up.SendTime())
		}
		_, err = w.c.Open(t.Context(), w.opening(e))
		var refusal *connector.Refusal
		if !errors.As(err, &refusal) || refusal.Kind != job.FailHeld {
			t.Errorf("more files than there is room for: %v", err)
		}
		s.Close()
		s.Close()
	}
	if w.c.(connector.Idler).OpenIdle(w.opening(e)) != nil {
		t.Error("an idle connection was returned, and the files are not there")
	}
	check(t, w.publish(e, 1, longTime), job.ResultSucceeded, 0)
	_ = w.p.Close()
	for range 2 {
		_, err := w.c.Open(t.Context(), w.opening(e))
		var refusal *connector.Refusal
		if !errors.As(err, &refusal) || refusal.Kind != job.FailTransient {
			t.Errorf("nobody listens: %v", err)
		}
	}
}

// What can be known of files before they are fetched.
func TestPrepareFiles(t *testing.T) {
	t.Parallel()
	media := kit.NewMedia(kit.MediaConfig{})
	for name, c := range map[string]struct {
		config resend.Config
		ref    *fireoncev1.MediaRef
		field  string
	}{
		"taken":                   {resend.Config{Media: media}, &fireoncev1.MediaRef{Url: "http://example.org/a.pdf"}, ""},
		"no fetcher":              {resend.Config{}, &fireoncev1.MediaRef{Url: "https://example.org/a.pdf"}, ""},
		"without TLS":             {resend.Config{Media: media, HTTPSOnly: true}, &fireoncev1.MediaRef{Url: "http://example.org/a.pdf"}, "[1].url"},
		"a name that is not sent": {resend.Config{Media: media}, &fireoncev1.MediaRef{Url: "https://example.org/a", FileName: "a.pdf.EXE"}, "[1].file_name"},
		"so is it in the URL":     {resend.Config{Media: media}, &fireoncev1.MediaRef{Url: "https://example.org/a.js?x=y"}, "[1].file_name"},
	} {
		conn, err := resend.New(c.config)
		if err != nil {
			t.Fatal(err)
		}
		e := usual()
		e.Attachments = []*fireoncev1.MediaRef{{Url: "https://example.org/first"}, c.ref}
		p, err := conn.Prepare(requestFor(t, e))
		if name == "taken" {
			if err != nil || p.OpenTime != job.MaxOpenTimeout {
				t.Errorf("%s: %v, %v to open", name, err, p.OpenTime)
			}
			continue
		}
		var input *connector.InputError
		if !errors.As(err, &input) || input.Reason != connector.BadPayload || input.Field != "payload.email.attachments"+c.field {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What was frozen is read again as it was, and nothing else is.
func TestThaw(t *testing.T) {
	t.Parallel()
	w := newWorld(t, resendtest.Options{})
	w.withMedia(1)
	for name, frozen := range map[string][]byte{
		"nothing":      nil,
		"no object":    job.NewCanon().Field("body", []byte(`[1]`)).Bytes(),
		"half a file":  job.NewCanon().Field("body", []byte(`{"a":1}`)).Field("file_url", []byte("https://example.org/a")).Bytes(),
		"another file": job.NewCanon().Field("body", []byte(`{"a":1}`)).Field("body", []byte(`{"a":1}`)).Bytes(),
	} {
		o := w.opening(usual())
		o.Prepared.Frozen = frozen
		_, err := w.c.Open(t.Context(), o)
		var refusal *connector.Refusal
		if !errors.As(err, &refusal) || refusal.Kind != job.FailPermanent {
			t.Errorf("%s: %v", name, err)
		}
	}
}
