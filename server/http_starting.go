package server

import (
	"io"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
)

// startingTime bounds a request, and its answer, while a server starts.
const startingTime = 10 * time.Second

// Starting answers for a server that waits for its database: health checks say
// NOT_SERVING, `GET /` and `GET /status` answer 503, and every call fails with
// UNAVAILABLE / STORE_UNAVAILABLE, in the protocol of its client. No body is read.
func Starting() http.Handler {
	h := newHealth()
	h.stop()
	mux := http.NewServeMux()
	mux.Handle(grpchealth.NewHandler(h, connect.WithReadMaxBytes(MaxProbeMessage)))
	mux.HandleFunc("GET /{$}", startingPage)
	mux.HandleFunc("GET "+statusPath, startingPage)
	mux.HandleFunc("/", refuseStarting)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Not every transport has deadlines; the connection's own limits hold then.
		deadline, writer := time.Now().Add(startingTime), http.NewResponseController(w)
		_ = writer.SetReadDeadline(deadline)
		_ = writer.SetWriteDeadline(deadline)
		mux.ServeHTTP(w, r)
	})
}

// startingPage names no version: it needs no key.
func startingPage(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = io.WriteString(w, "Fireonce\n\nStarting: the database is not open yet.\n") // a client that has gone gets no answer
}

func refuseStarting(w http.ResponseWriter, r *http.Request) {
	f := refuse(fireoncev1.ErrorReason_ERROR_REASON_STORE_UNAVAILABLE,
		"the server is starting, and its database is not open yet; repeat the call")
	_ = writeErrors.Write(w, r, f.wire()) // a client that has gone gets no answer
}
