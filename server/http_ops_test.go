package server_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fireonce/fireonce/internal/metrics"
	"github.com/fireonce/fireonce/server"
)

// TestIdleOpsConnectionsEnd: a connection without a request ends before a monitor that comes
// every 30 s has missed a second visit.
func TestIdleOpsConnectionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
		ops := server.NewOps(metrics.New("test", "w"), true, nil).HTTPServer()
		go func() { _ = ops.Serve(l) }()
		client, err := l.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(client, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		answer, err := readAnswer(client)
		if err != nil || answer != 200 {
			t.Fatalf("/livez: %d, %v", answer, err)
		}
		idle := time.Now()
		if n, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("%d bytes, %v", n, err)
		}
		if lasts := time.Since(idle); lasts > 30*time.Second {
			t.Errorf("an idle connection lasts %v", lasts)
		}
		if err := ops.Close(); err != nil {
			t.Error(err)
		}
	})
}

func readAnswer(c net.Conn) (status int, err error) {
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}
