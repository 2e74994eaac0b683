package client

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/duration"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// Rules of this file: people log in in their own browser. Instructions go to standard error, the
// result to standard output. The wait is bounded.

const (
	// loginPoll is how often the command asks the server whether a login has ended.
	loginPoll = time.Second
	// maxRedirect bounds the pasted URL, in bytes.
	maxRedirect = 16 << 10
)

func loginCommand() *cli.Command {
	f := fieldsOf(&connectionsv1.StartOAuthRequest{}, "app:NAME=app").otherwise("called as the connector")
	own := slices.Concat([]cli.Flag{
		textFlag("connection", "`CONNECTION` log in again for this one, in place of a new one; by key or id"),
		&cli.StringFlag{Name: "redirect-url", Usage: "`URL` where the login comes back: one of the app's URLs, which you paste here", DefaultText: "the server's"},
		&duration.Flag{Name: "wait", Usage: "`DURATION` how long to wait for the login", DefaultText: "as long as it is good, 10m"},
	}, f.flags(), newConnectionFlags(byLogin, ""))
	return &cli.Command{
		Name: "login", Usage: "connect an account by OAuth 2, or log in to it again",
		Description: "Prints the URL at which the account's owner allows the access and confirms, on a page of the server, that your project may\n" +
			"use the account; then waits until they have. With --connection the account must be the same; its waiting jobs go on.\n" +
			"Where the server has no callback page, give one of the app's redirect URLs, and paste the whole URL at which the\n" +
			"browser ends.",
		Flags:  flags(own...),
		Action: action(loginConnection),
	}
}

// loginOf is a login under way.
type loginOf struct {
	*call
	req   *connectionsv1.StartOAuthRequest
	begun *connectionsv1.StartOAuthResponse
	// before is the connection of a repeated login; nil: the login makes a new one.
	before *connectionsv1.Connection
	// had is the fingerprint of the earlier credential of the key's connection; existed reports
	// whether there was such a connection.
	had     string
	existed bool
}

func loginConnection(ctx context.Context, c *call) error {
	l := &loginOf{call: c, req: &connectionsv1.StartOAuthRequest{App: c.cmd.String("app"), RedirectUrl: c.cmd.String("redirect-url")}}
	if err := l.target(ctx); err != nil {
		return err
	}
	if err := l.start(ctx); err != nil {
		return err
	}
	end := l.begun.GetExpireTime().AsTime()
	if wait := c.cmd.Duration("wait"); c.cmd.IsSet("wait") {
		end = time.Now().Add(wait)
	}
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	done, err := l.wait(ctx)
	return printAnswer(c, done, err, showConnection)
}

// target sets the connection of the login.
func (l *loginOf) target(ctx context.Context) error {
	name, cmd := l.cmd.String("connection"), l.cmd
	switch {
	case name == "" && cmd.String("connector") == "":
		return exit.Usagef("give --connector for a new connection, or --connection to log in again")
	case cmd.IsSet("wait") && cmd.Duration("wait") <= 0:
		return exit.Usagef("--wait must be more than 0")
	case name == "":
		create, err := newConnection(cmd)
		if err != nil {
			return err
		}
		l.req.Target = &connectionsv1.StartOAuthRequest_Create{Create: create}
		l.req.App = cmp.Or(l.req.GetApp(), create.GetConnection().GetConnector())
		return l.readPresent(ctx)
	}
	for _, f := range newConnectionFlags(byLogin, "") {
		if cmd.IsSet(f.Names()[0]) {
			return exit.Usagef("--%s does not go with --connection", f.Names()[0])
		}
	}
	id, key := idOrKey(name)
	var err error
	if l.before, err = l.connection(ctx, id, key); err != nil {
		return err
	}
	l.req.Target = &connectionsv1.StartOAuthRequest_ConnectionId{ConnectionId: l.before.GetConnectionId()}
	l.req.App = cmp.Or(l.req.GetApp(), l.before.GetConnector())
	return nil
}

// readPresent reads the present credential of the key's connection, if there is one: the login
// replaces it.
func (l *loginOf) readPresent(ctx context.Context) error {
	conn, err := l.connection(ctx, "", l.req.GetCreate().GetIdempotencyKey())
	if exit.Code(err) == exit.NotFound {
		return nil
	}
	l.had, l.existed = conn.GetCredentialFingerprint(), true
	return err
}

// start begins the login, and prints the URL at which it continues.
func (l *loginOf) start(ctx context.Context) error {
	var err error
	if l.begun, err = Ask(ctx, l.Connections.StartOAuth, l.req); err != nil {
		return err
	}
	l.say("Open this URL in a browser, allow the access, and confirm it:\n\n  %s\n\nIt is good once, and until %s.",
		plain(l.begun.GetAuthorizationUrl()), stamp(l.begun.GetExpireTime()))
	return nil
}

func (l *loginOf) say(format string, args ...any) {
	fmt.Fprintf(l.cmd.Root().ErrWriter, format+"\n", args...)
}

var errNoLogin = errors.New("the login did not come back in time; nothing was changed that `fireonce connections list` does not show")

// wait returns the result of the login.
func (l *loginOf) wait(ctx context.Context) (*connectionsv1.CompleteOAuthResponse, error) {
	if l.req.GetRedirectUrl() != "" {
		l.say("Then paste here the whole URL at which the browser ends:")
		return l.pasted(ctx)
	}
	l.say("Waiting for the login to come back to the server.")
	tick := time.NewTicker(loginPoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, errNoLogin
		case <-tick.C:
		}
		conn, err := l.look(ctx)
		switch code := exit.Code(err); {
		case conn != nil:
			return &connectionsv1.CompleteOAuthResponse{Connection: conn, Created: l.before == nil && !l.existed}, nil
		case err != nil && code != exit.Unavailable:
			return nil, err
		}
	}
}

// look reads whether the login has ended: then the connection exists, or has another credential.
func (l *loginOf) look(ctx context.Context) (*connectionsv1.Connection, error) {
	if l.before != nil {
		now, err := l.connection(ctx, l.before.GetConnectionId(), "")
		if err != nil || now.GetCredentialFingerprint() == l.before.GetCredentialFingerprint() {
			return nil, err
		}
		return now, nil
	}
	now, err := l.connection(ctx, "", l.req.GetCreate().GetIdempotencyKey())
	switch {
	case exit.Code(err) == exit.NotFound:
		return nil, nil
	case err != nil || now.GetDeleteTime() != nil || now.GetCredentialFingerprint() == l.had:
		return nil, err
	default:
		return now, nil
	}
}

// pasted reads the URL at which the browser ended, and completes the login with it.
func (l *loginOf) pasted(ctx context.Context) (*connectionsv1.CompleteOAuthResponse, error) {
	text, err := l.line(ctx)
	if err != nil {
		return nil, err
	}
	req, err := l.completion(text)
	if err != nil {
		return nil, err
	}
	done, err := Ask(ctx, l.Connections.CompleteOAuth, req)
	if err != nil && exit.Code(err) == exit.Unavailable && l.before == nil {
		l.say("fireonce: the connection may or may not be stored; log in again with --key %s", l.req.GetCreate().GetIdempotencyKey())
	}
	return done, err
}

// line reads one line of standard input, for as long as ctx allows.
func (l *loginOf) line(ctx context.Context) (string, error) {
	type read struct {
		text string
		err  error
	}
	got := make(chan read, 1)
	go func() { // a read of a terminal cannot be canceled; the program ends soon
		text, err := bufio.NewReader(io.LimitReader(l.cmd.Root().Reader, maxRedirect)).ReadString('\n')
		got <- read{text, err}
	}()
	select {
	case r := <-got:
		if text := strings.TrimSpace(r.text); text != "" {
			return text, nil
		}
		return "", exit.Usagef("nothing was pasted")
	case <-ctx.Done():
		return "", errNoLogin
	}
}

// completion makes a request from the pasted URL, which must be of this login. The server compares
// the URL with the login's redirect URL.
func (l *loginOf) completion(text string) (*connectionsv1.CompleteOAuthRequest, error) {
	at, query, isURL := strings.Cut(text, "?")
	query, _, _ = strings.Cut(query, "#")
	q, err := url.ParseQuery(query)
	switch {
	case !isURL || err != nil:
		return nil, errors.New("this is not the whole URL at which the browser ended: log in again")
	case q.Get("state") != l.begun.GetState():
		return nil, errors.New("this URL is not of this login: log in again")
	case q.Get("error") != "":
		return nil, fmt.Errorf("the login was declined (%s); nothing was changed", short(q.Get("error"), 60))
	case q.Get("code") == "":
		return nil, errors.New("there is no code in this URL: log in again")
	default:
		return &connectionsv1.CompleteOAuthRequest{
			State: l.begun.GetState(), Code: q.Get("code"), RedirectUrl: at, Issuer: q.Get("iss"),
		}, nil
	}
}
