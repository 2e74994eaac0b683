// Package client has the subcommands that call a server. Each is a client like any other: it uses
// Connect, and nothing of the server's internals.
package client

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/urfave/cli/v3"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/fireonce/fireonce/clients/go/adminv1/adminv1connect"
	"github.com/fireonce/fireonce/clients/go/connectionsv1/connectionsv1connect"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1/fireoncev1connect"
	"github.com/fireonce/fireonce/clients/go/schedulesv1/schedulesv1connect"
	"github.com/fireonce/fireonce/clients/go/subscriptionsv1/subscriptionsv1connect"

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
	create := scheduleCommand()
	create.Name, create.Aliases = "create", []string{"schedule"}
	short := jobCommands(scheduleCommand())
	for _, cmd := range short {
		cmd.Hidden = true
	}
	return append([]*cli.Command{
		{
			Name: "jobs", Usage: "create, list, follow, change and decide jobs: one effect each, at one time",
			Description: "Each command has a short form without `jobs`: `fireonce get` is `fireonce jobs get`. That of `fireonce jobs create`\n" +
				"is `fireonce schedule`.",
			Commands: jobCommands(create),
		},
		incidentsCommand(), schedulesCommand(), subscriptionsCommand(), pauseCommand(), resumeCommand(), pausesCommand(), runDueCommand(), serversCommand(), healthCommand(),
		connectionsCommand(), connectorsCommand(), keyLoginCommand(), logoutCommand(), profilesCommand(),
	}, short...)
}

// jobCommands are the commands on jobs, behind the one that makes them.
func jobCommands(create *cli.Command) []*cli.Command {
	return []*cli.Command{
		create, batchCommand(), getCommand(), listCommand(), watchCommand(), updateCommand(), rescheduleCommand(), runNowCommand(),
		cancelCommand(), deleteCommand(), retryCommand(), resolveCommand(), bulkCommand(), countCommand(), statsCommand(),
	}
}

// API is a server's services.
type API struct {
	// Server is its URL.
	Server        string
	Jobs          fireoncev1connect.JobServiceClient
	Connections   connectionsv1connect.ConnectionServiceClient
	Schedules     schedulesv1connect.ScheduleServiceClient
	Subscriptions subscriptionsv1connect.SubscriptionServiceClient
	Bulk          adminv1connect.BulkServiceClient
	Stats         adminv1connect.StatsServiceClient
	Incidents     adminv1connect.IncidentServiceClient
	Access        adminv1connect.AccessServiceClient
	Servers       adminv1connect.ServerServiceClient
	Pauses        adminv1connect.PauseServiceClient
	Health        *connect.Client[grpc_health_v1.HealthCheckRequest, grpc_health_v1.HealthCheckResponse]
	http          *http.Client
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
		Server:        server,
		http:          hc,
		Jobs:          fireoncev1connect.NewJobServiceClient(hc, u.String(), limit),
		Connections:   connectionsv1connect.NewConnectionServiceClient(hc, u.String(), limit),
		Schedules:     schedulesv1connect.NewScheduleServiceClient(hc, u.String(), limit),
		Subscriptions: subscriptionsv1connect.NewSubscriptionServiceClient(hc, u.String(), limit),
		Bulk:          adminv1connect.NewBulkServiceClient(hc, u.String(), limit),
		Stats:         adminv1connect.NewStatsServiceClient(hc, u.String(), limit),
		Incidents:     adminv1connect.NewIncidentServiceClient(hc, u.String(), limit),
		Access:        adminv1connect.NewAccessServiceClient(hc, u.String(), limit),
		Servers:       adminv1connect.NewServerServiceClient(hc, u.String(), limit),
		Pauses:        adminv1connect.NewPauseServiceClient(hc, u.String(), limit),
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

// service returns the client of a service.
func service[S any](a *API) S {
	for _, one := range []any{a.Jobs, a.Connections, a.Schedules, a.Subscriptions, a.Bulk, a.Stats, a.Incidents, a.Access, a.Servers, a.Pauses} {
		if s, ok := one.(S); ok {
			return s
		}
	}
	panic("no client of that service")
}

// newOf returns an empty message.
func newOf[Q message]() Q {
	var none Q
	return none.ProtoReflect().New().Interface().(Q)
}

// asks makes a command that runs with a request, which flags fill, and with a noun the argument: it names
// a job, a connection or a schedule.
func asks[Q message](noun string, f fields, cmd *cli.Command, run func(context.Context, *call, Q) error) *cli.Command {
	own := append(f.flags(), cmd.Flags...)
	lacks := func(name string) bool {
		return noun != "" && !slices.ContainsFunc(own, func(f cli.Flag) bool { return f.Names()[0] == name })
	}
	if lacks("key") {
		own = append(own, keyFlag(noun))
	}
	if lacks("etag") && f.of.Fields().ByName("etag") != nil {
		own = append(own, etagFlag(noun))
	}
	if noun != "" {
		cmd.ArgsUsage = cmp.Or(cmd.ArgsUsage, strings.ToUpper(noun))
	}
	cmd.Flags = flags(own...)
	cmd.Action = action(func(ctx context.Context, c *call) error {
		req := newOf[Q]()
		if err := f.set(c.cmd, req); err != nil {
			return err
		}
		if noun != "" {
			if err := c.setName(noun, req); err != nil {
				return err
			}
		}
		if etag := c.cmd.String("etag"); etag != "" {
			set(req, "etag", etag)
		}
		return run(ctx, c, req)
	})
	return cmd
}

// on makes a command that is one call. Words are the fields that flags set.
func on[S any, Q, R message](
	noun, words string, method func(S, context.Context, Q) (R, error), show func(*call, R), cmd *cli.Command,
) *cli.Command {
	return asks(noun, fieldsOf(newOf[Q](), words), cmd, func(ctx context.Context, c *call, req Q) error {
		return callAndPrint(ctx, c, bound(c, method), req, show)
	})
}

// bound returns a method of the server that a command calls.
func bound[S, Q, R any](c *call, method func(S, context.Context, Q) (R, error)) func(context.Context, Q) (R, error) {
	return func(ctx context.Context, req Q) (R, error) { return method(service[S](c.API), ctx, req) }
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
	req := &fireoncev1.GetJobRequest{OmitPayload: omitPayload}
	if err := c.setName("job", req); err != nil {
		return nil, err
	}
	return Ask(ctx, c.Jobs.GetJob, req)
}
