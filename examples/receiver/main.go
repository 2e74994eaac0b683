// Command receiver is an example of a target: it receives webhooks of Standard
// Webhooks 1.0 and acts on each event once, however often the event arrives.
//
// One transaction is enough for that: it inserts the event's id into a table with
// a unique key, and stores the event's effect. A repeat finds the id, does nothing,
// and is answered 200 too. A Fireonce connection to such a receiver may declare
// that the receiver dedupes.
//
//	receiver --listen 127.0.0.1:9000 --secret whsec_… --db events.db
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		log.Fatal("receiver: ", err)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("receiver", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:9000", "address to listen on")
	secret := flags.String("secret", os.Getenv("WEBHOOK_SECRET"), "signing secret, whsec_…; else from $WEBHOOK_SECRET")
	path := flags.String("db", "receiver.db", "SQLite file")
	if err := flags.Parse(args); err != nil {
		return err
	}
	verify, err := newVerifier(*secret, time.Now)
	if err != nil {
		return err
	}
	events, err := openEvents(ctx, *path)
	if err != nil {
		return err
	}
	defer func() { _ = events.Close() }()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", *listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{
		Handler: &receiver{verify: verify, events: events, out: out}, ReadTimeout: 15 * time.Second, ReadHeaderTimeout: 5 * time.Second,
	}
	_, _ = fmt.Fprintf(out, "listening on http://%s\n", l.Addr())
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	over, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return server.Shutdown(over)
}
