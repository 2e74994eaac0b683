package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/internal/connector/remote"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/certs"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

const (
	// describePause is the pause between two calls to a connector that does not answer.
	describePause = 5 * time.Second
	// maxToken bounds a file with a token, in bytes.
	maxToken = 8 << 10
)

// connectorFiles are the flags that name a file of a connector, beside its token's.
var connectorFiles = []struct {
	flag, usage string
	of          func(*Remote) *string
}{
	{"connector-ca-file", "`NAME=FILE`: the authorities that sign that connector's certificate, in place of the system's", func(r *Remote) *string { return &r.TLS.CA }},
	{"connector-client-cert", "`NAME=FILE`: the certificate that is shown to that connector", func(r *Remote) *string { return &r.TLS.Cert }},
	{"connector-client-key", "`NAME=FILE`: its private key", func(r *Remote) *string { return &r.TLS.Key }},
}

func connectorFileFlags() (out []cli.Flag) {
	for _, f := range connectorFiles {
		out = append(out, &cli.StringSliceFlag{Name: f.flag, Usage: f.usage + "; may be repeated", Sources: cli.EnvVars(variableOf(f.flag))})
	}
	return out
}

// variableOf is the variable of a flag of `serve`.
func variableOf(flag string) string {
	return "FIREONCE_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// withFiles adds what connectorFiles name.
func withFiles(cmd *cli.Command, remotes []Remote) error {
	for _, f := range connectorFiles {
		for _, text := range cmd.StringSlice(f.flag) {
			name, file, ok := strings.Cut(text, "=")
			i := slices.IndexFunc(remotes, func(r Remote) bool { return r.Name == name })
			if !ok || file == "" || i < 0 || *f.of(&remotes[i]) != "" {
				return exit.Usagef("--%s %q: must be NAME=FILE, once for a name that --connector has", f.flag, text)
			}
			*f.of(&remotes[i]) = file
		}
	}
	for _, r := range remotes {
		if r.TLS.Check() != nil {
			return exit.Usagef("--connector-client-cert and --connector-client-key go together; connector %s has one of them", r.Name)
		}
		if !r.TLS.IsZero() && !strings.HasPrefix(r.URL, "https://") {
			return exit.Usagef("--connector %s: a connector with files for TLS has a URL that starts with https://", r.Name)
		}
	}
	return nil
}

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
		out[i].Token, out[i].TokenFile = token, file
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

// makeRemotes makes the operator's connectors. No egress rule applies: their addresses are the
// operator's, and no user's.
func (n *Node) makeRemotes() ([]*remote.Connector, error) {
	var out []*remote.Connector
	for _, r := range n.cfg.Connectors {
		sender, err := n.insideSender(r)
		if err != nil {
			return nil, fmt.Errorf("connector %s: %w", r.Name, err)
		}
		c, err := remote.New(remote.Config{Name: r.Name, URL: r.URL, Token: r.Token, AllowHTTP: n.cfg.AllowHTTP, Sender: sender})
		if err != nil {
			return nil, exit.Usagef("--connector: %w", err)
		}
		out = append(out, c)
	}
	return out, nil
}

// insideSender makes the sender of one connector. No other connector is shown its certificate.
func (n *Node) insideSender(r Remote) (*transport.Sender, error) {
	secure, err := r.TLS.Config(certs.Options{Log: n.cfg.Log})
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
