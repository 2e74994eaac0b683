package main

import (
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/gen/fireonce/v1/fireoncev1connect"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/node"
)

// A server that is started with an operator's apps begins logins by them, and has a
// callback page.
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
		Listen: "127.0.0.1:0", Database: "sqlite:" + filepath.Join(t.TempDir(), "fireonce.db"), Dev: true, OAuthApps: path,
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
	begun, err := fireoncev1connect.NewConnectionServiceClient(http.DefaultClient, n.URL()).StartOAuth(t.Context(), &fireoncev1.StartOAuthRequest{
		App: "feeds", Target: &fireoncev1.StartOAuthRequest_Create{Create: &fireoncev1.CreateConnectionRequest{
			IdempotencyKey: "k", Connection: &fireoncev1.Connection{
				Connector: "feed", Settings: &fireoncev1.Connection_Feed{Feed: &fireoncev1.FeedSettings{BaseUrl: "http://127.0.0.1:1"}},
			},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(begun.GetAuthorizationUrl())
	if err != nil || u.Query().Get("redirect_uri") != "http://127.0.0.1:8080/oauth/callback" {
		t.Errorf("%v, %v", begun, err)
	}
	// Nobody answers at the token endpoint.
	res, err := http.Get(n.URL() + "/oauth/callback?state=" + begun.GetState() + "&code=a-code")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusBadGateway || !strings.Contains(string(body), "go back and log in again") {
		t.Errorf("%s, %v\n%s", res.Status, err, body)
	}
}
