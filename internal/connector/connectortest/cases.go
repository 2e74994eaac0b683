package connectortest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// fault is one thing that can happen to a commit request.
type fault struct {
	name   string
	script Script
	want   []Want // any of them
	short  bool   // a deadline is the subject
}

// faults are the classification's cases beyond plain statuses.
func (s Suite) faults() []fault {
	one := func(w Want) []Want { return []Want{w} }
	ok, long := s.Success, unknown
	if s.StatusDecides {
		long = succeeded
	}
	return []fault{
		{"success", Say(ok), one(s.success()), false},
		{"success, then close", SayAndClose(ok), one(s.success()), false},
		{"success, after 100 and 103", Say("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + ok), one(s.success()), false},
		{"acts, closes", DropAnswer, one(unknown), false},
		{"acts, resets", ResetAnswer, one(unknown), false},
		{"acts, stays silent", NeverAnswer, one(unknown), true},
		{"answers by the byte", Trickle, []Want{long, unknown}, true},
		{"answers headers by the byte", TrickleHead, one(unknown), true},
		{"200, body cut short", SayAndClose("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}"), one(unknown), false},
		{"200, chunk cut short", SayAndClose("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"), one(unknown), false},
		{"200, chunks without an end", SayAndClose("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"), one(unknown), false},
		{"200, no chunks", SayAndClose("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), one(unknown), false},
		{"200, body without an end", EndlessBody, one(long), false},
		{"200, headers without an end", EndlessHead, one(long), false},
		{"200, half of the headers", SayAndClose("HTTP/1.1 200 OK\r\nContent-Le"), one(unknown), false},
		{"200, half of the status line", SayAndClose("HTTP/1.1 20"), one(unknown), false},
		{"200, two lengths", SayAndClose("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"), one(unknown), false},
		{"400, half of the headers", SayAndClose("HTTP/1.1 400 Bad Request\r\nContent-Le"), one(unknown), false},
		{"400, body cut short", SayAndClose("HTTP/1.1 400 Bad Request\r\nContent-Length: 100\r\n\r\n{}"), one(unknown), false},
		{"1xx, then close", SayAndClose("HTTP/1.1 103 Early Hints\r\n\r\n"), one(unknown), false},
		{"1xx without an end", EndlessInformational, one(unknown), false},
		{"101", Say("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"), one(unknown), true},
		{"garbage", SayAndClose("\x00\x01\x02garbage\r\n\r\n"), one(unknown), false},
		{"another protocol", SayAndClose("SSH-2.0-OpenSSH_9.9\r\n"), one(unknown), false},
		{"HTTP/2", SayAndClose("\x00\x00\x12\x04\x00\x00\x00\x00\x00"), one(unknown), false},
		{"HTTP/0.9", SayAndClose("<html>ok</html>"), one(unknown), false},
		{"refuses before the body", EarlyRefusal, []Want{s.want(http.StatusRequestEntityTooLarge), unknown}, false},
		{"closes at the first byte", CloseAtFirstByte, one(unknown), false},
		{"resets at the first byte", ResetAtFirstByte, one(unknown), false},
	}
}

func (s Suite) testFaults(t *testing.T) {
	faults := s.faults()
	if !s.Secure { // with TLS, Open fails
		faults = append(faults, fault{"closes unread", CloseAtAccept, []Want{
			{Result: job.ResultNotSent, Kind: job.FailTransient}, unknown,
		}, false})
	}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			tr := s.trial(t, f.script)
			limit := longTime
			if f.short {
				limit = shortTime
			}
			o := tr.publish(t, tr.open(t), tr.commit(limit))
			for _, w := range f.want {
				if w.Result == o.Result && (w.Kind == 0 || w.Kind == o.Kind) {
					tr.settle(t, 1)
					return
				}
			}
			t.Errorf("%s %s (%s), want one of %v", o.Result, o.Kind, o.Message, f.want)
		})
	}
}

// defaults is the default classification of a complete answer.
func (s Suite) defaults(code int) Want {
	switch {
	case code >= 200 && code < 300:
		return succeeded
	case code == http.StatusTooManyRequests:
		return Want{Result: job.ResultRejected, Kind: job.FailRateLimited}
	case code == http.StatusTooEarly: // RFC 8470, section 5.2: for now
		return Want{Result: job.ResultRejected, Kind: job.FailTransient}
	case code == http.StatusUnauthorized:
		return Want{Result: job.ResultRejected, Kind: job.FailAuth}
	case code >= 400 && code < 500 && code != http.StatusRequestTimeout:
		return permanent
	default:
		return unknown
	}
}

// codes are the statuses that the suite tries.
var codes = []int{
	200, 201, 202, 204, 206, 226, 299, 300, 301, 302, 303, 304, 305, 307, 308, 399, 400, 401, 402, 403, 404, 405, 406,
	407, 408, 409, 410, 411, 412, 413, 415, 418, 421, 422, 423, 425, 426, 428, 429, 431, 451, 499, 500, 501, 502,
	503, 504, 505, 507, 511, 520, 599, 600, 999,
}

// testStatuses sends to a platform that answers each status, with a Location
// that leads back to itself: a redirect that is followed is a second request.
func (s Suite) testStatuses(t *testing.T) {
	for _, code := range codes {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			want, own := s.Table[code]
			if !own {
				want = s.defaults(code)
				if code/100 == 2 && s.Success != Answer(200, "{}") {
					t.Skip("a success of its own")
				}
			}
			tr := s.trial(t, Status(code, "Location: /again"))
			o := tr.publish(t, tr.open(t), tr.commit(longTime))
			want.check(t, o)
			if o.HTTPStatus != code {
				t.Errorf("status %d, want %d", o.HTTPStatus, code)
			}
			tr.settle(t, 1)
		})
	}
}

func (s Suite) testRetryAfter(t *testing.T) {
	date := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
	for name, c := range map[string]struct {
		code     int
		value    string
		min, max time.Duration
	}{
		"seconds":        {429, "120", 2 * time.Minute, 2 * time.Minute},
		"date":           {429, date(2 * time.Minute), time.Minute, 2 * time.Minute},
		"zero":           {429, "0", time.Second, time.Second},
		"past":           {429, date(-time.Hour), time.Second, time.Second},
		"huge":           {429, "99999999999999999999", 24 * time.Hour, 24 * time.Hour},
		"far":            {429, date(10000 * time.Hour), 24 * time.Hour, 24 * time.Hour},
		"negative":       {429, "-5", time.Second, time.Minute},
		"words":          {429, "soon", time.Second, time.Minute},
		"503 is unknown": {503, "120", 2 * time.Minute, 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := s.trial(t, Status(c.code, "Retry-After: "+c.value))
			o := tr.publish(t, tr.open(t), tr.commit(longTime))
			want := s.want(c.code)
			want.check(t, o)
			if o.RetryAfter < c.min || o.RetryAfter > c.max {
				if want == unknown && o.RetryAfter == 0 && c.min == time.Second {
					return // no time was set, and a look needs no rate
				}
				t.Errorf("retry after %v, want %v to %v", o.RetryAfter, c.min, c.max)
			}
			if c.min == c.max && !strings.Contains(o.Message, "; it asks to wait until ") {
				t.Errorf("%q does not say until when it asks to wait", o.Message)
			}
			tr.settle(t, 1)
		})
	}
}

// testReuse: a connection that was used before makes no second effect. A connector that
// never reuses one passes by opening a new one.
func (s Suite) testReuse(t *testing.T) {
	for name, second := range map[string]Script{"closes": CloseAtFirstByte, "resets": ResetAtFirstByte, "acts, closes": DropAnswer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := s.trial(t, Say(s.Success), second, Say(s.Success))
			s.success().check(t, tr.publish(t, tr.open(t), tr.commit(longTime)))
			o := tr.publish(t, tr.open(t), tr.commit(longTime))
			unknown.check(t, o)
			tr.settle(t, 2)
		})
	}
	t.Run("a connection that died idle is replaced", func(t *testing.T) {
		tr := s.trial(t, SayAndClose(s.Success), Say(s.Success))
		s.success().check(t, tr.publish(t, tr.open(t), tr.commit(longTime)))
		tr.AwaitIdle()
		s.success().check(t, tr.publish(t, tr.open(t), tr.commit(longTime)))
		tr.settle(t, 2)
		if tr.Accepted() != 2 {
			t.Errorf("%d connections, want 2", tr.Accepted())
		}
	})
	t.Run("fresh is fresh", func(t *testing.T) {
		tr := s.trial(t, Say(s.Success))
		for range 3 {
			o := tr.opening()
			o.Fresh = s.Class == job.Keyed // the others get a fresh connection in any case
			session, err := tr.c.Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			s.success().check(t, tr.publish(t, session, tr.commit(longTime)))
		}
		tr.settle(t, 3)
		if tr.Accepted() != 3 {
			t.Errorf("%d connections for 3 fresh sessions", tr.Accepted())
		}
	})
}

// testEcho: a platform that echoes the whole request discloses no secret.
func (s Suite) testEcho(t *testing.T) {
	tr := s.trial(t, Echo)
	o := tr.publish(t, tr.open(t), tr.commit(longTime))
	s.want(http.StatusBadRequest).check(t, o)
	got := tr.Requests()
	if len(got) != 1 {
		t.Fatalf("%d requests", len(got))
	}
	for _, want := range []string{"User-Agent: Fireonce/"} {
		if !strings.Contains("\r\n"+got[0].Head, "\r\n"+want) {
			t.Errorf("the request lacks %q: %q", want, got[0].Head)
		}
	}
	if got[0].Get("Expect") != "" {
		t.Error("the request says Expect")
	}
	tr.settle(t, 1)
}
