// Command connector-go is an example of a connector of your own. Fireonce calls it,
// and it writes entries into a guest book, which is a file. README.md shows how to run
// it, and docs/connectors.md has the rules.
//
//	connector-go --listen 127.0.0.1:9100 --book guests.jsonl
//	echo '{"connectors": [{"name": "guestbook", "url": "http://127.0.0.1:9100"}]}' >connectors.json
//	fireonce serve --connectors connectors.json
package main

import (
	"context"
	"crypto/subtle"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"connectrpc.com/connect"

	"github.com/fireonce/fireonce/clients/go/connectorv1/connectorv1connect"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		log.Fatal("connector-go: ", err)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("connector-go", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:9100", "address to listen on")
	path := flags.String("book", "guests.jsonl", "the guest book, a file")
	guests := flags.String("guests", "", "only guests with a token from this file may write; one token on each line")
	token := flags.String("token", os.Getenv("CONNECTOR_TOKEN"), "serve only callers with this token; default: $CONNECTOR_TOKEN")
	if err := flags.Parse(args); err != nil {
		return err
	}
	b, err := openBook(*path)
	if err != nil {
		return err
	}
	defer func() { _ = b.close() }()
	g := &guestbook{book: b}
	if *guests != "" {
		text, err := os.ReadFile(*guests)
		if err != nil {
			return err
		}
		g.guests = strings.Fields(string(text))
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", *listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{Handler: g.handler(*token), ReadTimeout: 30 * time.Second, ReadHeaderTimeout: 10 * time.Second}
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

// handler serves callers with the token, or every caller if token is empty.
func (g *guestbook) handler(token string) http.Handler {
	_, served := connectorv1connect.NewConnectorServiceHandler(g, connect.WithReadMaxBytes(4<<20))
	if token == "" {
		return served
	}
	want := []byte("Bearer " + token)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), want) != 1 {
			http.Error(w, "the token is missing or wrong", http.StatusUnauthorized)
			return
		}
		served.ServeHTTP(w, r)
	})
}
