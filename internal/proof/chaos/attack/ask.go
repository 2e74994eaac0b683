package attack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/fireonce/fireonce/internal/proof/chaos/fleet"
)

const (
	// patience bounds one request of an attacker's.
	patience = 20 * time.Second
	// mostRead is how much of an answer an attacker reads: there is no need to wait for
	// the rest of an amplified one.
	mostRead = 1 << 20
)

// hasty makes a connection for each request; kept connections would spare the servers.
var hasty = &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}

// send sends a request and reads the beginning of its answer.
func send(client *http.Client, req *http.Request) (outcome string) {
	resp, err := client.Do(req)
	if err != nil {
		return failure(err)
	}
	defer resp.Body.Close() //nolint:errcheck // read or given up
	if _, err := io.CopyN(io.Discard, resp.Body, mostRead); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Sprintf("%d, not to the end", resp.StatusCode)
	}
	if status := resp.Trailer.Get("Grpc-Status") + resp.Header.Get("Grpc-Status"); status != "" {
		return "gRPC status " + status
	}
	return fmt.Sprint(resp.StatusCode)
}

// failure names a request without an answer.
func failure(err error) string {
	var timeout interface{ Timeout() bool }
	var operation *net.OpError
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time"
	case errors.As(err, &operation) && operation.Op == "dial":
		return "no connection"
	default:
		return "cut off"
	}
}

// call makes one call of the API with a key. A refusal is an outcome like any other.
func call(ctx context.Context, at Listener, key string, do func(context.Context, *fleet.API) error) (outcome string) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return outcomeOf(do(ctx, fleet.NewAPI(hasty, at.URL, key)))
}

func outcomeOf(err error) string {
	if err != nil {
		return connect.CodeOf(err).String()
	}
	return "ok"
}
