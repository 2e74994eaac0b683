package server

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/gen/fireonce/v1/fireoncev1connect"
)

// Rules of this file: what can be said without a request's body is said before
// the body is read, in the words of the protocol that the client speaks.

const requestIDHeader = "X-Request-Id"

// maxRequestID bounds the request id that a client may choose.
const maxRequestID = 64

type contextKey int

const (
	keyRequestID contextKey = iota
	keyCaller
	keyWriter
	keyInbound
	keyPace
	keyPeer
)

// caller is who asks.
type caller struct {
	project string
	actor   string // as events and resolutions name it
	// all is the operator, or everybody where no key is required.
	all    bool
	scopes []string
	// key is the id of the key of the store that the caller has; empty: it has none.
	key string
}

func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(keyCaller).(caller)
	return c
}

func requestID(ctx context.Context) string {
	id, _ := ctx.Value(keyRequestID).(string)
	return id
}

// writerOf gives the controls of the response, which only streams need.
func writerOf(ctx context.Context) *http.ResponseController {
	c, _ := ctx.Value(keyWriter).(*http.ResponseController)
	return c
}

// identified gives every request an id, the client's own where it is fit.
func identified(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(requestIDHeader)
		if !validRequestID(id) {
			id = newID().String()
		}
		w.Header().Set(requestIDHeader, id)
		ctx := context.WithValue(r.Context(), keyRequestID, id)
		ctx = context.WithValue(ctx, keyPeer, peerAddress(r.RemoteAddr))
		ctx = context.WithValue(ctx, keyWriter, http.NewResponseController(w))
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// bounded bounds the time that a body and an answer may take, whoever sends it and
// wherever to: before it answers a request that it turns away, net/http reads what it
// is still owed of the body, and waits for that as long as it may. A stream sets
// deadlines of its own.
func (s *Server) bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Not every transport has deadlines; the connection's own limits hold then.
		now, writer := time.Now(), http.NewResponseController(w)
		_ = writer.SetReadDeadline(now.Add(s.cfg.Limits.MaxDeadline))
		_ = writer.SetWriteDeadline(now.Add(2*s.cfg.Limits.MaxDeadline + s.cfg.Limits.Write))
		next.ServeHTTP(w, r)
	})
}

func validRequestID(id string) bool {
	if id == "" || len(id) > maxRequestID {
		return false
	}
	for _, c := range []byte(id) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}

// checkHost guards a server without a key against DNS rebinding: a web page
// that has its own name point to this address must not reach the API.
func (s *Server) checkHost(next http.Handler) http.Handler {
	if s.keyRequired() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.hostAllowed(r.Host) {
			next.ServeHTTP(w, r)
			return
		}
		http.Error(w, wrongHost(r.Host), http.StatusMisdirectedRequest)
	})
}

func wrongHost(host string) string {
	return fmt.Sprintf("Fireonce runs without an API key and therefore answers only to loopback names, not to %q. "+
		"Set an API key, or list the host name as allowed.", host)
}

func (s *Server) hostAllowed(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if addr, err := netip.ParseAddr(host); err == nil && addr.Unmap().IsLoopback() {
		return true
	}
	return host == "localhost" || slices.ContainsFunc(s.cfg.AllowedHosts, func(allowed string) bool {
		return strings.EqualFold(strings.Trim(allowed, "[]"), host)
	})
}

// writeErrors writes errors in the protocol of the request.
var writeErrors = connect.NewErrorWriter()

// realm is what a refused caller is told in the header WWW-Authenticate.
const realm = `Bearer realm="fireonce"`

// authenticated lets calls pass whose caller is known and may make them.
func (s *Server) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, refused := s.admitted(r.Context(), r.Header.Get("Authorization"), r.URL.Path)
		if refused != nil {
			if refused.reason == fireoncev1.ErrorReason_ERROR_REASON_CREDENTIAL_INVALID {
				w.Header().Set("WWW-Authenticate", realm)
			}
			s.turnAway(w, r, refused)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), keyCaller, who)))
	})
}

// turnAway answers a call whose body nobody has read.
func (s *Server) turnAway(w http.ResponseWriter, r *http.Request, f *fault) {
	s.logTurnedAway(r.Context(), r.URL.Path, f)
	_ = writeErrors.Write(w, r, f.wire()) // a client that has gone gets no answer
}

// frameHeader is what precedes a message in gRPC, gRPC-Web and Connect streams:
// a byte of flags and the length.
const frameHeader = 5

// sized turns requests away that say that they are too large. A body that does not say
// its size is cut off by the handler.
func (s *Server) sized(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size := r.ContentLength
		if framed(r.Header.Get("Content-Type")) {
			body := bufio.NewReaderSize(r.Body, frameHeader)
			r.Body = peeked{body, r.Body}
			size = 0
			if head, err := body.Peek(frameHeader); err == nil {
				size = int64(binary.BigEndian.Uint32(head[1:]))
			}
		}
		refused := s.tooLarge(r.URL.Path, size)
		if refused == nil {
			next.ServeHTTP(w, r)
			return
		}
		drain(r, int64(s.maxRequest(r.URL.Path)))
		s.turnAway(w, r, refused)
	})
}

// tooLarge refuses a request by its size; nil: it may be read.
func (s *Server) tooLarge(procedure string, size int64) *fault {
	limit := int64(s.maxRequest(procedure))
	if size <= limit {
		return nil
	}
	reason := fireoncev1.ErrorReason_ERROR_REASON_REQUEST_TOO_LARGE
	if procedure == fireoncev1connect.JobServiceBatchScheduleJobsProcedure {
		reason = fireoncev1.ErrorReason_ERROR_REASON_BATCH_TOO_LARGE
	}
	return refuse(reason, fmt.Sprintf("the request has %d bytes; at most %d are read", size, limit),
		"size", strconv.FormatInt(size, 10), "limit", strconv.FormatInt(limit, 10))
}

// drain reads a body that nobody wants, up to twice the limit: an HTTP/1 client
// that writes all before it reads would lose the answer to a reset of the
// connection, and repeat the call for ever. One that asked first (Expect) and
// those of HTTP/2 get their answer before the body.
func drain(r *http.Request, limit int64) {
	if r.ProtoMajor == 1 && r.Header.Get("Expect") == "" {
		_, _ = io.CopyN(io.Discard, r.Body, 2*limit)
	}
}

func framed(contentType string) bool {
	return strings.HasPrefix(contentType, "application/grpc") || strings.HasPrefix(contentType, "application/connect+")
}

// peeked is a body of which the beginning was looked at.
type peeked struct {
	io.Reader
	io.Closer
}
