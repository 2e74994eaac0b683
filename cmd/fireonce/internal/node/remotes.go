package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/remote"
	"github.com/fireonce/fireonce/internal/job"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

const (
	// describePause lies between two questions to a connector that does not answer.
	describePause = 5 * time.Second
	// maxToken bounds a file with a token, in bytes.
	maxToken = 8 << 10
)

// remotesOf reads the flags --connector and --connector-token-file.
func remotesOf(connectors, tokens []string) ([]Remote, error) {
	var out []Remote
	at := make(map[string]int)
	for _, text := range connectors {
		name, url, ok := strings.Cut(text, "=")
		if _, twice := at[name]; !ok || twice {
			return nil, exit.Usagef("--connector %q: must be NAME=URL, each name once", text)
		}
		at[name] = len(out)
		out = append(out, Remote{Name: name, URL: url})
	}
	for _, text := range tokens {
		name, file, ok := strings.Cut(text, "=")
		i, known := at[name]
		if !ok || !known || out[i].Token != "" {
			return nil, exit.Usagef("--connector-token-file %q: must be NAME=FILE, once for a name that --connector has", text)
		}
		token, err := readToken(file)
		if err != nil {
			return nil, fmt.Errorf("--connector-token-file %s: %w", name, err)
		}
		out[i].Token = token
	}
	return out, nil
}

func readToken(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxToken+1))
	token := strings.TrimSpace(string(data))
	switch {
	case err != nil:
		return "", err
	case token == "" || len(data) > maxToken:
		return "", errors.New("it must hold a token, and nothing else")
	}
	return token, nil
}

// makeRemotes makes the operator's connectors. They are reached wherever they are:
// their address is the operator's, and no user's.
func (n *Node) makeRemotes() ([]*remote.Connector, error) {
	n.inside = connector.NewSender(connector.Config{
		Egress:  connector.NewEgress(netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")),
		Version: n.cfg.Version,
	})
	var out []*remote.Connector
	for _, r := range n.cfg.Connectors {
		c, err := remote.New(remote.Config{Name: r.Name, URL: r.URL, Token: r.Token, AllowHTTP: n.cfg.AllowHTTP, Sender: n.inside})
		if err != nil {
			return nil, exit.Usagef("--connector: %w", err)
		}
		out = append(out, c)
	}
	return out, nil
}

// askRemotes asks the connectors what they are, until ctx ends.
func (n *Node) askRemotes(ctx context.Context) {
	var all sync.WaitGroup
	for _, c := range n.remotes {
		all.Go(func() {
			c.Keep(ctx, describePause, func(err error) {
				if err != nil {
					n.cfg.Log.Warn("a connector does not answer; its jobs wait", "connector", c.Describe().Name, "why", err)
					return
				}
				d := c.Describe()
				n.cfg.Log.Info("a connector answers", "connector", d.Name, "payloads", d.Payloads, "classes", classNames(d.Classes))
			})
		})
	}
	all.Wait()
}

// classNames are classes as people know them: slog takes a slice of small numbers for
// a text.
func classNames(classes []job.Class) []string {
	names := make([]string, len(classes))
	for i, class := range classes {
		names[i] = class.String()
	}
	return names
}
