package transport_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/connectortest"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// bigBody is more than the kernel takes for a peer that does not read.
const bigBody = 32 << 20

func target(tb testing.TB, base string) transport.Target {
	tb.Helper()
	u, err := transport.ParseURL(base)
	if err != nil {
		tb.Fatal(err)
	}
	return transport.TargetOf(u)
}

func post(tb testing.TB, base string, body []byte) transport.Request {
	tb.Helper()
	u, err := transport.ParseURL(base + "/x")
	if err != nil {
		tb.Fatal(err)
	}
	return transport.Request{
		Method: "POST", URL: u, Headers: []transport.Header{{Name: "Idempotency-Key", Value: "k"}},
		Body: bytes.NewReader(body), Length: int64(len(body)),
	}
}

func bounds(limit time.Duration) transport.Bounds {
	at := time.Now().Add(limit)
	return transport.Bounds{SendBy: at, AnswerBy: at}
}

func open(tb testing.TB, s *transport.Sender, base string, fresh bool) *transport.Conn {
	tb.Helper()
	l, err := s.Open(tb.Context(), target(tb, base), fresh)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(l.Close)
	return l
}

func judge(a transport.Response) job.Outcome { return transport.Classify(a, "the peer", nil) }

func both(t *testing.T, test func(t *testing.T, secure bool)) {
	for name, secure := range map[string]bool{"http": false, "https": true} {
		t.Run(name, func(t *testing.T) { test(t, secure) })
	}
}

// TestEarlyRefusal: a peer that refuses a large request by its head, and does
// not read on, is heard while the request is still being written.
func TestEarlyRefusal(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		p := connectortest.NewPlatform(t, secure, connectortest.Script{At: connectortest.AtHead, Do: func(c *connectortest.Conn) {
			c.Write(connectortest.Answer(413, "too large"))
			c.AwaitRelease()
			c.Cut()
		}})
		start := time.Now()
		a := open(t, p.Sender(), p.URL(), true).Exchange(post(t, p.URL(), make([]byte, bigBody)), bounds(30*time.Second))
		o := judge(a)
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("kept writing for %v after the refusal", took)
		}
		if o.Result != job.ResultRejected || o.Kind != job.FailPermanent || a.Sent || a.Written == 0 || a.Written >= bigBody {
			t.Errorf("%s %s (%s), sent %v, %d bytes", o.Result, o.Kind, o.Message, a.Sent, a.Written)
		}
	})
}

// TestEarlySuccessIsNoProof: a peer that says 200 and never reads the rest.
func TestEarlySuccessIsNoProof(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		p := connectortest.NewPlatform(t, secure, connectortest.Script{At: connectortest.AtHead, Do: func(c *connectortest.Conn) {
			c.Write(connectortest.Answer(200, ""))
			c.AwaitRelease()
			c.Cut()
		}})
		conn, request := open(t, p.Sender(), p.URL(), true), post(t, p.URL(), make([]byte, bigBody))
		a := conn.Exchange(request, bounds(300*time.Millisecond))
		if o := judge(a); o.Result != job.ResultUnknown || a.Sent {
			t.Errorf("%s (%s), sent %v", o.Result, o.Message, a.Sent)
		}
	})
}

// sendTime is long enough to begin to write, also on a busy machine.
const sendTime = 3 * time.Second

// TestSendByIsAbsolute: the peer reads nothing; writing ends at SendBy, and the
// exchange at AnswerBy.
func TestSendByIsAbsolute(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		p := connectortest.NewPlatform(t, secure, connectortest.Script{At: connectortest.AtHead, Do: func(c *connectortest.Conn) {
			c.AwaitRelease()
			c.Cut()
		}})
		conn, request := open(t, p.Sender(), p.URL(), true), post(t, p.URL(), make([]byte, bigBody))
		start := time.Now()
		b := transport.Bounds{SendBy: start.Add(sendTime), AnswerBy: start.Add(sendTime + 200*time.Millisecond)}
		a := conn.Exchange(request, b)
		if o := judge(a); o.Result != job.ResultUnknown || a.Sent || a.Written == 0 {
			t.Errorf("%s (%s), sent %v, %d bytes", o.Result, o.Message, a.Sent, a.Written)
		}
		if took := time.Since(start); took < sendTime {
			t.Errorf("took %v", took)
		}
	})
}

// TestNoByteAfterSendBy: a peer that begins to read after SendBy does not get
// the rest, and its success counts for nothing.
func TestNoByteAfterSendBy(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		p := connectortest.NewPlatform(t, secure, connectortest.Script{At: connectortest.AtHead, Do: func(c *connectortest.Conn) {
			c.AwaitRelease()
			c.Write(connectortest.Answer(200, ""))
			c.AwaitPeerGone()
		}})
		conn, request := open(t, p.Sender(), p.URL(), true), post(t, p.URL(), make([]byte, bigBody))
		sendBy := time.Now().Add(sendTime)
		time.AfterFunc(sendTime+200*time.Millisecond, p.Release)
		a := conn.Exchange(request, transport.Bounds{SendBy: sendBy, AnswerBy: sendBy.Add(30 * time.Second)})
		if o := judge(a); o.Result != job.ResultUnknown || a.Sent || !a.Complete {
			t.Errorf("%s (%s), sent %v, complete %v", o.Result, o.Message, a.Sent, a.Complete)
		}
	})
}

// TestNothingArrivesAfterTheVerdict: what the kernel still holds of a request is
// thrown away when the attempt is judged.
func TestNothingArrivesAfterTheVerdict(t *testing.T) {
	p := connectortest.NewPlatform(t, false, connectortest.Script{At: connectortest.AtHead, Do: func(c *connectortest.Conn) {
		c.AwaitRelease()
		c.AwaitPeerGone()
	}})
	conn, request := open(t, p.Sender(), p.URL(), true), post(t, p.URL(), make([]byte, bigBody))
	a := conn.Exchange(request, bounds(sendTime))
	p.Release()
	p.AwaitIdle()
	if got := p.Bytes(); got >= a.Written {
		t.Errorf("the peer got %d bytes of %d that the kernel had", got, a.Written)
	}
}

func TestSenderReuses(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		p := connectortest.NewPlatform(t, secure)
		s := p.Sender()
		for i := range 5 {
			l := open(t, s, p.URL(), false)
			if l.Reused() != (i > 0) {
				t.Errorf("exchange %d: reused %v", i, l.Reused())
			}
			if o := judge(l.Exchange(post(t, p.URL(), []byte("{}")), bounds(30*time.Second))); o.Result != job.ResultSucceeded {
				t.Fatalf("%s: %s", o.Result, o.Message)
			}
			l.Close() // late: must not touch the connection's next life
		}
		if p.Accepted() != 1 || p.Started() != 5 {
			t.Errorf("%d connections, %d requests", p.Accepted(), p.Started())
		}
		if got := p.Requests()[0].Get("Connection"); got != "" {
			t.Errorf("Connection: %s on a connection to keep", got)
		}
	})
}

func TestFreshConnectionSaysClose(t *testing.T) {
	p := connectortest.NewPlatform(t, false)
	open(t, p.Sender(), p.URL(), true).Exchange(post(t, p.URL(), nil), bounds(30*time.Second))
	if got := p.Requests()[0].Get("Connection"); got != "close" {
		t.Errorf("Connection: %q", got)
	}
}

// TestLateCloseLeavesTheNextLifeAlone: the old Conn is closed while the new one
// uses the same connection.
func TestLateCloseLeavesTheNextLifeAlone(t *testing.T) {
	p := connectortest.NewPlatform(t, false)
	s := p.Sender()
	first := open(t, s, p.URL(), false)
	first.Exchange(post(t, p.URL(), nil), bounds(30*time.Second))
	second := open(t, s, p.URL(), false)
	first.Close()
	if o := judge(second.Exchange(post(t, p.URL(), nil), bounds(30*time.Second))); o.Result != job.ResultSucceeded || !second.Reused() {
		t.Errorf("%s: %s", o.Result, o.Message)
	}
}

func TestUnusedConnectionIsKept(t *testing.T) {
	p := connectortest.NewPlatform(t, false)
	s := p.Sender()
	open(t, s, p.URL(), false).Close()
	if l := open(t, s, p.URL(), false); !l.Reused() {
		t.Error("dialled again")
	}
}

func TestIdleLimitAndBounds(t *testing.T) {
	p := connectortest.NewPlatform(t, false)
	s := transport.NewSender(transport.Config{Egress: transport.NewEgress(netip.MustParsePrefix("127.0.0.0/8")), IdleLimit: time.Millisecond})
	open(t, s, p.URL(), false).Close()
	p.AwaitIdle() // the limit closes it
	none := transport.NewSender(transport.Config{Egress: transport.NewEgress(netip.MustParsePrefix("127.0.0.0/8")), IdleLimit: -1})
	open(t, none, p.URL(), false).Close()
	p.AwaitIdle()
	many := p.Sender()
	var conns []*transport.Conn
	for range transport.MaxIdlePerTarget + 3 {
		conns = append(conns, open(t, many, p.URL(), false))
	}
	for _, l := range conns {
		l.Close()
	}
	reused := 0
	for range transport.MaxIdlePerTarget + 3 {
		if open(t, many, p.URL(), true).Reused() {
			t.Fatal("a reused connection where a fresh one was asked for")
		}
		if open(t, many, p.URL(), false).Reused() {
			reused++
		}
	}
	if reused != transport.MaxIdlePerTarget {
		t.Errorf("%d connections were kept, want %d", reused, transport.MaxIdlePerTarget)
	}
	many.Close()
}

// TestUnaskedAnswer: an answer on an idle connection answers nothing.
func TestUnaskedAnswer(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		written := make(chan struct{})
		p := connectortest.NewPlatform(t, secure, connectortest.Script{Do: func(c *connectortest.Conn) {
			c.Write(connectortest.Answer(200, ""))
			c.AwaitRelease()
			c.Write(connectortest.Answer(408, "", "Connection: close"))
			close(written)
		}}, connectortest.OK)
		s := p.Sender()
		open(t, s, p.URL(), false).Exchange(post(t, p.URL(), nil), bounds(30*time.Second))
		held := open(t, s, p.URL(), false) // before the unasked answer
		p.Release()
		<-written
		a := held.Exchange(post(t, p.URL(), nil), bounds(30*time.Second))
		if o := judge(a); o.Result != job.ResultNotSent || p.Started() != 1 {
			t.Errorf("%s (%s), %d requests", o.Result, o.Message, p.Started())
		}
	})
}

func TestRequestOnTheWire(t *testing.T) {
	p := connectortest.NewPlatform(t, false)
	r := post(t, p.URL(), []byte("body"))
	r.Headers = append(r.Headers, transport.Header{Name: "Expect", Value: "100-continue"}, transport.Header{Name: "User-Agent", Value: "other"})
	open(t, p.Sender(), p.URL(), true).Exchange(r, bounds(30*time.Second))
	got := p.Requests()[0]
	if got.Line != "POST /x HTTP/1.1" || string(got.Body) != "body" || got.Get("User-Agent") != "Fireonce/test" || got.Get("Expect") != "" {
		t.Errorf("%+v", got)
	}
}

func TestBrokenBody(t *testing.T) {
	p := connectortest.NewPlatform(t, false)
	r := post(t, p.URL(), nil)
	r.Body, r.Length = io.MultiReader(strings.NewReader("abc"), failing{}), 100
	a := open(t, p.Sender(), p.URL(), true).Exchange(r, bounds(30*time.Second))
	if o := judge(a); o.Result != job.ResultNotSent { // it broke before the buffer was full
		t.Errorf("%s (%s), %d bytes", o.Result, o.Message, a.Written)
	}
	r.Body, r.Length = io.MultiReader(bytes.NewReader(make([]byte, 1<<20)), failing{}), 2<<20
	a = open(t, p.Sender(), p.URL(), true).Exchange(r, bounds(30*time.Second))
	if o := judge(a); o.Result != job.ResultUnknown {
		t.Errorf("%s (%s), %d bytes", o.Result, o.Message, a.Written)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("the disk is gone") }

func TestTLSRefusals(t *testing.T) {
	p := connectortest.NewPlatform(t, true)
	tgt := target(t, p.URL())
	tgt.Host = "localhost" // not in the certificate
	_, err := p.Sender().Open(t.Context(), tgt, true)
	var refusal *connector.Refusal
	if !errors.As(err, &refusal) || refusal.Kind != job.FailTransient || !strings.Contains(refusal.Msg, "not trusted") {
		t.Errorf("wrong name: %v", err)
	}
	plain := connectortest.NewPlatform(t, false)
	tgt = target(t, plain.URL())
	tgt.Scheme = "https"
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err = plain.Sender().Open(ctx, tgt, true); !errors.As(err, &refusal) || refusal.Kind != job.FailTransient {
		t.Errorf("no TLS there: %v", err)
	}
}

func TestTLSVersionAndProtocol(t *testing.T) {
	hello := make(chan *tls.ClientHelloInfo, 1)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		_ = tls.Server(conn, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			hello <- h
			return nil, errors.New("enough")
		}}).Handshake()
		_ = conn.Close()
	}()
	s := transport.NewSender(transport.Config{Egress: transport.NewEgress(netip.MustParsePrefix("127.0.0.0/8"))})
	if _, err := s.Open(t.Context(), target(t, "https://"+l.Addr().String()), true); err == nil {
		t.Error("opened")
	}
	h := <-hello
	if len(h.SupportedProtos) != 1 || h.SupportedProtos[0] != "http/1.1" {
		t.Errorf("protocols %v", h.SupportedProtos)
	}
	for _, v := range h.SupportedVersions {
		if v < tls.VersionTLS12 {
			t.Errorf("offers TLS version %x", v)
		}
	}
}

func TestConnectTimeout(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts in the kernel, never shakes hands
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	s := transport.NewSender(transport.Config{
		Egress: transport.NewEgress(netip.MustParsePrefix("127.0.0.0/8")), ConnectTimeout: 50 * time.Millisecond,
	})
	_, err = s.Open(t.Context(), target(t, "https://"+l.Addr().String()), true)
	var refusal *connector.Refusal
	if !errors.As(err, &refusal) || refusal.Kind != job.FailTransient || !strings.Contains(refusal.Msg, "too long") {
		t.Errorf("%v", err)
	}
}

func TestNoProxyFromTheEnvironment(t *testing.T) {
	proxy := connectortest.NewPlatform(t, false)
	t.Setenv("HTTP_PROXY", proxy.URL())
	t.Setenv("HTTPS_PROXY", proxy.URL())
	p := connectortest.NewPlatform(t, false)
	open(t, p.Sender(), p.URL(), true).Exchange(post(t, p.URL(), nil), bounds(30*time.Second))
	if proxy.Accepted() != 0 || p.Started() != 1 {
		t.Error("went through a proxy")
	}
}

// TestOtherFamily sends over IPv6's loopback.
func TestOtherFamily(t *testing.T) {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("no IPv6 here")
	}
	defer func() { _ = l.Close() }()
	go func() {
		if conn, err := l.Accept(); err == nil {
			_, _ = conn.Read(make([]byte, 4096))
			_, _ = io.WriteString(conn, connectortest.Answer(200, ""))
			_ = conn.Close()
		}
	}()
	base := (&url.URL{Scheme: "http", Host: l.Addr().String()}).String()
	s := transport.NewSender(transport.Config{Egress: transport.NewEgress(netip.MustParsePrefix("::1/128"))})
	if o := judge(open(t, s, base, true).Exchange(post(t, base, nil), bounds(30*time.Second))); o.Result != job.ResultSucceeded {
		t.Errorf("%s: %s", o.Result, o.Message)
	}
}

// TestKeep: a connector that asks for it has the whole body, up to the limit; a
// message still quotes only its beginning.
func TestKeep(t *testing.T) {
	for keep, want := range map[int64]int{0: transport.MaxExcerpt, 10: 10, 100 << 10: 100 << 10, 1 << 40: 200 << 10} {
		a := exchangeOnce(t, strings.Repeat("x", 200<<10), keep)
		if len(a.Excerpt) != want || a.Cut != (want < 200<<10) || !a.Complete {
			t.Errorf("keep %d: %d bytes, cut %v, %v", keep, len(a.Excerpt), a.Cut, a.Err)
		}
		if o := judge(a); len(o.Message) > transport.MaxMessage {
			t.Errorf("a message of %d bytes", len(o.Message))
		}
	}
	long := exchangeOnce(t, strings.Repeat(" ", transport.MaxExcerpt-6)+"token-123456", 1<<20)
	if o := transport.Classify(long, "the peer", transport.Secrets{}.With("token-123456")); strings.Contains(o.Message, "token") {
		t.Errorf("a secret that the quote cuts in two: %q", o.Message)
	}
}

// exchangeOnce has a peer answer 400 with this body.
func exchangeOnce(t *testing.T, body string, keep int64) transport.Response {
	t.Helper()
	p := connectortest.NewPlatform(t, false, connectortest.Say(connectortest.Answer(400, body)))
	c := post(t, p.URL(), []byte("{}"))
	c.Keep = keep
	return open(t, p.Sender(), p.URL(), true).Exchange(c, bounds(30*time.Second))
}
