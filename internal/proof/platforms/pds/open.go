package pds

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/fireonce/fireonce/internal/proof/proc"
)

// Here reports whether there are Node and the server's modules; else it states what to do.
func Here() error {
	node, err := exec.LookPath("node")
	if err == nil {
		_, err = os.Stat(filepath.Join(source(), "node_modules", ".package-lock.json"))
	}
	if err != nil {
		return fmt.Errorf("the personal data server needs Node and its modules: %w\nRun .ci/need-pds (%s), or set %s=1 to do without it", err, node, Skip)
	}
	return nil
}

// source is this package's folder.
func source() string {
	_, self, _, _ := runtime.Caller(0)
	return filepath.Dir(self)
}

// Open runs a server on a folder of its own. It ends with close, or with this process.
func Open(ctx context.Context, dir string) (s *Server, closeIt func() error, err error) {
	if err := Here(); err != nil {
		return nil, nil, err
	}
	cmd := exec.Command("node", filepath.Join(source(), "start.mjs"), dir) //nolint:noctx,gosec // our own script, which ends with its input
	var words bytes.Buffer
	cmd.Stderr = &words
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	p, err := proc.Start(cmd)
	if err != nil {
		return nil, nil, err
	}
	line, err := p.Ready(ctx, proc.ReadyBy)
	if err != nil {
		return nil, nil, fmt.Errorf("the personal data server did not start: %w\n%s", errors.Join(err, p.Err()), words.String())
	}
	return &Server{URL: line}, func() error {
		_ = in.Close()
		return p.Err()
	}, nil
}

// Join makes an account, with an app password.
func (s *Server) Join(ctx context.Context) (*Account, error) {
	n := s.accounts.Add(1)
	a := &Account{server: s, OwnPassword: fmt.Sprintf("own-password-%d", n), Handle: fmt.Sprintf("ada%d.test", n)}
	var made struct {
		DID    string `json:"did"`
		Access string `json:"accessJwt"`
	}
	err := s.call(ctx, http.MethodPost, "com.atproto.server.createAccount", "", map[string]string{
		"handle": a.Handle, "email": a.Handle + "@example.org", "password": a.OwnPassword,
	}, &made)
	if err != nil {
		return nil, err
	}
	a.DID, a.access = made.DID, made.Access
	a.Password, err = a.AddPassword(ctx, "first")
	return a, err
}

// AddPassword makes another app password of the account.
func (a *Account) AddPassword(ctx context.Context, name string) (string, error) {
	var made struct {
		Password string `json:"password"`
	}
	err := a.server.call(ctx, http.MethodPost, "com.atproto.server.createAppPassword", a.access, map[string]string{"name": name}, &made)
	return made.Password, err
}

// DropPassword takes an app password back.
func (a *Account) DropPassword(ctx context.Context, name string) error {
	return a.server.call(ctx, http.MethodPost, "com.atproto.server.revokeAppPassword", a.access, map[string]string{"name": name}, nil)
}

// All lists all posts of the account, the newest key first.
func (a *Account) All(ctx context.Context) ([]Post, error) {
	var all []Post
	cursor := ""
	for {
		q := url.Values{"repo": {a.DID}, "collection": {"app.bsky.feed.post"}, "limit": {"100"}}
		if cursor != "" {
			q.Set("cursor", cursor)
		}
		var page struct {
			Records []struct {
				URI   string         `json:"uri"`
				CID   string         `json:"cid"`
				Value map[string]any `json:"value"`
			} `json:"records"`
			Cursor string `json:"cursor"`
		}
		if err := a.server.call(ctx, http.MethodGet, "com.atproto.repo.listRecords?"+q.Encode(), "", nil, &page); err != nil {
			return nil, err
		}
		for _, r := range page.Records {
			all = append(all, Post{URI: r.URI, CID: r.CID, Record: r.Value})
		}
		if cursor = page.Cursor; cursor == "" || len(page.Records) == 0 {
			return all, nil
		}
	}
}

// call asks the server, and reads its answer into a value; nil: the answer is dropped.
func (s *Server) call(ctx context.Context, verb, method, token string, body, into any) error {
	var raw []byte
	if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			return err
		}
	}
	r, err := http.NewRequestWithContext(ctx, verb, s.URL+"/xrpc/"+method, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	if err == nil && len(text) > 0 && into != nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %s", method, err, text)
	}
	return nil
}
