package server

import (
	"cmp"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"github.com/fireonce/fireonce/internal/contract"
	"github.com/fireonce/fireonce/server/wire"
)

// Rules of this file: a request that no handler can read is answered like any other error, in JSON,
// with what to send instead: a first call is made by curl, without a library. Clients of gRPC and
// gRPC-Web get their protocol's answer.

// maxHeaderShown bounds the part of a request's header that an error repeats.
const maxHeaderShown = 64

// isGRPC reports whether a request is of a client of gRPC or gRPC-Web.
func isGRPC(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasPrefix(strings.ToLower(r.Header.Get("Content-Type")), "application/grpc")
}

// unreadable reports whether a call of an RPC has a form that its handler does not read, and answers it. What
// clients of gRPC send is left to the handler.
func (s *Server) unreadable(w http.ResponseWriter, r *http.Request, m wire.Method, form wire.Form) bool {
	if isGRPC(r) || form.Known && form.Framed == m.Stream && (r.Method == http.MethodPost || m.Get) {
		return false
	}
	kind, example := "application/json", "-d '{…}'"
	if m.Stream {
		kind, example = "application/connect+json", "and each message in a frame (docs/quickstart.md); ListJobEvents has the same in pages"
	}
	want := fmt.Sprintf("send a POST with -H 'Content-Type: %s' %s", kind, example)
	switch {
	case r.Method != http.MethodPost && (r.Method != http.MethodGet || !m.Get):
		w.Header().Set("Allow", http.MethodPost)
		if m.Get {
			w.Header().Set("Allow", "GET, POST")
		}
		writeAs(w, r, http.StatusMethodNotAllowed, unimplemented(r, fmt.Sprintf("this RPC has no %s; %s", method(r), want)))
	case r.Method == http.MethodGet && !form.KnownType:
		writeAs(w, r, http.StatusUnsupportedMediaType, badField("", "http.content_type",
			"a GET has its request in the query, as encoding=json and message=%7B%7D for {}; or "+want).wire())
	case form.KnownType && form.Framed == m.Stream:
		w.Header().Set("Accept-Encoding", "gzip")
		writeAs(w, r, http.StatusNotImplemented, unimplemented(r, "the request is compressed in a way that is not known; send it as it is, or by gzip"))
	default:
		w.Header().Set("Accept-Post", kind+", "+strings.Replace(kind, "json", "proto", 1))
		s.turnedAwayAs(w, r, http.StatusUnsupportedMediaType, badField("", "http.content_type", contentTypeOf(r)+want))
	}
	return true
}

// contentTypeOf describes the Content-Type of a request that has a wrong one.
func contentTypeOf(r *http.Request) string {
	given := r.Header.Get("Content-Type")
	kind, params, _ := mime.ParseMediaType(given)
	switch {
	case given == "":
		return "the request has no Content-Type; "
	case kind == "application/x-www-form-urlencoded":
		return "the request's Content-Type is " + kind + ", which curl sends unless told otherwise; "
	case kind == "application/json" && len(params) > 0:
		return "JSON is read in UTF-8, and its Content-Type has no parameters; "
	default:
		return fmt.Sprintf("the request's Content-Type is %q; ", cut(cmp.Or(kind, given), maxHeaderShown))
	}
}

// method is the request's, if it is one that a person may have meant.
func method(r *http.Request) string {
	if slices.Contains([]string{http.MethodGet, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodHead, http.MethodOptions}, r.Method) {
		return r.Method
	}
	return "such method"
}

// noSuchPath answers a request for what this port does not have.
func (s *Server) noSuchPath(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/" || r.URL.Path == statusPath {
		w.Header().Set("Allow", http.MethodGet)
		writeAs(w, r, http.StatusMethodNotAllowed, unimplemented(r, "this page is read by GET"))
		return
	}
	said := "there is nothing at this path; RPCs are at /" + strings.Join(services, "/…, /") + "/…"
	service, meant := path.Dir(r.URL.Path), s.procedureMeant(r.URL.Path)
	switch {
	case meant != "":
		said = "there is no such RPC; did you mean " + meant + "?"
	case slices.Contains(services, service[1:]):
		said = "there is no such RPC; " + service[1:] + " has " + strings.Join(s.methodNames(service), ", ")
	}
	writeAs(w, r, http.StatusNotFound, unimplemented(r, said))
}

// procedureMeant returns the RPC that a path may have been meant for; empty: it is like none.
func (s *Server) procedureMeant(asked string) string {
	names := slices.Sorted(maps.Keys(s.methods))
	if meant := contract.Nearest(asked, names); meant != "" {
		return meant
	}
	methods := s.methodNames("")
	if i := slices.Index(methods, contract.Nearest(path.Base(asked), methods)); i >= 0 {
		return names[i]
	}
	return ""
}

// methodNames returns the names of the methods of a service, or of all, in the order of their paths.
func (s *Server) methodNames(service string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(s.methods)) {
		if service == "" || path.Dir(name) == service {
			names = append(names, path.Base(name))
		}
	}
	return names
}

// unimplemented is the error for a call that this server does not have.
func unimplemented(r *http.Request, said string) *connect.Error {
	return errorWithoutReason(connect.CodeUnimplemented, said, requestID(r.Context()))
}

// turnedAwayAs is turnAway with a status of HTTP that says more than the code's own.
func (s *Server) turnedAwayAs(w http.ResponseWriter, r *http.Request, status int, f *fault) {
	s.logTurnedAway(r.Context(), r.URL.Path, f)
	writeAs(w, r, status, f.wire())
}

// writeAs writes an error in the protocol of the request; in JSON with this status.
func writeAs(w http.ResponseWriter, r *http.Request, status int, err *connect.Error) {
	r.Body = http.NoBody // what is refused by its headers is not read
	if !isGRPC(r) && !strings.HasPrefix(strings.ToLower(r.Header.Get("Content-Type")), "application/connect+") {
		w = statusWriter{w, status}
	}
	_ = writeErrors.Write(w, r, err) // a client that has gone gets no answer
}

// statusWriter writes an answer with a status of its own.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (s statusWriter) WriteHeader(int) { s.ResponseWriter.WriteHeader(s.status) }
