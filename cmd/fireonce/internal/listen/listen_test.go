package listen

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// start serves a receiver, and returns its address and its output.
func start(t *testing.T, rc *receiver) (url string, printed *bytes.Buffer) {
	t.Helper()
	printed = new(bytes.Buffer)
	rc.out = &printer{w: printed, notes: printed}
	if rc.keys == nil {
		rc.keys = newMemory(maxKeys)
	}
	s := httptest.NewServer(rc)
	t.Cleanup(s.Close)
	return s.URL, printed
}

// counts returns the counts, after any request that is still being printed: one without an
// answer may be.
func (p *printer) counts() (requests, acted, repeated int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests, p.acted, p.repeated
}

func send(t *testing.T, url string, body string, header http.Header) (status int) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url+"/x?y=z", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if header != nil {
		req.Header = header
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

func TestKeys(t *testing.T) {
	rc := &receiver{}
	url, printed := start(t, rc)
	key := http.Header{"Idempotency-Key": {"k"}}
	for range 2 {
		if got := send(t, url, "", key); got != http.StatusOK {
			t.Error(got)
		}
		send(t, url, "", nil)
	}
	if requests, acted, repeated := rc.out.counts(); requests != 4 || acted != 3 || repeated != 1 {
		t.Errorf("%d requests, %d acted, %d repeated", requests, acted, repeated)
	}
	if want := "PUT /x?y=z  Idempotency-Key k  200  seen before: dropped\n"; !strings.Contains(printed.String(), want) {
		t.Errorf("no %q in\n%s", want, printed)
	}
}

func TestManyConcurrentlyAreOneEffect(t *testing.T) {
	rc := &receiver{}
	url, _ := start(t, rc)
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() { send(t, url, "", http.Header{"Idempotency-Key": {"k"}}) })
	}
	group.Wait()
	if _, acted, repeated := rc.out.counts(); acted != 1 || repeated != 15 {
		t.Errorf("%d acted, %d repeated", acted, repeated)
	}
}

func TestLosesAndFails(t *testing.T) {
	for name, c := range map[string]struct {
		lose, fail share
		want       []int // 0: no answer
		acted      int
	}{
		"nothing":                {want: []int{200, 200}, acted: 1},
		"lose all":               {lose: share{percent: 100}, want: []int{0, 0}, acted: 1},
		"lose first":             {lose: share{first: true}, want: []int{0, 200}, acted: 1},
		"fail all":               {fail: share{percent: 100}, want: []int{500, 500}},
		"fail first":             {fail: share{first: true}, want: []int{500, 200, 200}, acted: 1},
		"fail first, lose first": {lose: share{first: true}, fail: share{first: true}, want: []int{500, 0, 200}, acted: 1},
	} {
		t.Run(name, func(t *testing.T) {
			rc := &receiver{lose: c.lose, fail: c.fail}
			url, _ := start(t, rc)
			for i, want := range c.want {
				if got := send(t, url, "", http.Header{"Webhook-Id": {"k"}}); got != want {
					t.Errorf("request %d: %d, not %d", i+1, got, want)
				}
			}
			if _, acted, _ := rc.out.counts(); acted != c.acted {
				t.Errorf("%d acted", acted)
			}
		})
	}
}

// TestSignatures signs with the reference library, and then changes something.
func TestSignatures(t *testing.T) {
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	wh, err := newSecret(secret)
	if err != nil {
		t.Fatal(err)
	}
	other, err := newSecret("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
	if err != nil {
		t.Fatal(err)
	}
	rc := &receiver{secrets: []*standardwebhooks.Webhook{other, wh}}
	url, _ := start(t, rc)
	header := func(at time.Time) http.Header {
		signature, err := wh.Sign("k", at, []byte("body"))
		if err != nil {
			t.Fatal(err)
		}
		return http.Header{"Webhook-Id": {"k"}, "Webhook-Timestamp": {fmt.Sprint(at.Unix())}, "Webhook-Signature": {signature}}
	}
	if got := send(t, url, "body", header(time.Now())); got != http.StatusOK {
		t.Errorf("signed: %d", got)
	}
	without := header(time.Now())
	without.Del("Webhook-Signature")
	for name, got := range map[string]int{
		"another body": send(t, url, "Body", header(time.Now())),
		"old":          send(t, url, "body", header(time.Now().Add(-6*time.Minute))),
		"unsigned":     send(t, url, "body", without),
	} {
		if got != http.StatusUnauthorized {
			t.Errorf("%s: %d", name, got)
		}
	}
	if _, acted, _ := rc.out.counts(); acted != 1 {
		t.Errorf("%d acted", acted)
	}
}

// TestNoticeIsWhole: a notice is not cut.
func TestNoticeIsWhole(t *testing.T) {
	url, printed := start(t, &receiver{keys: newMemory(2)})
	notice := noticeBegins + `events","data":"` + strings.Repeat("y", 3*shownBody) + `"}`
	if send(t, url, notice, nil); !strings.Contains(printed.String(), notice) {
		t.Error("a notice was cut")
	}
}

// TestLimits checks that bodies, their shown parts, and keys are bounded.
func TestLimits(t *testing.T) {
	rc := &receiver{keys: newMemory(2)}
	url, printed := start(t, rc)
	if got := send(t, url, strings.Repeat("x", maxBody+1), nil); got != http.StatusRequestEntityTooLarge {
		t.Errorf("too large: %d", got)
	}
	if rc.out.acted != 0 {
		t.Error("acted on a part of a body")
	}
	send(t, url, strings.Repeat("é", maxBody/2), nil)
	if want := fmt.Sprintf("… and %d bytes more", maxBody-shownBody); !strings.Contains(printed.String(), want) || printed.Len() > 2*shownBody {
		t.Errorf("no %q in %d bytes that were printed", want, printed.Len())
	}
	send(t, url, "\xff\x00", nil)
	if !strings.Contains(printed.String(), "2 bytes that are not text") {
		t.Error("bytes that are not text were printed")
	}
	for _, key := range []string{"a", "b", "c", "c", "b", "a"} { // c makes it forget a
		send(t, url, "", http.Header{"Idempotency-Key": {key}})
	}
	if _, acted, repeated := rc.out.counts(); acted != 2+4 || repeated != 2 || len(rc.keys.of) != 2 {
		t.Errorf("%d acted, %d repeated, %d keys", acted, repeated, len(rc.keys.of))
	}
}

// TestABrokenBodyIsNotAnswered checks that an incomplete request gets no answer: status 200 would
// confirm an effect that does not exist.
func TestABrokenBodyIsNotAnswered(t *testing.T) {
	rc := &receiver{}
	url, _ := start(t, rc)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nno chunk\r\n"); err != nil {
		t.Fatal(err)
	}
	if answer, _ := io.ReadAll(conn); len(answer) > 0 || rc.out.acted != 0 {
		t.Errorf("%q, %d acted", answer, rc.out.acted)
	}
}

func TestNothingDrivesTheTerminal(t *testing.T) {
	url, printed := start(t, &receiver{})
	send(t, url, "one\x1b[2Jtwo\nthree\r\n", nil)
	if !strings.Contains(printed.String(), "    one [2Jtwo\n    three\n") {
		t.Errorf("%q", printed)
	}
}

func TestShares(t *testing.T) {
	for text, want := range map[string]share{"": {}, "first": {first: true}, "30%": {percent: 30}, "30": {percent: 30}, "100%": {percent: 100}} {
		if got, err := shareOf("fail", text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"-1", "101%", "often", "NaN", "%"} {
		if got, err := shareOf("fail", text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
