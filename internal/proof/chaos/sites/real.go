package sites

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fireonce/fireonce/internal/connector/smtp/smtptest"
	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
	"github.com/fireonce/fireonce/internal/proof/platforms/pds"
)

// startSMTP starts a relay, a real SMTP server with TLS and a login.
func startSMTP(_ context.Context, dir string) (platform.Site, error) {
	const user, password = "ada", "password-"
	var ask atomic.Pointer[func(string) platform.Fault]
	relay, err := smtptest.Start(smtptest.Options{ //nolint:contextcheck // a listener on loopback is there immediately
		Security: smtptest.StartTLS, User: user, Password: password + "0",
		PlanFor: func(m smtptest.Message) smtptest.Fault { return mails[(*ask.Load())(m.Subject())] },
	})
	if err != nil {
		return platform.Site{}, err
	}
	if err := os.WriteFile(filepath.Join(dir, Certificate), relay.Certificate(), 0o600); err != nil {
		return platform.Site{}, err
	}
	generation := 0
	return platform.Site{
		Address: net.JoinHostPort(relay.Addr().Host(), strconv.Itoa(int(relay.Addr().Port()))), Close: relay.Close, Slow: true,
		Attach:     func(f func(string) platform.Fault) { ask.Store(&f) },
		Credential: platform.Credential{User: user, Password: password + "0"},
		Revoke: func(context.Context) (platform.Credential, error) { // one at a time
			generation++
			next := password + strconv.Itoa(generation)
			relay.SetPassword(next)
			return platform.Credential{User: user, Password: next}, nil
		},
		Made: func(context.Context) (out []platform.Made, _ error) {
			for _, m := range relay.Stored() {
				out = append(out, platform.Made{Subject: m.Subject(), ID: m.ID()})
			}
			return out, nil
		},
	}, nil
}

// mails are the faults that a relay has. A refusal for now is a true one: 451.
var mails = map[platform.Fault]smtptest.Fault{
	platform.None: smtptest.Take, platform.Delay: smtptest.Take,
	platform.Drop: smtptest.DropAfter, platform.ErrorAfter: smtptest.DropAfter, platform.ResetMid: smtptest.DropAfter,
	platform.Truncate: smtptest.DropAfter, platform.Trickle: smtptest.SilentAfter, platform.Silence: smtptest.SilentAfter,
	platform.ResetBefore: smtptest.DropBefore, platform.Unavailable: smtptest.Defer, platform.RateLimit: smtptest.Defer,
	platform.Refuse: smtptest.Refuse,
}

// Calls of the AT Protocol.
const (
	xrpc          = "/xrpc/com.atproto."
	putRecord     = xrpc + "repo.putRecord"
	createSession = xrpc + "server.createSession"
	refresh       = xrpc + "server.refreshSession"
)

// sessions are those that began since the last app password was taken back. The server
// itself ends only those that are to be refreshed; this ends all of them.
type sessions struct {
	mu   sync.Mutex
	live map[string]bool // by access token
}

func (s *sessions) heard(r platform.Request, answer []byte) {
	var in struct {
		Access string `json:"accessJwt"`
	}
	if r.Path != createSession && r.Path != refresh || json.Unmarshal(answer, &in) != nil || in.Access == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live[in.Access] = true
}

func (s *sessions) allowed(r platform.Request) bool {
	token, shown := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !shown || r.Path == createSession || r.Path == refresh {
		return true // the server knows
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live[token]
}

func (s *sessions) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.live)
}

// startBluesky starts a real personal data server. Its posts are counted in the end, by
// asking it for all of them.
func startBluesky(ctx context.Context, dir string) (platform.Site, error) {
	own := filepath.Join(dir, "pds")
	if err := os.Mkdir(own, 0o700); err != nil {
		return platform.Site{}, err
	}
	server, end, err := pds.Open(ctx, own)
	if err != nil {
		return platform.Site{}, err
	}
	account, err := server.Join(ctx)
	if err != nil {
		return platform.Site{}, fmt.Errorf("an account: %w", err)
	}
	live, last, generation := &sessions{live: make(map[string]bool)}, "first", 0
	return platform.Site{
		URL: server.URL, Close: end, Slow: true, Allowed: live.allowed, Heard: live.heard,
		Credential: platform.Credential{User: account.Handle, Password: account.Password},
		Sort: func(r platform.Request) platform.Purpose {
			if r.Path != putRecord {
				return platform.Purpose{}
			}
			var in struct {
				Record json.RawMessage `json:"record"`
			}
			if err := json.Unmarshal(r.Body, &in); err != nil {
				return platform.Purpose{}
			}
			return platform.Purpose{Subject: subject(field(in.Record, "text"))}
		},
		Revoke: func(ctx context.Context) (platform.Credential, error) { // one at a time
			generation++
			name := fmt.Sprintf("app-%d", generation)
			password, err := account.AddPassword(ctx, name)
			if err == nil {
				err = account.DropPassword(ctx, last)
			}
			last = name
			live.end()
			return platform.Credential{User: account.Handle, Password: password}, err
		},
		Made: func(ctx context.Context) (out []platform.Made, _ error) {
			all, err := account.All(ctx)
			for _, p := range all {
				out = append(out, platform.Made{Subject: subject(p.Text()), ID: p.URI})
			}
			return out, err
		},
		Words: map[platform.Fault]platform.Words{
			platform.Unauthorized: says(http.StatusBadRequest, `{"error":"ExpiredToken","message":"Token has been revoked"}`),
			platform.Refuse:       says(http.StatusBadRequest, `{"error":"InvalidRequest","message":"Invalid app.bsky.feed.post record"}`),
			platform.RateLimit:    limited(`{"error":"RateLimitExceeded","message":"Rate Limit Exceeded"}`),
		},
	}, nil
}
