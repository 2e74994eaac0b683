package main

import (
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/connectionsv1/connectionsv1connect"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/node"
	"github.com/fireonce/fireonce/internal/proof/litetest"
)

// TestServeWithApps checks that a server that is started with an operator's apps begins logins
// with them, and has a callback page.
func TestServeWithApps(t *testing.T) {
	if crashRun {
		t.Skip("needs no failpoints")
	}
	path := filepath.Join(t.TempDir(), "apps.json")
	text := `{"public_url": "http://127.0.0.1:8080", "apps": [{"name": "feeds", "connector": "feed", "client_id": "me",
		"authorization_url": "http://127.0.0.1:1/login", "token_url": "http://127.0.0.1:1/token"}]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	n, err := node.Start(t.Context(), node.Config{
		Listen: "127.0.0.1:0", Database: "sqlite:" + litetest.New(t), Dev: true, OAuthApps: path,
		Grace: 30 * time.Second, Log: slog.New(slog.DiscardHandler), Version: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- n.Run(t.Context()) }()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	begun, err := connectionsv1connect.NewConnectionServiceClient(http.DefaultClient, n.URL()).StartOAuth(t.Context(), &connectionsv1.StartOAuthRequest{
		App: "feeds", Target: &connectionsv1.StartOAuthRequest_Create{Create: &connectionsv1.CreateConnectionRequest{
			IdempotencyKey: "k", Connection: &connectionsv1.Connection{
				Connector: "feed", Settings: &connectionsv1.Connection_Feed{Feed: &connectionsv1.FeedSettings{BaseUrl: "http://127.0.0.1:1"}},
			},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	start, ours := strings.CutPrefix(begun.GetAuthorizationUrl(), "http://127.0.0.1:8080")
	if !ours {
		t.Fatal(begun)
	}
	w := &loginWorld{T: t, server: n.URL()}
	browser := w.browser()
	res, err := browser.Get(n.URL() + start)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	to, err := res.Location()
	if err != nil || to.Query().Get("redirect_uri") != "http://127.0.0.1:8080/oauth/callback/feeds" {
		t.Fatalf("%s, %v", to, err)
	}
	back := n.URL() + "/oauth/callback/feeds?code=a-code&state=" + to.Query().Get("state")
	token := tokenField.FindStringSubmatch(w.page(browser.Get(back)))
	if token == nil {
		t.Fatal("nothing is asked")
	}
	// The token endpoint does not answer.
	ended := w.page(browser.PostForm(back, url.Values{"token": {token[1]}, "mine": {"yes"}, "answer": {"connect"}}))
	if !strings.Contains(ended, "begin again") {
		t.Errorf("the page says\n%s", ended)
	}
}
