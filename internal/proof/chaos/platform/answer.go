package platform

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/fireonce/fireonce/internal/proof/loopback"
)

const (
	// defaultTrickle and trickleStep are how an answer trickles.
	defaultTrickle = 5 * time.Second
	trickleStep    = 50 * time.Millisecond
	// longestSilence ends a connection whose client does not give up.
	longestSilence = time.Minute
)

// answer is what a client would get if nothing went wrong.
type answer struct {
	status int
	header map[string]string // besides the content's
	body   []byte
}

// wire returns the answer as bytes, and where its body begins.
func (a answer) wire() (text []byte, body int) {
	text = fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n",
		a.status, http.StatusText(a.status), len(a.body))
	for name, value := range a.header {
		text = fmt.Appendf(text, "%s: %s\r\n", name, value)
	}
	text = append(text, "\r\n"...)
	return append(text, a.body...), len(text)
}

// send writes the answer whole.
func (a answer) send(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	for name, value := range a.header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // a client that is gone is no news
}

// failed is an answer with an error.
func failed(status int, why string) answer {
	return answer{status: status, body: toJSON(map[string]string{"error": why})}
}

// tell answers a request that has acted, once its effect is durable, in the way
// of its fault.
func (p *Platform) tell(w http.ResponseWriter, r *http.Request, c call, a answer, ticket uint64) {
	if p.log.wait(ticket) != nil {
		loopback.Reset(w)
		return
	}
	switch c.Fault {
	case Drop:
		loopback.Reset(w)
	case ErrorAfter:
		status := []int{http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}
		failed(status[int(c.draw(drawStatus)*float64(len(status)))], "something went wrong").send(w)
	case ResetMid:
		p.broken(w, a, func(conn *net.TCPConn, text []byte, _ int) {
			_, _ = conn.Write(text[:len("HTTP/1.1 2")])
			_ = conn.SetLinger(0)
		})
	case Truncate:
		p.broken(w, a, func(conn *net.TCPConn, text []byte, body int) { _, _ = conn.Write(text[:(body+len(text))/2]) })
	case Trickle:
		p.broken(w, a, func(conn *net.TCPConn, text []byte, _ int) { p.trickle(conn, text, time.Duration(c.faults.Trickle)) })
	case Silence:
		p.silence(r)
		loopback.Reset(w)
	default:
		a.send(w)
	}
}

// broken takes over the connection for an answer that goes wrong, and closes it.
func (p *Platform) broken(w http.ResponseWriter, a answer, how func(conn *net.TCPConn, text []byte, body int)) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer func() { _ = conn.Close() }()
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		panic("platform: a connection that is not TCP")
	}
	text, body := a.wire()
	how(tcp, text, body)
}

// trickle writes an answer in as many steps as fit into a time, and stops when
// the client is gone.
func (p *Platform) trickle(conn net.Conn, text []byte, d time.Duration) {
	if d <= 0 {
		d = defaultTrickle
	}
	steps := max(1, min(int(d/trickleStep), len(text)))
	for i := range steps {
		if !p.pause(d / time.Duration(steps)) {
			return
		}
		if _, err := conn.Write(text[len(text)*i/steps : len(text)*(i+1)/steps]); err != nil {
			return
		}
	}
}

// silence waits until the client has given up.
func (p *Platform) silence(r *http.Request) {
	gone, stop := p.server.Gone(r)
	defer stop()
	timer := time.NewTimer(longestSilence)
	defer timer.Stop()
	select {
	case <-gone:
	case <-timer.C:
	}
}

// refuse answers a request that is not acted on.
func (p *Platform) refuse(w http.ResponseWriter, c call) {
	if words, ok := c.words[c.Fault]; ok {
		words.answer(time.Duration(c.faults.RetryAfter)).send(w)
		return
	}
	switch c.Fault {
	case Unavailable:
		failed(http.StatusServiceUnavailable, "try again later").send(w)
	case RateLimit:
		a := failed(http.StatusTooManyRequests, "too many requests")
		a.header = map[string]string{"Retry-After": strconv.Itoa(max(1, int(time.Duration(c.faults.RetryAfter)/time.Second)))}
		a.send(w)
	case Refuse:
		failed(http.StatusUnprocessableEntity, "this is not wanted").send(w)
	default:
		loopback.Reset(w)
	}
}
