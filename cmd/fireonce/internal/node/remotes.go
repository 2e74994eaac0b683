package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/connector/remote"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/redact"
	"github.com/fireonce/fireonce/internal/textfile"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/certs"
)

const (
	// describePause is the pause between two calls to a connector that does not answer.
	describePause = 5 * time.Second
	// maxConnectors and maxToken bound the file of connectors, and a file with a token, in bytes.
	maxConnectors = 1 << 20
	maxToken      = 8 << 10
)

// Remote is a connector of the operator's own, in another process: an entry of the file of
// --connectors.
type Remote struct {
	redact.All

	Name string `json:"name"`
	URL  string `json:"url"`
	// TokenFile has the bearer token that goes with each call; empty: none does.
	TokenFile string `json:"token_file"`
	// CAFile has the authorities of its certificate; empty: the system's.
	CAFile string `json:"ca_file"`
	// ClientCertFile and ClientKeyFile have the certificate that it is shown; empty: none is.
	ClientCertFile string `json:"client_cert_file"`
	ClientKeyFile  string `json:"client_key_file"`

	token string
}

// tls returns the files of r for TLS.
func (r Remote) tls() certs.Client {
	return certs.Client{CA: r.CAFile, Pair: certs.Pair{Cert: r.ClientCertFile, Key: r.ClientKeyFile}}
}

// loadRemotes reads the file of --connectors. Files that it names are relative to its folder.
func (c *Config) loadRemotes() error {
	if c.Connectors == "" {
		return nil
	}
	var file struct {
		Connectors []json.RawMessage `json:"connectors"`
	}
	text, err := readFile(c.Connectors, maxConnectors)
	if err == nil {
		err = textfile.DecodeJSON(text, &file)
	}
	if err != nil {
		return fmt.Errorf("connectors: %s: %w", c.Connectors, err)
	}
	for i, entry := range file.Connectors {
		r := Remote{}
		if err := c.readRemote(entry, &r); err != nil {
			return fmt.Errorf("connectors: %s: connectors[%d] %q: %w", c.Connectors, i, r.Name, err)
		}
		c.remotes = append(c.remotes, r)
	}
	return nil
}

func (c *Config) readRemote(entry []byte, r *Remote) (err error) {
	if err := textfile.DecodeJSON(entry, r); err != nil {
		return err
	}
	for _, name := range []*string{&r.TokenFile, &r.CAFile, &r.ClientCertFile, &r.ClientKeyFile} {
		if *name != "" && !filepath.IsAbs(*name) {
			*name = filepath.Join(filepath.Dir(c.Connectors), *name)
		}
	}
	switch files := r.tls(); {
	case slices.ContainsFunc(c.remotes, func(other Remote) bool { return other.Name == r.Name }):
		return errors.New("the name is taken")
	case files.Check() != nil:
		return errors.New("client_cert_file and client_key_file go together")
	case !files.IsZero() && !strings.HasPrefix(r.URL, "https://"):
		return errors.New("files for TLS go with a url that starts with https://")
	}
	if r.TokenFile != "" {
		r.token, err = readToken(r.TokenFile)
	}
	return err
}

func readFile(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("more than %d bytes", limit)
	}
	return data, err
}

func readToken(path string) (string, error) {
	data, err := readFile(path, maxToken)
	if err != nil {
		return "", fmt.Errorf("token_file: %w", err)
	}
	if data, err = textfile.Plain(data); err != nil {
		return "", fmt.Errorf("token_file: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if token == "" {
		return "", errors.New("token_file: it must hold a token, and nothing else")
	}
	return token, nil
}

// makeRemotes makes the operator's connectors. No egress rule applies: their addresses are the
// operator's, and no user's.
func (n *Node) makeRemotes() ([]*remote.Connector, error) {
	var out []*remote.Connector
	for _, r := range n.cfg.remotes {
		sender, err := n.insideSender(r)
		if err != nil {
			return nil, fmt.Errorf("connector %s: %w", r.Name, err)
		}
		c, err := remote.New(remote.Config{Name: r.Name, URL: r.URL, Token: r.token, AllowHTTP: n.cfg.AllowHTTP, Sender: sender})
		if err != nil {
			return nil, fmt.Errorf("connectors: %s: %w", n.cfg.Connectors, err)
		}
		out = append(out, c)
	}
	return out, nil
}

// insideSender makes the sender of one connector. No other connector is shown its certificate.
func (n *Node) insideSender(r Remote) (*transport.Sender, error) {
	secure, err := r.tls().Config(certs.Options{Log: n.cfg.Log})
	if err != nil {
		return nil, err
	}
	sender := transport.NewSender(transport.Config{
		Egress:  transport.NewEgress(netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")),
		Version: n.cfg.Version, RootCAs: secure.RootCAs, ClientCertificate: secure.GetClientCertificate,
	})
	n.inside = append(n.inside, sender)
	return sender, nil
}

// askRemotes keeps reading the descriptions of the connectors, until ctx ends.
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

// classNames returns the names of classes: slog would print a slice of small numbers as a text.
func classNames(classes []job.Class) []string {
	names := make([]string, len(classes))
	for i, class := range classes {
		names[i] = class.String()
	}
	return names
}
