package connectortest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"testing"

	"github.com/fireonce/fireonce/internal/proof/proc"
)

// receiverEnv asks a test binary to be a receiver instead.
const receiverEnv = "FIREONCE_TEST_RECEIVER"

// Receive makes this process a receiver if StartReceiver asked for one, and
// reports whether it was one. A TestMain calls it first.
func Receive() bool {
	if os.Getenv(receiverEnv) == "" {
		return false
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it lives as long as the process
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(l.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // ends with the parent
		_ = l.Close()
	}()
	for {
		conn, err := l.Accept()
		if err != nil {
			return true
		}
		go receive(conn)
	}
}

// StartReceiver starts a receiver in a process of its own, so that what it costs
// is not counted to the sender that a benchmark measures, and returns its base URL.
// It answers 200 to every request. Its package's TestMain must call Receive.
func StartReceiver(tb testing.TB) string {
	tb.Helper()
	cmd := proc.Again()
	cmd.Env = append(os.Environ(), receiverEnv+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	p, err := proc.Start(cmd)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = in.Close()
		_ = p.Err()
	})
	addr, err := p.Ready(tb.Context(), proc.ReadyBy)
	if err != nil {
		tb.Fatal(err)
	}
	return "http://" + addr
}

var (
	received    = []byte(Answer(200, "{}", "Content-Type: application/json", "Date: Sat, 21 Nov 2026 12:00:00 GMT"))
	lengthField = []byte("content-length:")
	closeField  = []byte("connection: close")
)

// receive answers the requests of one connection.
func receive(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	br := bufio.NewReaderSize(conn, 16<<10)
	for {
		length, last := 0, false
		for {
			line, err := br.ReadSlice('\n')
			if err != nil {
				return
			}
			if len(line) <= 2 {
				break
			}
			line = bytes.ToLower(line)
			if value, found := bytes.CutPrefix(line, lengthField); found {
				if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
					return
				}
			}
			last = last || bytes.HasPrefix(line, closeField)
		}
		if _, err := br.Discard(length); err != nil {
			return
		}
		if _, err := conn.Write(received); err != nil || last {
			return
		}
	}
}
