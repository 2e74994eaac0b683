// Package listen implements `fireonce listen`: a receiver for experiments, which prints the
// requests that arrive and fails on demand.
package listen

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/signal"
	"strings"
	"syscall"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/urfave/cli/v3"
	"golang.org/x/net/netutil"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

const (
	// DefaultAddr is the default address of `fireonce listen`.
	DefaultAddr = "127.0.0.1:9000"
	// secretVar may hold signing secrets, one per line, as for `connections create`.
	secretVar = "FIREONCE_WEBHOOK_SECRET"

	// maxConns bounds the open connections.
	maxConns = 100
	// maxHeader bounds the headers of a request, in bytes.
	maxHeader = 64 << 10
	// maxTime bounds the reading of a request, and the writing of its answer.
	maxTime = 15 * time.Second
)

// Command returns the subcommand.
func Command() *cli.Command {
	return &cli.Command{
		Name:  "listen",
		Usage: "receive requests on this machine and print them: a receiver for trying",
		Description: "Prints each request that arrives, and acts once for each webhook-id or Idempotency-Key: a repeat is dropped, says so, and is\n" +
			"answered like the first. It remembers the last 10,000 keys until it ends. With --secret it refuses requests that are\n" +
			"not signed as Standard Webhooks says. A server calls this machine with `--dev` or `--allow-egress 127.0.0.0/8` only.\n\n" +
			"   fireonce listen --lose-answers first\n" +
			"   fireonce listen --addr 127.0.0.1:9001 --fail 30%",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "addr", Usage: "`HOST:PORT` where to listen; port 0: a free one", Value: DefaultAddr},
			&cli.StringSliceFlag{
				Name: "secret", Usage: "`SECRET` a signing secret, whsec_…; may be repeated; put a real one into the variable, because other users can read arguments", Sources: cli.EnvVars(secretVar),
			},
			&cli.StringFlag{Name: "lose-answers", Usage: "`SHARE` act, then close the connection without an answer: of 30% of the requests, or of first, the first with each key"},
			&cli.StringFlag{Name: "fail", Usage: "`SHARE` answer 500 and do not act, to such a share of the requests"},
			&cli.BoolFlag{Name: "json", Usage: "print each request as one line of JSON"},
		},
		Action: run,
	}
}

func run(ctx context.Context, cmd *cli.Command) error {
	rc, err := receiverOf(cmd)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", cmd.String("addr"))
	if err != nil {
		return fmt.Errorf("%w; --addr 127.0.0.1:PORT names another one", err)
	}
	server := &http.Server{
		Handler: rc, MaxHeaderBytes: maxHeader, ReadHeaderTimeout: maxTime, ReadTimeout: maxTime, WriteTimeout: maxTime, IdleTimeout: time.Minute,
	}
	rc.out.begin(l.Addr(), len(rc.secrets) > 0)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(netutil.LimitListener(l, maxConns)) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	stop() // a second signal ends immediately
	over, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxTime)
	defer cancel()
	if err := server.Shutdown(over); err != nil {
		return err
	}
	rc.out.end()
	return nil
}

// receiverOf returns the receiver that the flags describe.
func receiverOf(cmd *cli.Command) (*receiver, error) {
	rc := &receiver{keys: newMemory(maxKeys), out: &printer{w: cmd.Root().Writer, notes: cmd.Root().ErrWriter, json: cmd.Bool("json")}}
	var err error
	if rc.lose, err = shareOf("lose-answers", cmd.String("lose-answers")); err != nil {
		return nil, err
	}
	if rc.fail, err = shareOf("fail", cmd.String("fail")); err != nil {
		return nil, err
	}
	for _, text := range strings.Fields(strings.Join(cmd.StringSlice("secret"), "\n")) {
		secret, err := newSecret(text)
		if err != nil {
			return nil, exit.Usagef("--secret: %w", err)
		}
		rc.secrets = append(rc.secrets, secret)
	}
	return rc, nil
}

// newSecret parses a secret of Standard Webhooks. Its error does not quote the secret.
func newSecret(text string) (*standardwebhooks.Webhook, error) {
	encoded, found := strings.CutPrefix(text, "whsec_")
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if !found || err != nil || len(raw) < 24 || len(raw) > 64 {
		return nil, errors.New("must be whsec_ and base64 of 24 to 64 bytes")
	}
	return standardwebhooks.NewWebhookRaw(raw)
}
