package server

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// Rules of this file: JSON that a person reads has lines. A person is one who calls with curl, Wget or HTTPie, or
// asks with ?pretty; ?pretty=0 asks for one line. Below the first level, empty texts, lists and objects are left out, which
// the JSON mapping of Protocol Buffers allows: they hide what matters. Programs get the bytes that the codec writes, and streams are left
// alone. No value changes.

// maxReadable bounds the answers that get lines: a person reads no more.
const maxReadable = 1 << 20

// agentsOfPeople are the beginnings of the names of the programs by which people call.
var agentsOfPeople = []string{"curl/", "Wget/", "Wget2/", "HTTPie/"}

// forPerson reports whether a person reads the answer.
func forPerson(r *http.Request) bool {
	if strings.Contains(r.Header.Get("Content-Type"), "+") { // gRPC's frames, or those of a stream
		return false
	}
	if r.URL.RawQuery != "" {
		if query := r.URL.Query(); query.Has("pretty") {
			return query.Get("pretty") != "0" && query.Get("pretty") != "false"
		}
	}
	agent := r.Header.Get("User-Agent")
	for _, name := range agentsOfPeople {
		if strings.HasPrefix(agent, name) {
			return true
		}
	}
	return false
}

// indentForPeople writes the JSON of answers to people in lines.
func indentForPeople(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !forPerson(r) {
			next.ServeHTTP(w, r)
			return
		}
		r.Header.Del("Accept-Encoding") // the lines are made of what is not compressed
		in := &readableWriter{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(in, r)
		in.end()
	})
}

// readableWriter keeps an answer in JSON until it is whole, and passes on any other.
type readableWriter struct {
	http.ResponseWriter
	status        int
	begun, passes bool
	answer        bytes.Buffer
}

// Unwrap is for http.ResponseController.
func (w *readableWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush implements http.Flusher. What is kept is not written before its end.
func (w *readableWriter) Flush() {
	if w.passes {
		_ = http.NewResponseController(w.ResponseWriter).Flush() // not every transport can
	}
}

// WriteHeader implements http.ResponseWriter.
func (w *readableWriter) WriteHeader(status int) {
	if w.begun {
		return
	}
	kind, _, _ := mime.ParseMediaType(w.Header().Get("Content-Type"))
	w.begun, w.status, w.passes = true, status, kind != "application/json"
	if w.passes {
		w.ResponseWriter.WriteHeader(status)
	}
}

// Write implements http.ResponseWriter.
func (w *readableWriter) Write(data []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if !w.passes && w.answer.Len()+len(data) > maxReadable {
		w.passes = true
		w.ResponseWriter.WriteHeader(w.status)
		if _, err := w.ResponseWriter.Write(w.answer.Bytes()); err != nil {
			return 0, err
		}
	}
	if w.passes {
		return w.ResponseWriter.Write(data)
	}
	return w.answer.Write(data)
}

// end writes what was kept.
func (w *readableWriter) end() {
	if !w.begun || w.passes {
		return
	}
	var lines bytes.Buffer
	if w.answer.Len() > 0 && json.Indent(&lines, bytes.TrimSpace(w.answer.Bytes()), "", "  ") != nil {
		lines = w.answer // no JSON, whatever its type says
	}
	lines = withoutEmpty(lines.Bytes())
	if lines.Len() > 0 {
		lines.WriteByte('\n')
	}
	w.Header().Set("Content-Length", strconv.Itoa(lines.Len()))
	w.ResponseWriter.WriteHeader(w.status)
	_, _ = w.ResponseWriter.Write(lines.Bytes()) // a client that has gone gets no answer
}

// emptyMember is a line of indented JSON, below the first level, with a member that has no content.
var emptyMember = regexp.MustCompile(`^ {4,}"[^"]*": (""|\[\]|\{\}),?$`)

// withoutEmpty returns indented JSON without such members.
func withoutEmpty(indented []byte) (out bytes.Buffer) {
	for line := range bytes.Lines(indented) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		if emptyMember.Match(line) {
			continue
		}
		if out.Len() > 0 {
			if end := bytes.TrimLeft(line, " "); len(end) > 0 && end[0] == '}' && out.Bytes()[out.Len()-1] == ',' {
				out.Truncate(out.Len() - 1) // what followed was left out
			}
			out.WriteByte('\n')
		}
		out.Write(line)
	}
	return out
}
