package server

import (
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
)

// httpSink sends over net/http.
type httpSink struct {
	out       *connect.ServerStream[fireoncev1.StreamJobEventsResponse]
	writer    *http.ResponseController
	limit     time.Duration // for one message
	requestID string
}

// Begin implements EventSink.
func (s httpSink) Begin() {
	_ = s.writer.SetReadDeadline(time.Time{})
	_ = s.writer.SetWriteDeadline(time.Time{})
}

// Send implements EventSink. It removes the deadline after each message: HTTP/2 resets a stream
// whose deadline passes, also while nothing is sent.
func (s httpSink) Send(m *fireoncev1.StreamJobEventsResponse) error {
	end := time.Now().Add(s.limit)
	// A transport without deadlines still has the connection's own limits.
	_ = s.writer.SetWriteDeadline(end)
	defer func() { _ = s.writer.SetWriteDeadline(time.Time{}) }()
	err := s.out.Send(m)
	if err != nil && !time.Now().Before(end) {
		return tooSlow(s.requestID)
	}
	return err
}

// tooSlow ends a stream whose reader takes nothing.
func tooSlow(requestID string) *connect.Error {
	return errorWithoutReason(connect.CodeResourceExhausted,
		"the stream's reader has taken nothing for too long; go on with the last cursor", requestID)
}
