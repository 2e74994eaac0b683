package transport_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector/connectortest"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// longAnswers are answers that are longer than we read, in their body or in their head.
func longAnswers(status int) map[string]string {
	line := fmt.Sprintf("HTTP/1.1 %d Words\r\nRetry-After: 7\r\n", status)
	body := strings.Repeat("x", transport.MaxBody)
	filler := strings.Repeat("X-Filler: "+strings.Repeat("y", 1000)+"\r\n", 70)
	return map[string]string{
		"body, with its length":    line + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body)+1) + body + "x",
		"body, in chunks":          line + "Transfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n", len(body)+1) + body + "x\r\n0\r\n\r\n",
		"body, until the end":      line + "\r\n" + body + strings.Repeat("x", 200_000),
		"body that does not end":   line + "Content-Length: 99999999\r\n\r\n" + body + strings.Repeat("x", 200_000),
		"head, many fields":        line + filler + "Content-Length: 0\r\n\r\n",
		"head, one field":          line + "X-Filler: " + strings.Repeat("y", transport.MaxHead) + "\r\nContent-Length: 0\r\n\r\n",
		"head that does not end":   line + filler,
		"head, behind 103":         "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + line + filler + "Content-Length: 0\r\n\r\n",
		"head, behind 50 of 103":   strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", 50) + line + filler + "Content-Length: 0\r\n\r\n",
		"head, no reason":          strings.Replace(line, " Words", "", 1) + filler + "Content-Length: 0\r\n\r\n",
		"trailers":                 line + "Transfer-Encoding: chunked\r\n\r\n5\r\nxxxxx\r\n0\r\n" + filler + "\r\n",
		"head, of an older server": strings.Replace(line, "1.1", "1.0", 1) + filler + "\r\n",
	}
}

// TestOurLimitsAreNotThePeersFault checks answers that are longer than we read. Where the status
// decides, it is believed; elsewhere the verdict may be in the rest, and stays unknown. In
// neither case is the rest read.
func TestOurLimitsAreNotThePeersFault(t *testing.T) {
	for _, status := range []int{200, 204, 302, 404, 429, 503} {
		for name, raw := range longAnswers(status) {
			if status == 204 && (strings.HasPrefix(name, "body") || name == "trailers") {
				continue // it has no body; what follows is not read
			}
			t.Run(fmt.Sprint(status, " ", name), func(t *testing.T) {
				t.Parallel()
				for _, decides := range []bool{true, false} {
					p := connectortest.NewPlatform(t, false, connectortest.Script{Do: func(c *connectortest.Conn) {
						c.Write(raw)
						c.AwaitPeerGone()
					}})
					request := post(t, p.URL(), []byte("{}"))
					request.StatusDecides = decides
					a := open(t, p.Sender(), p.URL(), false).Exchange(request, bounds(30*time.Second))
					o := transport.ClassifyNamed(a, "the peer", nil, false)
					if !decides {
						if a.Complete || a.TooLong || o.Result != job.ResultUnknown {
							t.Errorf("the status does not decide: %s, %+v", o.Result, a.Err)
						}
						continue
					}
					if !a.Complete || !a.TooLong || !a.Cut || a.Status != status || a.Header.Get("Retry-After") != "7" || a.PeerEnded() {
						t.Errorf("complete %v, too long %v, cut %v, status %d, %q, %v", a.Complete, a.TooLong, a.Cut, a.Status, a.Header.Get("Retry-After"), a.Err)
					}
					whole := answerOf(status, "Retry-After: 7")
					if want := transport.ClassifyNamed(whole, "the peer", nil, false); o.Result != want.Result || o.Kind != want.Kind || o.RetryAfter != want.RetryAfter {
						t.Errorf("%s %s after %v, want %s %s after %v", o.Result, o.Kind, o.RetryAfter, want.Result, want.Kind, want.RetryAfter)
					}
					if !strings.Contains(o.Message, "longer than Fireonce reads, and was cut") {
						t.Errorf("it does not say that it was cut: %q", o.Message)
					}
					if name != "trailers" && strings.HasPrefix(name, "body") && len(a.Excerpt) != transport.MaxExcerpt {
						t.Errorf("%d bytes were kept", len(a.Excerpt))
					}
				}
			})
		}
	}
}

// TestACutHeadWithoutAStatus checks heads of which no final status line is whole.
func TestACutHeadWithoutAStatus(t *testing.T) {
	filler := strings.Repeat("X-Filler: "+strings.Repeat("y", 1000)+"\r\n", 70)
	for name, raw := range map[string]string{
		"informational": "HTTP/1.1 100 Continue\r\n" + filler, "no HTTP": strings.Repeat("z", 100_000), "no status": "HTTP/1.1 abc Words\r\n" + filler,
		"a switch of protocols": "HTTP/1.1 101 Switching\r\n" + filler, "another version": "HTTP/2.0 200 OK\r\n" + filler, "four digits": "HTTP/1.1 2000 OK\r\n" + filler,
	} {
		p := connectortest.NewPlatform(t, false, connectortest.Script{Do: func(c *connectortest.Conn) {
			c.Write(raw)
			c.AwaitPeerGone()
		}})
		request := post(t, p.URL(), []byte("{}"))
		request.StatusDecides = true
		a := open(t, p.Sender(), p.URL(), false).Exchange(request, bounds(30*time.Second))
		if o := transport.ClassifyNamed(a, "the peer", nil, false); o.Result != job.ResultUnknown || a.Complete || a.TooLong {
			t.Errorf("%s: %s, %+v", name, o.Result, a)
		}
	}
}

// TestASuccessBeforeTheRequestStaysUnknown checks that a long answer changes nothing about a
// request that was not written whole.
func TestASuccessBeforeTheRequestStaysUnknown(t *testing.T) {
	p := connectortest.NewPlatform(t, false, connectortest.Script{At: connectortest.AtHead, Do: func(c *connectortest.Conn) {
		c.Write(longAnswers(200)["body, with its length"])
		c.AwaitPeerGone()
	}})
	request := post(t, p.URL(), make([]byte, bigBody))
	request.StatusDecides = true
	a := open(t, p.Sender(), p.URL(), false).Exchange(request, bounds(30*time.Second))
	if o := transport.ClassifyNamed(a, "the peer", nil, false); o.Result != job.ResultUnknown || a.Sent {
		t.Errorf("%s, sent %v: %s", o.Result, a.Sent, o.Message)
	}
}

// TestManyInformationalAnswers checks that a final answer counts behind as many 1xx as there is
// room for (RFC 9110, section 15.2).
func TestManyInformationalAnswers(t *testing.T) {
	for _, n := range []int{1, 9, 100, 1000} {
		raw := strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", n) + "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
		p := connectortest.NewPlatform(t, false, connectortest.Say(raw))
		a := open(t, p.Sender(), p.URL(), false).Exchange(post(t, p.URL(), []byte("{}")), bounds(30*time.Second))
		if o := transport.ClassifyNamed(a, "the peer", nil, false); o.Result != job.ResultSucceeded || string(a.Excerpt) != "{}" {
			t.Errorf("behind %d: %s %q", n, o.Result, o.Message)
		}
	}
}

// TestASlowBody checks bodies that are not over in time. Where the status decides, it counts if
// the body was still coming; a body that stopped has broken off, as that of a target that died.
func TestASlowBody(t *testing.T) {
	const head = "HTTP/1.1 %d X\r\nRetry-After: 7\r\nContent-Length: 100000\r\n\r\n"
	for _, status := range []int{200, 404, 503} {
		for name, c := range map[string]struct {
			script  connectortest.Script
			decides bool
			counts  bool
		}{
			"still coming":                {connectortest.TrickleAfter(fmt.Sprintf(head, status)), true, true},
			"where the body has the word": {connectortest.TrickleAfter(fmt.Sprintf(head, status)), false, false},
			"stopped": {connectortest.Script{Do: func(c *connectortest.Conn) {
				c.Write(fmt.Sprintf(head, status) + "{")
				c.AwaitPeerGone()
			}}, true, false},
			"a head that is still coming": {connectortest.TrickleHead, true, false},
		} {
			t.Run(fmt.Sprint(status, " ", name), func(t *testing.T) {
				t.Parallel()
				p := connectortest.NewPlatform(t, false, c.script)
				request := post(t, p.URL(), []byte("{}"))
				request.StatusDecides = c.decides
				a := open(t, p.Sender(), p.URL(), false).Exchange(request, bounds(2*time.Second))
				o := transport.ClassifyNamed(a, "the peer", nil, false)
				want := job.Outcome{Result: job.ResultUnknown}
				if c.counts {
					want = transport.ClassifyNamed(answerOf(status, "Retry-After: 7"), "the peer", nil, false)
				}
				if o.Result != want.Result || o.RetryAfter != want.RetryAfter || a.Complete != c.counts || a.PeerEnded() {
					t.Errorf("%s after %v, complete %v: %s", o.Result, o.RetryAfter, a.Complete, o.Message)
				}
				if strings.Contains(o.Message, "did not end in time, and was cut") != c.counts {
					t.Errorf("%q", o.Message)
				}
			})
		}
	}
}
