// Package client has the subcommands that call a server. Each is a client like any other: it uses
// Connect, and nothing of the server's internals.
package client

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/urfave/cli/v3"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/adminv1/adminv1connect"
	"github.com/fireonce/fireonce/clients/go/connectionsv1/connectionsv1connect"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1/fireoncev1connect"
	"github.com/fireonce/fireonce/clients/go/schedulesv1/schedulesv1connect"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/certs"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

const (
	// DefaultServer is where `serve` listens by default.
	DefaultServer = "http://127.0.0.1:8080"
	// callTimeout bounds one call that is no stream.
	callTimeout = 30 * time.Second
	// maxMessage bounds an answer.
	maxMessage = 32 << 20
)

// Commands returns the subcommands.
func Commands() []*cli.Command {
	return []*cli.Command{
		scheduleCommand(), batchCommand(), getCommand(), listCommand(), watchCommand(),
		updateCommand(), rescheduleCommand(), runNowCommand(), runDueCommand(), cancelCommand(), deleteCommand(), retryCommand(), resolveCommand(),
		bulkCommand(), countCommand(), statsCommand(), serversCommand(), pauseCommand(), resumeCommand(), pausesCommand(), healthCommand(), schedulesCommand(),
		connectionsCommand(), connectorsCommand(), keyLoginCommand(), logoutCommand(), profilesCommand(),
	}
}

// API is a server's services.
type API struct {
	// Server is its URL.
	Server      string
	Jobs        fireoncev1connect.JobServiceClient
	Connections connectionsv1connect.ConnectionServiceClient
	Schedules   schedulesv1connect.ScheduleServiceClient
	Bulk        adminv1connect.BulkServiceClient
	Stats       adminv1connect.StatsServiceClient
	Access      adminv1connect.AccessServiceClient
	Servers     adminv1connect.ServerServiceClient
	Pauses      adminv1connect.PauseServiceClient
	Health      *connect.Client[grpc_health_v1.HealthCheckRequest, grpc_health_v1.HealthCheckResponse]
}

// Dial makes clients for a server; nothing is sent yet. An empty key sends none.
func Dial(server, key string) (*API, error) { return DialTLS(server, key, certs.Client{}) }

// DialTLS is Dial with files of authorities for the server's certificate, and of the client's own
// certificate. They are read now.
func DialTLS(server, key string, files certs.Client) (*API, error) {
	u, err := url.Parse(server)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, exit.Usagef("the server must be given as http://HOST:PORT or https://HOST[:PORT], not %q", server)
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, exit.Usagef("the API key, of FIREONCE_API_KEY or the profile, has a space, a line break or another character that is in no key")
	}
	if !files.IsZero() && u.Scheme != "https" {
		return nil, exit.Usagef("--ca-file, --client-cert and --client-key go with a server at https://, not %q", server)
	}
	secure, err := files.Config(certs.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, exit.AsUsage(err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = secure
	hc := &http.Client{
		Transport: &keyed{next: transport, key: key},
		// A key must not follow a redirect to another place.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	limit := connect.WithReadMaxBytes(maxMessage)
	return &API{
		Server:      server,
		Jobs:        fireoncev1connect.NewJobServiceClient(hc, u.String(), limit),
		Connections: connectionsv1connect.NewConnectionServiceClient(hc, u.String(), limit),
		Schedules:   schedulesv1connect.NewScheduleServiceClient(hc, u.String(), limit),
		Bulk:        adminv1connect.NewBulkServiceClient(hc, u.String(), limit),
		Stats:       adminv1connect.NewStatsServiceClient(hc, u.String(), limit),
		Access:      adminv1connect.NewAccessServiceClient(hc, u.String(), limit),
		Servers:     adminv1connect.NewServerServiceClient(hc, u.String(), limit),
		Pauses:      adminv1connect.NewPauseServiceClient(hc, u.String(), limit),
		Health: connect.NewClient[grpc_health_v1.HealthCheckRequest, grpc_health_v1.HealthCheckResponse](
			hc, strings.TrimSuffix(u.String(), "/")+healthPath, limit),
	}, nil
}

// InTheClear reports whether what is sent to a server can be read on the network.
func InTheClear(server string) bool {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" {
		return false
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return !strings.EqualFold(u.Hostname(), "localhost") && (err != nil || !addr.Unmap().IsLoopback())
}

// keyed adds the API key to each request.
type keyed struct {
	next http.RoundTripper
	key  string
}

// RoundTrip implements http.RoundTripper.
func (k *keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	if k.key != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+k.key)
	}
	return k.next.RoundTrip(r)
}

// call is one run of a subcommand.
type call struct {
	*API
	cmd *cli.Command
	out *printer
}

// action makes a subcommand's action from a function.
func action(run func(ctx context.Context, c *call) error) cli.ActionFunc {
	return func(ctx context.Context, cmd *cli.Command) error {
		if err := utf8Only(cmd); err != nil {
			return err
		}
		out, err := printerFor(cmd)
		if err != nil {
			return err
		}
		api, err := DialFor(cmd)
		if err != nil {
			return err
		}
		c := &call{API: api, cmd: cmd, out: out}
		return run(ctx, c)
	}
}

// tell writes a line to standard error, beside the result.
func (c *call) tell(format string, args ...any) {
	c.out.progress.Clear()
	tell(c.cmd, format, args...)
}

func tell(cmd *cli.Command, format string, args ...any) {
	fmt.Fprintf(cmd.Root().ErrWriter, "fireonce: "+format+"\n", args...)
}

// unary bounds a call that is no stream.
func unary(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, callTimeout)
}

// Ask makes a call that is no stream.
func Ask[Q, R any](ctx context.Context, method func(context.Context, Q) (R, error), req Q) (R, error) {
	ctx, cancel := unary(ctx)
	defer cancel()
	return method(ctx, req)
}

// callAndPrint makes a call that is no stream, and prints its answer: as JSON, or as show does.
func callAndPrint[Q any, R message](
	ctx context.Context, c *call, method func(context.Context, Q) (R, error), req Q, show func(*call, R),
) error {
	resp, err := Ask(ctx, method, req)
	return printAnswer(c, resp, err, show)
}

// printAnswer prints an answer.
func printAnswer[R message](c *call, resp R, err error, show func(*call, R)) error {
	if err != nil {
		return err
	}
	if c.out.json {
		return c.out.message(resp)
	}
	show(c, resp)
	return nil
}

// callOn makes a call about the job, connection or schedule that the arguments name, with what flags
// say, and prints its answer.
func callOn[Q proto.Message, R message](
	ctx context.Context, c *call, noun string, method func(context.Context, Q) (R, error), req Q, show func(*call, R),
) error {
	if err := setFromFlags(c.cmd, req); err != nil {
		return err
	}
	req, err := withName(c, noun, req)
	if err != nil {
		return err
	}
	return callAndPrint(ctx, c, method, req, show)
}

// flags appends the flags of every client command to a command's own.
func flags(own ...cli.Flag) []cli.Flag {
	return append(own, CommonFlags()...)
}

// CommonFlags are the flags of every client command. They may stand before the command, too.
func CommonFlags() []cli.Flag {
	return inCategory("Server and output", append(ServerFlags(), OutputFlags()...)...)
}

// job reads the job that the arguments name.
func (c *call) job(ctx context.Context, omitPayload bool) (*fireoncev1.GetJobResponse, error) {
	req, err := withName(c, "job", &fireoncev1.GetJobRequest{OmitPayload: omitPayload})
	if err != nil {
		return nil, err
	}
	return Ask(ctx, c.Jobs.GetJob, req)
}
