package server

import (
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1/fireoncev1connect"
	"github.com/fireonce/fireonce/internal/inflight"
	"github.com/fireonce/fireonce/internal/wirelimit"
	"github.com/fireonce/fireonce/server/wire"
)

// Rules of this file: the message of a call is read before a handler sees it: it is decompressed
// up to its method's own limit, reserved in the budget of all calls, and its elements are
// counted. The handler reads one whole message that is not compressed. A body in an unknown form
// is not read.

// bodyTime is the time for a message that holds more than firstReservation to arrive, as long as
// it is small. A large one has Limits.MaxDeadline, and so has one that holds little: a
// deadline costs more than its message.
const bodyTime = 15 * time.Second

// message is the message of one call.
type message struct {
	*Message

	method  wire.Method
	limit   int
	request *http.Request
	form    wire.Form
	buf     []byte // begins with the frame's header, if the form has one
}

// withMessage reads the message of each call.
func (s *Server) withMessage(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m, known := s.methods[r.URL.Path]
		form := wire.FormOf(r)
		switch {
		case !known:
			s.noSuchPath(w, r)
			return
		case s.unreadable(w, r, m, form):
			return
		case !form.Known:
			r.Body = http.NoBody // what is refused by its headers
			next.ServeHTTP(w, r)
			return
		}
		in := &message{
			Message: s.message(r.Context(), r.URL.Path), method: m, limit: s.maxRequest(r.URL.Path), request: r, form: form,
		}
		defer in.release()
		take := in.readBody
		if r.Method == http.MethodGet {
			take = in.readQuery
		}
		if err := take(); err != nil {
			in.release() // the rest of the body may take as long as it likes
			drain(r, int64(in.limit))
			s.turnAwayError(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// release returns the memory that the message holds. It may be called again.
func (m *message) release() {
	m.held.Release()
	wire.PutBuffer(m.buf)
	m.buf = nil
}

// readBody reads the message from the body, and puts it in the body's place.
func (m *message) readBody() error {
	r := m.request
	if !m.form.Framed {
		if f := m.server.tooLarge(m.procedure, r.ContentLength); f != nil {
			return f
		}
	}
	body := r.Body
	in, size, zipped := io.Reader(body), r.ContentLength, m.form.Gzip // size below 0: not known
	if m.form.Framed {
		var head [frameHeader]byte
		_, err := io.ReadFull(body, head[:])
		switch {
		case errors.Is(err, io.EOF):
			r.Body = http.NoBody
			return nil
		case err != nil:
			return m.readError(m.request.Context(), err)
		}
		if size, zipped, err = m.server.frameSize(r.Context(), m.procedure, head, m.form.Gzip); err != nil {
			return err
		}
		in = io.LimitReader(body, size)
	}
	timed := size < 0 || size > wire.FirstReservation
	if timed {
		m.readUntil(bodyTime)
	}
	if err := m.read(in, size, zipped); err != nil {
		return err
	}
	if timed {
		m.readUntil(m.server.cfg.Limits.MaxDeadline) // that a client goes away is seen by reading
	}
	if err := checkElements(m.method, m.bytes(), m.form.JSON); err != nil {
		return err
	}
	m.replaceBody(body)
	return nil
}

// bytes is the message without its frame.
func (m *message) bytes() []byte {
	if m.form.Framed {
		return m.buf[frameHeader:]
	}
	return m.buf
}

// readUntil sets the time for what is read next. Not every transport has deadlines.
func (m *message) readUntil(d time.Duration) {
	if w := writerOf(m.request.Context()); w != nil {
		_ = w.SetReadDeadline(time.Now().Add(min(d, m.server.cfg.Limits.MaxDeadline)))
	}
}

// frameHeader is what precedes a message in gRPC, gRPC-Web and Connect streams:
// a byte of flags and the length.
const frameHeader = 5

// zippedFlag is set in the header of a frame whose message is compressed.
const zippedFlag = 1

// frameSize returns what the header of a procedure's frame announces. gzip reports whether the
// request's headers state how messages are compressed.
func (s *Server) frameSize(ctx context.Context, procedure string, head [frameHeader]byte, gzip bool) (size int64, zipped bool, err error) {
	size, zipped = int64(FrameSize(head)), head[0] == zippedFlag
	switch id := requestID(ctx); {
	case head[0] > zippedFlag:
		err = errorWithoutReason(connect.CodeInvalidArgument, fmt.Sprintf("a request has no frame of the kind %#x", head[0]), id)
	case zipped && !gzip:
		err = errorWithoutReason(connect.CodeInternal, "the message is compressed, and the headers do not state how", id)
	default:
		if f := s.tooLarge(procedure, size); f != nil {
			err = f
		}
	}
	return size, zipped, err
}

// read reads the message. size is what its sender announces, below 0: nothing.
func (m *message) read(in io.Reader, size int64, zipped bool) error {
	m.buf = wire.GetBuffer(wire.FirstReservation)
	if m.form.Framed {
		m.buf = append(m.buf, 0, 0, 0, 0, 0)
	}
	if zipped {
		in = io.LimitReader(in, int64(m.limit)+1)
	}
	var err error
	m.buf, err = m.readAll(m.request.Context(), m.buf, in, size, zipped, func() { m.readUntil(m.server.cfg.Limits.MaxDeadline) })
	if err == nil && m.form.Framed && !zipped && int64(len(m.bytes())) != size {
		err = m.readError(m.request.Context(), io.ErrUnexpectedEOF)
	}
	return err
}

// readAll appends the whole message to buf, decompressed. It calls large when that is much.
func (m *Message) readAll(ctx context.Context, buf []byte, in io.Reader, size int64, zipped bool, large func()) ([]byte, error) {
	if zipped {
		unzip, _ := unzippers.Get().(*gzip.Reader)
		defer unzippers.Put(unzip)
		switch err := unzip.Reset(in); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return buf, m.readError(ctx, gzip.ErrHeader)
		case err != nil:
			return buf, m.readError(ctx, err)
		}
		in, size = unzip, -1
	}
	buf, err := m.held.ReadAll(ctx, buf, in, size, large)
	if err != nil {
		err = m.readError(ctx, err)
	}
	return buf, err
}

var unzippers = sync.Pool{New: func() any { return new(gzip.Reader) }}

// readError is the error for a message that cannot be read.
func (m *Message) readError(ctx context.Context, err error) error {
	id := requestID(ctx)
	switch {
	case errors.As(err, new(*fault)), errors.As(err, new(*connect.Error)):
		return err
	case errors.Is(err, inflight.ErrBusy):
		return requestsBusy()
	case errors.Is(err, wire.ErrTooLarge):
		return unzipsTooLarge(m.procedure, int(m.held.Limit))
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errorWithoutReason(connect.CodeDeadlineExceeded, "the request did not arrive in time", id)
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum):
		return errorWithoutReason(connect.CodeInvalidArgument, "the headers state that the request is compressed by gzip, and it is not", id)
	default:
		return errorWithoutReason(connect.CodeInvalidArgument, "the request ends before its message does, or is damaged", id)
	}
}

// replaceBody puts the message in the body's place.
func (m *message) replaceBody(body io.Reader) {
	r := m.request
	for _, name := range wire.EncodingHeaders {
		r.Header.Del(name)
	}
	var rest io.Reader
	if m.form.Framed {
		m.buf[0] = 0
		binary.BigEndian.PutUint32(m.buf[1:], uint32(len(m.buf)-frameHeader))
		rest = io.LimitReader(body, frameHeader) // enough to see that there is another frame
	} else {
		r.ContentLength = int64(len(m.buf))
	}
	r.Body = &bufferedBody{message: m, left: m.buf, rest: rest}
}

// bufferedBody is a message that a handler reads.
type bufferedBody struct {
	message *message
	left    []byte
	rest    io.Reader // nil: none
}

// Read implements io.Reader.
func (h *bufferedBody) Read(p []byte) (int, error) {
	if len(h.left) > 0 {
		n := copy(p, h.left)
		h.left = h.left[n:]
		return n, nil
	}
	h.left = nil
	wire.PutBuffer(h.message.buf) // the handler has a copy
	if h.message.buf = nil; h.message.method.Stream {
		h.message.release() // it goes on for long without its message
	}
	if h.rest == nil {
		return 0, io.EOF
	}
	return h.rest.Read(p)
}

// Close implements io.Closer. The server closes the body itself.
func (*bufferedBody) Close() error { return nil }

// readQuery reads the message from the query of a GET, and puts it back as it was
// counted. A large one comes by POST.
func (m *message) readQuery() error {
	r := m.request
	if !m.method.Get {
		return nil // is refused by its method
	}
	query := r.URL.Query()
	text := query.Get("message")
	in := io.Reader(strings.NewReader(text))
	if query.Get("base64") == "1" {
		in = base64.NewDecoder(base64.RawURLEncoding, strings.NewReader(strings.TrimRight(text, "=")))
	}
	m.held.Limit = min(m.held.Limit, wire.SmallRequest)
	if err := m.read(in, -1, m.form.Gzip); err != nil {
		return err
	}
	if err := checkElements(m.method, m.buf, m.form.JSON); err != nil {
		return err
	}
	query.Set("message", base64.RawURLEncoding.EncodeToString(m.buf))
	query.Set("base64", "1")
	query.Del("compression")
	r.URL = &url.URL{Path: r.URL.Path, RawQuery: query.Encode()}
	return nil
}

// checkElements refuses a message that has too many elements, or whose elements cannot be counted.
func checkElements(m wire.Method, data []byte, inJSON bool) error {
	err := m.CheckElements(data, inJSON)
	many, wrong := new(wirelimit.TooMany), new(wire.Undecodable)
	switch {
	case errors.As(err, &many):
		return refuse(fireoncev1.ErrorReason_ERROR_REASON_TOO_MANY_ELEMENTS,
			many.Error()+"; send fewer", "field", many.Field, "limit", strconv.Itoa(many.Limit)).wire()
	case errors.As(err, &wrong):
		return invalid(false, wrong.Found).wire()
	default:
		return err
	}
}

// requestsBusy refuses a request that found no memory in time.
func requestsBusy() *fault {
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_SERVER_BUSY, fmt.Sprintf("the server works on as many bytes of requests "+
		"as it may, and none became free in %v; repeat the call unchanged", wire.BudgetWait))
}

// tooLarge refuses a request by its size; nil: it may be read.
func (s *Server) tooLarge(procedure string, size int64) *fault {
	limit := int64(s.maxRequest(procedure))
	if size <= limit {
		return nil
	}
	return refuse(tooLargeReason(procedure), fmt.Sprintf("the request has %d bytes; at most %d are read", size, limit),
		"size", strconv.FormatInt(size, 10), "limit", strconv.FormatInt(limit, 10))
}

// unzipsTooLarge refuses a request whose size shows as it is read.
func unzipsTooLarge(procedure string, limit int) *fault {
	return refuse(tooLargeReason(procedure), fmt.Sprintf("the request has more than %d bytes, which is all that is read", limit),
		"limit", strconv.Itoa(limit))
}

func tooLargeReason(procedure string) fireoncev1.ErrorReason {
	if procedure == fireoncev1connect.JobServiceBatchScheduleJobsProcedure {
		return fireoncev1.ErrorReason_ERROR_REASON_BATCH_TOO_LARGE
	}
	return fireoncev1.ErrorReason_ERROR_REASON_REQUEST_TOO_LARGE
}

// drain reads a body that is not used, up to twice the limit: an HTTP/1 client that writes all
// before it reads would lose the answer to a reset of the connection, and repeat the call
// forever. A client that asked first (Expect), and those of HTTP/2, get the answer before the
// body.
func drain(r *http.Request, limit int64) {
	if r.ProtoMajor == 1 && r.Header.Get("Expect") == "" {
		_, _ = io.CopyN(io.Discard, r.Body, 2*limit)
	}
}

// turnAwayError answers a call that no handler has seen.
func (s *Server) turnAwayError(w http.ResponseWriter, r *http.Request, err error) {
	if f := new(fault); errors.As(err, &f) {
		s.turnAway(w, r, f)
		return
	}
	wire, _ := toWire(err, requestID(r.Context()))
	s.log.InfoContext(r.Context(), "call turned away", "request_id", requestID(r.Context()),
		"procedure", r.URL.Path, "code", wire.Code().String())
	_ = writeErrors.Write(w, r, wire) // a client that has gone gets no answer
}

// refuseCompressed keeps callers without a key from having anything decompressed.
func refuseCompressed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		zipped := r.URL.Query().Has("compression")
		for _, name := range wire.EncodingHeaders {
			encoding := r.Header.Get(name)
			zipped = zipped || encoding != "" && encoding != "identity"
		}
		if zipped {
			_ = writeErrors.Write(w, r, connect.NewError(connect.CodeUnimplemented, errZippedProbe)) // a client that has gone gets no answer
			return
		}
		next.ServeHTTP(w, r)
	})
}

var errZippedProbe = errors.New("health and reflection take messages that are not compressed")
