package job

import "encoding/hex"

// MaxTrace bounds Spec.Trace: a traceparent has 55 bytes, a tracestate at most 512.
const MaxTrace = 55 + 1 + 512

// Span names one span of a distributed trace. The zero Span names none.
type Span struct {
	TraceID [16]byte
	SpanID  [8]byte
}

// ToSpan decodes what Bytes returned. It returns the zero Span for anything else.
func ToSpan(b []byte) (s Span) {
	if len(b) == len(s.TraceID)+len(s.SpanID) {
		copy(s.TraceID[:], b)
		copy(s.SpanID[:], b[len(s.TraceID):])
	}
	return s
}

// IsZero reports whether s names no span.
func (s Span) IsZero() bool { return s == Span{} }

// Bytes returns the trace's id followed by the span's, 24 bytes together, and nil for the
// zero Span.
func (s Span) Bytes() []byte {
	if s.IsZero() {
		return nil
	}
	return append(append(make([]byte, 0, len(s.TraceID)+len(s.SpanID)), s.TraceID[:]...), s.SpanID[:]...)
}

// Names returns both ids in hexadecimal, as W3C Trace Context writes them, and empty
// strings for the zero Span.
func (s Span) Names() (traceID, spanID string) {
	if s.IsZero() {
		return "", ""
	}
	return hex.EncodeToString(s.TraceID[:]), hex.EncodeToString(s.SpanID[:])
}
