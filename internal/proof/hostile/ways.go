package hostile

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"iter"
	"net/http"
	"net/url"
)

// way is how a message comes to a server.
type way struct {
	name                string
	contentType         string // of a unary call
	encoding            string // the header that says gzip; empty: not compressed
	native              bool
	json, framed, http2 bool
	get                 bool
	// few is set if only shapes of many objects come this way.
	few bool
}

var ways = []way{
	{name: "Connect", contentType: "application/proto", encoding: "Content-Encoding"},
	{name: "Connect, JSON", contentType: "application/json", encoding: "Content-Encoding", json: true},
	{name: "Connect, not compressed", contentType: "application/proto", few: true},
	{name: "Connect, JSON, not compressed", contentType: "application/json", json: true, few: true},
	{name: "Connect GET", contentType: "proto", get: true, few: true},
	{name: "Connect GET, JSON", contentType: "json", get: true, json: true, few: true},
	{name: "Connect stream", contentType: "application/connect+proto", encoding: "Connect-Content-Encoding", framed: true},
	{name: "Connect stream, JSON", contentType: "application/connect+json", encoding: "Connect-Content-Encoding", framed: true, json: true},
	{name: "gRPC", contentType: "application/grpc+proto", encoding: "Grpc-Encoding", framed: true, http2: true, few: true},
	{name: "gRPC, JSON", contentType: "application/grpc+json", encoding: "Grpc-Encoding", framed: true, http2: true, json: true, few: true},
	{name: "gRPC-Web", contentType: "application/grpc-web+proto", encoding: "Grpc-Encoding", framed: true, few: true},
	{name: "native", contentType: "application/grpc", encoding: "Grpc-Encoding", framed: true, native: true},
	{name: "native, not compressed", contentType: "application/grpc", framed: true, native: true, few: true},
}

// stream reports whether the way is that of Connect for streams.
func (w way) stream() bool { return w.framed && !w.http2 && !w.native && w.name != "gRPC-Web" }

func (w way) suits(r rpc, s shape) bool {
	switch {
	case w.few && !s.many, w.json && s.json == nil, w.get && !r.get:
		return false
	case r.stream:
		return w.framed
	default:
		return !w.stream()
	}
}

// longestURL is what servers read of a URL.
const longestURL = 24 << 10

// pack makes the request that carries a message. It reports whether the way can carry it.
func (w way) pack(r rpc, key Key, message func() []byte) (Case, bool) {
	c := Case{
		Key: key, Limit: r.limit, HTTP2: w.http2, stream: r.stream, method: http.MethodPost, path: r.path,
		header: http.Header{"Content-Type": {w.contentType}},
	}
	if w.native {
		c.Listener = Native
	}
	if w.framed && (w.native || w.http2) {
		c.header.Set("Te", "trailers")
	}
	if w.encoding != "" {
		c.header.Set(w.encoding, "gzip")
	}
	if w.get {
		c.method, c.header = http.MethodGet, nil
		text := base64.RawURLEncoding.EncodeToString(zipped(message()))
		c.path += "?" + url.Values{
			"connect": {"v1"}, "encoding": {w.contentType}, "base64": {"1"}, "compression": {"gzip"}, "message": {text},
		}.Encode()
		return c, len(c.path) <= longestURL
	}
	c.body = func() []byte {
		data := message()
		if w.encoding != "" {
			data = zipped(data)
		}
		if w.framed {
			data = frame(w.encoding != "", data)
		}
		return data
	}
	return c, true
}

// frame puts the header of a message before it.
func frame(compressed bool, data []byte) []byte {
	out := make([]byte, 5, 5+len(data))
	if compressed {
		out[0] = 1
	}
	binary.BigEndian.PutUint32(out[1:], uint32(len(data)))
	return append(out, data...)
}

// bombs yields messages that decompress to far more than is read, and frames that lie.
func (r rpc) bombs() iter.Seq[Case] {
	return func(yield func(Case) bool) {
		for _, w := range ways {
			if w.encoding == "" || w.json || !w.suits(r, shape{many: true}) {
				continue
			}
			base, _ := w.pack(r, r.key, func() []byte { return nil })
			data := map[string]func() []byte{
				"a bomb":            func() []byte { return bomb(64 << 20) },
				"a compressed bomb": func() []byte { return zipped(bomb(64 << 20)) },
				"noise":             func() []byte { return repeat([]byte("\x1f\x8b\x08\x00\xff"), r.limit/2) },
			}
			for _, name := range []string{"a bomb", "a compressed bomb", "noise"} {
				c := base
				c.Name = fmt.Sprintf("%s %s, %s, %s", r.path, name, w.name, c.Key)
				c.body = data[name]
				if w.framed {
					c.body = func() []byte { return frame(true, data[name]()) }
				}
				if !yield(c) {
					return
				}
			}
			if !w.framed {
				continue
			}
			for name, body := range lies(r) {
				c := base
				c.Name, c.body = fmt.Sprintf("%s %s, %s, %s", r.path, name, w.name, c.Key), body
				if !yield(c) {
					return
				}
			}
		}
	}
}

// lies yields frames that are not what their headers say.
func lies(r rpc) iter.Seq2[string, func() []byte] {
	return func(yield func(string, func() []byte) bool) {
		empty := frame(false, nil)
		_ = yield("4 GiB announced", func() []byte { return append([]byte{0, 255, 255, 255, 255}, make([]byte, 64<<10)...) }) &&
			yield("the limit announced and not sent", func() []byte {
				head := frame(false, make([]byte, r.limit))[:5]
				return append(head, make([]byte, 1<<10)...)
			}) &&
			yield("many frames", func() []byte { return repeat(empty, r.limit) }) &&
			yield("a frame of an unknown kind", func() []byte { return append([]byte{0x40}, frame(false, make([]byte, r.limit/2))[1:]...) })
	}
}
