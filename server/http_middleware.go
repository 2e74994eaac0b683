package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
)

// Rules of this file: a call that can be refused by its headers is refused before its body is
// read, in the protocol that the client speaks.

const requestIDHeader = "X-Request-Id"

// maxRequestID bounds the request id that a client may choose.
const maxRequestID = 64

type contextKey int

const (
	keyRequestID contextKey = iota
	keyCaller
	keyWriter
	keyPeer
)

func requestID(ctx context.Context) string {
	id, _ := ctx.Value(keyRequestID).(string)
	return id
}

// writerOf returns the controls of the response, which only streams need.
func writerOf(ctx context.Context) *http.ResponseController {
	c, _ := ctx.Value(keyWriter).(*http.ResponseController)
	return c
}

// withRequestID assigns every request an id, the client's own where it is fit.
func withRequestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(requestIDHeader)
		if !validRequestID(id) {
			id = newID().String()
		}
		w.Header().Set(requestIDHeader, id)
		ctx := context.WithValue(r.Context(), keyRequestID, id)
		ctx = withPeer(ctx, remoteAddr(r.RemoteAddr))
		ctx = context.WithValue(ctx, keyWriter, http.NewResponseController(w))
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// withDeadlines bounds the time that a body and an answer may take, of every client and on every
// path: before net/http answers a request that is turned away, it reads the rest of the body, and
// waits for that as long as it may. A stream sets deadlines of its own.
func (s *Server) withDeadlines(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Not every transport has deadlines; the connection's own limits hold then.
		now, writer := time.Now(), http.NewResponseController(w)
		_ = writer.SetReadDeadline(now.Add(s.cfg.Limits.MaxDeadline))
		_ = writer.SetWriteDeadline(now.Add(2*s.cfg.Limits.MaxDeadline + s.cfg.Limits.Write))
		next.ServeHTTP(w, r)
	})
}

func validRequestID(id string) bool {
	return id != "" && len(id) <= maxRequestID && !strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' })
}

// checkHost guards a server without a key against DNS rebinding: a web page
// that has its own name point to this address must not reach the API.
func (s *Server) checkHost(next http.Handler) http.Handler {
	if s.auth.required {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hostAllowed(r.Host, s.cfg.AllowedHosts) {
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

// hostAllowed reports whether a Host header has a loopback name, or one of the allowed.
func hostAllowed(hostport string, allowed []string) bool {
	host, ok := hostOf(hostport)
	if !ok {
		return false
	}
	if addr, err := netip.ParseAddr(host); err == nil && addr.Unmap().IsLoopback() {
		return true
	}
	return host == "localhost" || slices.ContainsFunc(allowed, func(name string) bool {
		return strings.EqualFold(strings.Trim(name, "[]"), host)
	})
}

// hostOf returns the name or the address of a Host header, in small letters and without
// a final dot. Only NAME, NAME:PORT, [ADDRESS] and [ADDRESS]:PORT are hosts: what others
// might read as another host is none.
func hostOf(hostport string) (host string, ok bool) {
	host, port := hostport, ""
	if inner, found := strings.CutPrefix(hostport, "["); found {
		if host, port, found = strings.Cut(inner, "]"); !found {
			return "", false
		}
		if addr, err := netip.ParseAddr(host); err != nil || !addr.Is6() {
			return "", false
		}
		if port != "" && port[0] != ':' {
			return "", false
		}
		port = strings.TrimPrefix(port, ":")
	} else if name, digits, found := strings.Cut(hostport, ":"); found {
		host, port = name, digits
		if port == "" {
			return "", false
		}
	}
	if _, err := strconv.ParseUint(cmp.Or(port, "0"), 10, 16); err != nil || strings.ContainsAny(host, "[]/@%? ") {
		return "", false
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host, host != ""
}

// maxHeaderLines bounds the header lines of a request. Each costs a hundred bytes and more,
// however short it is, for as long as the request lasts.
const maxHeaderLines = 128

// limitHeaders refuses a flood of headers, and drops them.
func limitHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lines := headerLines(r.Header)
		if lines <= maxHeaderLines {
			next.ServeHTTP(w, r)
			return
		}
		r.Header = make(http.Header)
		w.Header().Set("Connection", "close")
		http.Error(w, tooManyHeaders(lines), http.StatusRequestHeaderFieldsTooLarge)
	})
}

// headerLines counts the header lines of a request, on either listener.
func headerLines(header map[string][]string) (n int) {
	for _, values := range header {
		n += len(values)
	}
	return n
}

func tooManyHeaders(lines int) string {
	return fmt.Sprintf("the request has %d headers; at most %d are read", lines, maxHeaderLines)
}

// protected keeps answers out of other web pages and out of caches: they are data that belongs to
// the caller's key.
func protected(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h["X-Content-Type-Options"] = nosniff
		h["Cross-Origin-Resource-Policy"] = sameOrigin
		h["Cache-Control"] = noStore
		next.ServeHTTP(w, r)
	})
}

// The values of headers that all answers have; they are never written to.
var nosniff, sameOrigin, noStore = []string{"nosniff"}, []string{"same-origin"}, []string{"no-store"}

// checkSite guards a server without a key against pages of other sites: a GET needs no
// preflight, so an image of any page could make the server work.
func (s *Server) checkSite(next http.Handler) http.Handler {
	if s.auth.required {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		site := r.Header.Get("Sec-Fetch-Site")
		origin := r.Header.Get("Origin")
		foreign := site == "cross-site" || site == "same-site" ||
			site == "" && origin != "" && origin != "http://"+r.Host && origin != "https://"+r.Host // a browser without fetch metadata
		if r.Method == http.MethodGet && foreign && !slices.Contains(s.cfg.AllowedOrigins, origin) {
			http.Error(w, "Fireonce runs without an API key and therefore answers no page of another site. "+
				"Set an API key, or list the page's origin as allowed.", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// writeErrors writes errors in the protocol of the request.
var writeErrors = connect.NewErrorWriter()

// turnAway answers a call whose body was not read.
func (s *Server) turnAway(w http.ResponseWriter, r *http.Request, f *fault) {
	s.logTurnedAway(r.Context(), r.URL.Path, f)
	_ = writeErrors.Write(w, r, f.wire()) // a client that has gone gets no answer
}
