package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	connectrpc "connectrpc.com/connect"

	"github.com/fireonce/fireonce/clients/go/connectorv1"
	"github.com/fireonce/fireonce/clients/go/connectorv1/connectorv1connect"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
)

// Platforms for TestNoSecretOfPlatformsGetsOut. Each answers in the way that the secret itself
// names, and repeats the request in as many parts of its answer as it can.

// hostileMark is in every secret that is used, with characters that are escaped in URLs, in JSON
// and in HTML.
const hostileMark = "canary7Fq2+XvLw9/Qz"

// secretOf returns a secret that makes a platform answer in some way.
func secretOf(connector, way string) string { return hostileMark + "." + connector + "." + way + "." }

var wayOf = regexp.MustCompile(`Qz\.[a-z]+\.([a-z0-9]+)\.`)

// ways are the ways in which platforms answer. With an "s" in front, only requests after the
// first ones are answered so.
var ways = []string{"200", "302", "400", "401", "403", "404", "409", "422", "429", "500", "503", "plain", "half", "head"}

// hostile is all of the platforms.
type hostile struct {
	*httptest.Server
	films *httptest.Server
	roots *x509.CertPool
	mu    sync.Mutex
	seen  strings.Builder
	// verifiers are PKCE's, which the server generates.
	verifiers []string
}

func startHostile(t *testing.T) *hostile {
	h := &hostile{roots: x509.NewCertPool()}
	mux := http.NewServeMux()
	mux.Handle(connectorv1connect.NewConnectorServiceHandler(&treacherous{hostile: h}))
	mux.HandleFunc("/", h.answer)
	h.Server = httptest.NewServer(mux)
	t.Cleanup(h.Close)
	h.films = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "video/mp4")
		_, _ = w.Write(bytes.Repeat([]byte("film"), 1000))
	}))
	t.Cleanup(h.films.Close)
	return h
}

func (h *hostile) note(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen.WriteString(text)
}

func (h *hostile) sent() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.seen.String()
}

// answer answers for every platform with HTTP.
func (h *hostile) answer(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var head bytes.Buffer
	_ = r.Header.Write(&head)
	said := head.String() + string(body)
	if user, password, ok := r.BasicAuth(); ok {
		said += user + " " + password
	}
	if form, err := url.ParseQuery(string(body)); err == nil && form.Has("code_verifier") {
		said += form.Get("client_secret") + form.Get("code") + form.Get("code_verifier")
		h.mu.Lock()
		h.verifiers = append(h.verifiers, form.Get("code_verifier"))
		h.mu.Unlock()
	}
	if plain, err := url.QueryUnescape(said); err == nil {
		said += plain
	}
	h.note(r.URL.Path + "\n" + said)
	way := "404"
	if found := wayOf.FindStringSubmatch(said); found != nil {
		way = found[1]
	}
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if later, ok := strings.CutPrefix(way, "s"); ok {
		h.begin(w, r, later, said, token)
		return
	}
	tell(w, way, said, token)
}

// reads are answers to reads that come before a send.
var reads = map[string]string{
	"/2/users/me":                         `{"data":{"id":"1","username":"ada"}}`,
	"/2/users/1/tweets":                   `{"meta":{"result_count":0}}`,
	"/auth.test":                          `{"ok":true,"url":"https://t.slack.com/","team":"t","user":"u","team_id":"T1","user_id":"U1","bot_id":"B1"}`,
	"/conversations.history":              `{"ok":true,"messages":[],"has_more":false}`,
	"/api/v1/accounts/verify_credentials": `{"id":"1","username":"ada","acct":"ada","url":"http://127.0.0.1/@ada"}`,
	"/api/v1/accounts/1/statuses":         `[]`,
	"/v2/user/info/":                      `{"data":{"user":{"open_id":"o1"}},"error":{"code":"ok","message":"","log_id":"1"}}`,
	"/v2/post/publish/creator_info/query/": `{"data":{"creator_username":"ada","creator_nickname":"Ada",` +
		`"privacy_level_options":["PUBLIC_TO_EVERYONE","SELF_ONLY"],"max_video_post_duration_sec":300},"error":{"code":"ok","message":"","log_id":"1"}}`,
}

// begin answers a login and the reads before a send with success, and all later requests with a
// failure.
func (h *hostile) begin(w http.ResponseWriter, r *http.Request, later, said, token string) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case reads[r.URL.Path] != "":
		_, _ = io.WriteString(w, reads[r.URL.Path])
	case strings.HasSuffix(r.URL.Path, "createSession"):
		_ = json.NewEncoder(w).Encode(map[string]any{
			"did": "did:plc:abcdefghijklmnopqrstuvwx", "handle": "ada.example.org",
			"accessJwt": secretOf("access", later), "refreshJwt": secretOf("refresh", later),
		})
	case r.URL.Path == "/token":
		_ = json.NewEncoder(w).Encode(map[string]any{
			"access_token": secretOf("access", later), "refresh_token": secretOf("refresh", later), "token_type": "bearer", "expires_in": 1,
		})
	default:
		tell(w, later, said, token)
	}
}

// tell answers in one way.
func tell(w http.ResponseWriter, way, said, token string) {
	words := map[string]any{
		"error": said, "error_description": said, "message": said, "detail": said, "title": token, "type": "about:blank", "name": token,
		"errors": []any{map[string]any{"message": said, "detail": token, "title": token, "code": 89}},
		"ok":     false, "needed": token, "response_metadata": map[string]any{"messages": []string{said}},
	}
	if strings.Contains(said, ".tiktok.") {
		words["error"] = map[string]any{"code": token, "message": said, "log_id": token}
	}
	text, _ := json.Marshal(words)
	raw := func(answer string) {
		conn, out, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		_, _ = out.WriteString(answer)
		_ = out.Flush()
		_ = conn.Close()
	}
	var code int
	switch _, err := fmt.Sscan(way, &code); {
	case way == "half":
		raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n" + string(text))
	case way == "head":
		raw("HTTP/1.1 200 OK\r\nBad " + token + "\r\n" + said)
	case way == "plain":
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, strings.ReplaceAll(token, "/", `\/`)+" "+base64.StdEncoding.EncodeToString([]byte(token))+" "+said)
	case err != nil:
		http.NotFound(w, nil)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Request-Id", token)
		w.Header().Set("Retry-After", "1")
		w.Header().Set("Location", "/?token="+url.QueryEscape(token))
		w.Header().Set("WWW-Authenticate", `Bearer error="`+token+`"`)
		w.WriteHeader(code)
		_, _ = w.Write(text)
	}
}

// treacherous is a remote connector whose answers repeat its requests.
type treacherous struct {
	connectorv1connect.UnimplementedConnectorServiceHandler
	*hostile
}

func (t *treacherous) words(ctx context.Context, a *connectorv1.Account) string {
	said := a.String()
	if call, ok := connectrpc.CallInfoForHandlerContext(ctx); ok {
		said += " " + call.RequestHeader().Get("Authorization")
	}
	t.note(said)
	return said
}

// Describe implements the RPC.
func (*treacherous) Describe(context.Context, *connectorv1.DescribeRequest) (*connectorv1.DescribeResponse, error) {
	return &connectorv1.DescribeResponse{
		PayloadKinds: []string{"social_post"}, EffectClasses: []fireoncev1.EffectClass{fireoncev1.EffectClass_EFFECT_CLASS_OPAQUE}, Promise: "None.",
	}, nil
}

// Check implements the RPC.
func (*treacherous) Check(context.Context, *connectorv1.CheckRequest) (*connectorv1.CheckResponse, error) {
	return &connectorv1.CheckResponse{Result: &connectorv1.CheckResponse_Checked{Checked: &connectorv1.Checked{
		Traits: &connectorv1.Traits{EffectClass: fireoncev1.EffectClass_EFFECT_CLASS_OPAQUE},
	}}}, nil
}

// Prepare implements the RPC.
func (*treacherous) Prepare(context.Context, *connectorv1.PrepareRequest) (*connectorv1.PrepareResponse, error) {
	return &connectorv1.PrepareResponse{Result: &connectorv1.PrepareResponse_Prepared{Prepared: &connectorv1.Prepared{}}}, nil
}

// Test implements the RPC.
func (t *treacherous) Test(ctx context.Context, r *connectorv1.TestRequest) (*connectorv1.TestResponse, error) {
	return nil, connectrpc.NewError(connectrpc.CodeUnauthenticated, fmt.Errorf("you sent %s", t.words(ctx, r.GetAccount())))
}

// Publish implements the RPC.
func (t *treacherous) Publish(ctx context.Context, r *connectorv1.PublishRequest) (*connectorv1.PublishResponse, error) {
	return nil, connectrpc.NewError(connectrpc.CodeInternal, fmt.Errorf("you sent %s", t.words(ctx, r.GetAccount())))
}

// relay starts an SMTP server over TLS that refuses a login (way "login") or an e-mail, and repeats
// the client's data in its answer.
func (h *hostile) relay(t *testing.T, way string) (port int) {
	t.Helper()
	with := httptest.NewTLSServer(nil) // for its certificate
	t.Cleanup(with.Close)
	h.roots.AddCert(with.Certificate())
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: with.TLS.Certificates, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { h.mail(conn, way) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		all.Wait()
	})
	return listener.Addr().(*net.TCPAddr).Port
}

func (h *hostile) mail(conn net.Conn, way string) {
	defer conn.Close()
	_, _ = io.WriteString(conn, "220 relay.example.org\r\n")
	said := ""
	for in := bufio.NewScanner(conn); in.Scan(); {
		line, answer := in.Text(), "250 2.0.0 OK"
		switch verb, rest, _ := strings.Cut(line, " "); strings.ToUpper(verb) {
		case "EHLO":
			answer = "250-relay.example.org\r\n250 AUTH PLAIN"
		case "AUTH":
			_, text, _ := strings.Cut(rest, " ")
			plain, _ := base64.StdEncoding.DecodeString(text)
			said = text + " " + strings.ReplaceAll(string(plain), "\x00", " ")
			h.note(said)
			answer = "235 2.7.0 OK " + said
			if way == "login" {
				answer = "535 5.7.8 no: " + said
			}
		case "RCPT", "MAIL":
			answer = "550 5.7.1 no: " + said
		case "QUIT":
			_, _ = io.WriteString(conn, "221 2.0.0 bye "+said+"\r\n")
			return
		}
		_, _ = io.WriteString(conn, answer+"\r\n")
	}
}
