package attack

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"time"

	"github.com/fireonce/fireonce/internal/proof/chaos/fleet"
)

const (
	// heldFor is how long an attacker holds a connection that the server does not close.
	heldFor = 30 * time.Second
	// dripEach is how often a slow sender sends one byte.
	dripEach = time.Second
	// handful is how many idle connections one worker opens.
	handful = 40
	// smallBuffer is the receive buffer of a reader that reads nothing, so that the server
	// soon has to keep what it sends.
	smallBuffer = 4 << 10
)

// sendSlowly announces a body of a megabyte, and sends a byte of it each second.
func sendSlowly(ctx context.Context, w *worker, at Listener) string {
	return drip(ctx, at, "POST /fireonce.v1.JobService/ScheduleJob HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"+
		"Authorization: Bearer "+w.keys.Write+"\r\nContent-Length: 1000000\r\n\r\n", " ")
}

// signInSlowly never comes to the end of its headers.
func signInSlowly(ctx context.Context, _ *worker, at Listener) string {
	return drip(ctx, at, "POST /fireonce.v1.JobService/ScheduleJob HTTP/1.1\r\nHost: %s\r\nX-Padding: ", "x")
}

// drip sends a beginning, then one byte each second for as long as the server waits.
func drip(ctx context.Context, at Listener, beginning, more string) string {
	conn, host, err := dial(ctx, at)
	if err != nil {
		return failure(err)
	}
	defer conn.Close() //nolint:errcheck // nothing is to come
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := fmt.Fprintf(conn, beginning, host); err != nil {
		return "cut off"
	}
	// An answer, or the connection's end, is the server's refusal to wait longer.
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = conn.Read(make([]byte, 1))
	}()
	tick := time.NewTicker(dripEach)
	defer tick.Stop()
	for begun := time.Now(); time.Since(begun) < heldFor; {
		select {
		case <-ended:
			return "ended by the server"
		case <-tick.C:
			if _, err := io.WriteString(conn, more); err != nil {
				return "ended by the server"
			}
		}
	}
	return "held " + heldFor.String()
}

// holdConnections opens connections and says nothing on them.
func holdConnections(ctx context.Context, _ *worker, at Listener) string {
	for n := range handful {
		conn, _, err := dial(ctx, at)
		if err != nil {
			return fmt.Sprintf("%s, the %s of %d", failure(err), map[bool]string{true: "first", false: "later ones"}[n == 0], handful)
		}
		defer conn.Close() //nolint:errcheck // all are held until the last was
	}
	fleet.Pause(ctx, heldFor/3)
	return fmt.Sprintf("%d opened", handful)
}

// readNothing opens a stream of all events and takes none of them.
func readNothing(ctx context.Context, w *worker, at Listener) string {
	conn, host, err := dial(ctx, at)
	if err != nil {
		return failure(err)
	}
	defer conn.Close() //nolint:errcheck // nothing was read
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(smallBuffer) // only makes the attack weaker
	}
	const request = `{"fromBeginning":true}`
	frame := append([]byte{0, 0, 0, 0, byte(len(request))}, request...)
	if _, err := fmt.Fprintf(conn, "POST /fireonce.v1.JobService/StreamJobEvents HTTP/1.1\r\nHost: %s\r\nContent-Type: application/connect+json\r\n"+
		"Authorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", host, w.keys.Read, len(frame), frame); err != nil {
		return "cut off"
	}
	fleet.Pause(ctx, heldFor)
	return "held " + heldFor.String()
}

// dial connects to a server's API.
func dial(ctx context.Context, at Listener) (conn net.Conn, host string, err error) {
	u, err := url.Parse(at.URL)
	if err != nil {
		return nil, "", err
	}
	conn, err = (&net.Dialer{Timeout: patience}).DialContext(ctx, "tcp", u.Host)
	return conn, u.Host, err
}
