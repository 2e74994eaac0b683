package listen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/terminal"
)

const (
	// shownBody is how much of a body is shown, in bytes. A notice is shown whole: it is JSON for programs, too.
	shownBody = 1 << 10
	// noticeBegins is how the body of a notice begins.
	noticeBegins = `{"type":"fireonce.notice.`
	// shownText is how much of a path or a key is shown, in characters.
	shownText = 200
)

// arrival is a request and its outcome. --json prints its fields.
type arrival struct {
	Time   time.Time `json:"time"`
	Method string    `json:"method"`
	Path   string    `json:"path"`
	// KeyHeader is the header from which Key comes; empty: the request has no key.
	KeyHeader string `json:"keyHeader,omitempty"`
	Key       string `json:"key,omitempty"`
	// Status is the status of the answer; 0: there was none.
	Status  int    `json:"status"`
	Outcome string `json:"outcome"`
	// Body is the beginning of the body; BodyBytes is the body's length.
	Body      string `json:"body"`
	BodyBytes int    `json:"bodyBytes"`

	body []byte
}

// printer writes one request after another.
type printer struct {
	w, notes io.Writer
	json     bool

	mu                        sync.Mutex
	requests, acted, repeated int
}

func (p *printer) begin(addr net.Addr, signed bool) {
	if at, err := netip.ParseAddrPort(addr.String()); err == nil && !at.Addr().Unmap().IsLoopback() {
		fmt.Fprintf(p.notes, "fireonce: warning: other machines can send to %s\n", addr)
	}
	fmt.Fprintf(p.notes, "Listening on http://%s; Ctrl-C ends it.\n", addr)
	if !signed {
		fmt.Fprintln(p.notes, "Signatures are not checked: --secret whsec_… checks them.")
	}
}

func (p *printer) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.notes, "%d requests: acted on %d, dropped %d that had been seen before.\n", p.requests, p.acted, p.repeated)
}

// arrived prints a request and counts it.
func (p *printer) arrived(a arrival) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests++
	switch a.Outcome {
	case acted:
		p.acted++
	case dropped:
		p.repeated++
	}
	a.BodyBytes = len(a.body)
	a.Body = beginning(a.body)
	if p.json {
		line, _ := json.Marshal(a)                          // cannot fail: texts, numbers and a time of now
		_, _ = p.w.Write(append(terminal.JSON(line), '\n')) // a closed pipe does not matter
		return
	}
	status := "answer lost"
	if a.Status != 0 {
		status = fmt.Sprint(a.Status)
	}
	key := "no key"
	if a.Key != "" {
		key = a.KeyHeader + " " + terminal.Short(a.Key, shownText)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s  %s %s  %s  %s  %s\n", a.Time.Local().Format("2006-01-02 15:04:05.000"), terminal.Plain(a.Method),
		terminal.Short(a.Path, shownText), key, status, a.Outcome)
	for line := range strings.Lines(a.Body) {
		fmt.Fprintf(&out, "    %s\n", terminal.Plain(strings.TrimRight(line, "\r\n")))
	}
	if more := len(a.body) - len(a.Body); more > 0 && a.Body != "" {
		fmt.Fprintf(&out, "    … and %d bytes more\n", more)
	} else if more > 0 {
		fmt.Fprintf(&out, "    %d bytes that are not text\n", more)
	}
	_, _ = io.WriteString(p.w, out.String())
}

// beginning returns the part of a body that is shown; empty: the body is not text.
func beginning(body []byte) string {
	if !utf8.Valid(body) {
		return ""
	}
	if len(body) <= shownBody || bytes.HasPrefix(body, []byte(noticeBegins)) {
		return string(body)
	}
	cut := shownBody
	for !utf8.RuneStart(body[cut]) {
		cut--
	}
	return string(body[:cut])
}
