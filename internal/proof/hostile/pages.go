package hostile

import (
	"bytes"
	"fmt"
	"iter"
	"net/http"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// probe is the size that stands for a call of health or reflection, whose cost does not
// depend on the server's limits.
const probe = 1 << 20

// serviceCases yields calls of what is served beside the contract, without a key.
func serviceCases(sizes Sizes) iter.Seq[Case] {
	paths := []string{
		"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/List", "/grpc.health.v1.Health/Watch",
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
		"/fireonce.v1.JobService/Nothing", "/nothing.Service/Nothing",
	}
	text := func(size int) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), repeat([]byte("A"), size-16))
	}
	symbol := protowire.AppendString(protowire.AppendTag(nil, 4, protowire.BytesType), "fireonce.v1.JobService")
	bodies := []struct {
		name string
		make func(int) []byte
	}{
		{"a long name", text},
		{"fields again and again", func(size int) []byte {
			return repeat(protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "xy"), size)
		}},
		{"zeros", func(size int) []byte { return make([]byte, size) }},
	}
	return func(yield func(Case) bool) {
		for _, path := range paths {
			for _, w := range ways {
				if w.json || w.get || !w.framed && !strings.HasSuffix(path, "/Check") || w.stream() {
					continue
				}
				for _, b := range bodies {
					r := rpc{path: path, limit: sizes.Batch}
					c, _ := w.pack(r, NoKey, func() []byte { return b.make(2 * sizes.Batch) })
					c.Limit = probe
					c.Name = fmt.Sprintf("%s %s, %s, no key", path, b.name, w.name)
					if !yield(c) {
						return
					}
				}
				if !w.framed || !strings.Contains(path, "reflection") {
					continue
				}
				c, _ := w.pack(rpc{path: path}, NoKey, func() []byte { return nil })
				c.Limit = probe
				c.Name = fmt.Sprintf("%s many questions, %s, no key", path, w.name)
				c.body = func() []byte { return bytes.Repeat(frame(false, symbol), 200) }
				if !yield(c) {
					return
				}
			}
		}
	}
}

// pageCases yields requests for pages, and floods of headers.
func pageCases(sizes Sizes) iter.Seq[Case] {
	query := func(unit string, n int) string { return "?" + strings.Repeat(unit+"&", n) }
	distinct := func(n int) string {
		var out strings.Builder
		for i := range n {
			fmt.Fprintf(&out, "%x&", i)
		}
		return "?" + out.String()
	}
	return func(yield func(Case) bool) {
		for _, path := range []string{
			"/", "/status", "/oauth/callback", "/fireonce.v1.JobService/ListJobs", "/fireonce.v1.JobService/ScheduleJob", "/grpc.health.v1.Health/Check", "/nothing",
		} {
			posted := func(header http.Header, body func() []byte) Case {
				return Case{method: http.MethodPost, path: path, header: header, body: body}
			}
			for _, of := range []struct {
				name string
				Case
			}{
				{"a query of names", Case{method: http.MethodGet, path: path + query("a", 10_000)}},
				{"a query of names that differ", Case{method: http.MethodGet, path: path + distinct(4000)}},
				{"a long query", Case{method: http.MethodGet, path: path + "?state=" + strings.Repeat("A", 20<<10)}},
				{"headers", Case{method: http.MethodGet, path: path, header: headers(8000)}},
				{"headers, and a body to come", posted(headers(8000), func() []byte { return make([]byte, sizes.Request) })},
				{"cookies", Case{method: http.MethodGet, path: path, header: http.Header{"Cookie": {strings.Repeat("a=b; ", 8000)}}}},
				{"a form", posted(typed("application/x-www-form-urlencoded"), func() []byte { return repeat([]byte("a=&"), 4*sizes.Request) })},
				{"many parts", posted(typed("multipart/form-data; boundary=b"), func() []byte {
					return repeat([]byte("--b\r\nContent-Disposition: form-data; name=a\r\n\r\n\r\n"), 4*sizes.Request)
				})},
				{"a bomb", posted(http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}}, func() []byte { return bomb(64 << 20) })},
			} {
				c := of.Case
				c.Name, c.Limit = fmt.Sprintf("%s %s, %s, no key", c.method, path, of.name), sizes.Request
				if !yield(c) {
					return
				}
			}
		}
	}
}

// headers are many short ones.
func headers(n int) http.Header {
	h := make(http.Header, n)
	for i := range n {
		h[http.CanonicalHeaderKey(fmt.Sprintf("%x", i))] = []string{""}
	}
	return h
}

func typed(contentType string) http.Header { return http.Header{"Content-Type": {contentType}} }
