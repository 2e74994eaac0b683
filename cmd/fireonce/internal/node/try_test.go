package node

import (
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/connectionsv1/connectionsv1connect"
	"github.com/fireonce/fireonce/server"
)

// lines is a writer whose texts a test waits for.
type lines chan string

func (l lines) Write(text []byte) (int, error) {
	l <- string(text)
	return len(text), nil
}

// TestTry makes the call that the ready line shows, before and after a restart: it is one effect.
func TestTry(t *testing.T) {
	t.Parallel()
	printed := make(lines, 10)
	cfg := Config{
		Listen: "127.0.0.1:0", Database: "sqlite:" + filepath.Join(t.TempDir(), "try.db"), Dev: true, Try: printed,
		Version: "test", Log: slog.New(slog.DiscardHandler),
	}
	created := map[bool]int{}
	for range 2 {
		n, err := Start(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Listen = strings.TrimPrefix(n.URL(), "http://")
		_, call, found := strings.Cut(n.Ready(), "\ntry it: curl ")
		url, rest, _ := strings.Cut(call, " ")
		_, body, _ := strings.Cut(strings.TrimSuffix(rest, "'"), "-d '")
		resp, err := http.Post(url, "application/json", strings.NewReader(body))
		if err != nil || !found {
			t.Fatal(n.Ready(), err)
		}
		answer, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s", answer)
		}
		if created[strings.Contains(string(answer), `"created":true`)]++; created[true] == 1 && created[false] == 0 {
			if text := <-printed; !strings.Contains(text, "POST /try  webhook-id ") || !strings.Contains(text, "acted\n    {\"hello\":\"world\"}\n") {
				t.Errorf("printed %q", text)
			}
			page, err := http.Get(n.URL() + server.TryPath)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(page.Body)
			page.Body.Close()
			if !strings.Contains(string(text), "acted\n    {\"hello\":\"world\"}\n") {
				t.Errorf("shown %q", text)
			}
		}
		list, err := connectionsv1connect.NewConnectionServiceClient(http.DefaultClient, n.URL()).ListConnections(t.Context(), &connectionsv1.ListConnectionsRequest{})
		if err != nil || len(list.GetConnections()) != 1 {
			t.Errorf("%v, %v", list, err)
		}
		if err := n.shutdown(); err != nil {
			t.Error(err)
		}
	}
	if created[true] != 1 || created[false] != 1 || len(printed) != 0 {
		t.Errorf("created: %v, and %d more arrived", created, len(printed))
	}
}

// TestNoTry checks that the receiver is for one machine alone.
func TestNoTry(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Config){
		"not for development": func(c *Config) { c.Dev = false },
		"with an API key":     func(c *Config) { c.APIKey = "operator-0123456789" },
		"required keys":       func(c *Config) { c.RequireAPIKey = true },
		"with TLS":            func(c *Config) { c.TLS.Pair.Cert = "cert.pem" },
		"a sandbox":           func(c *Config) { c.Try = nil },
	} {
		cfg := Config{Dev: true, Try: io.Discard}
		if !cfg.tries() || cfg.receiver() == nil {
			t.Error("there is no receiver for development")
		}
		if change(&cfg); cfg.tries() || cfg.receiver() != nil {
			t.Errorf("%s: there is a receiver", name)
		}
	}
}
