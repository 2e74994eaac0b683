package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file:
//   - a call is one POST of the Connect protocol (unary, binary), never repeated;
//   - an answer is a complete one with status 200 that holds a message of the
//     protocol. Everything else is no answer, whatever its body.

const (
	// readTime bounds a call to the platform behind the service.
	readTime = 15 * time.Second

	contentType = "application/proto"
)

// errNoAnswer means that an answer cannot be read as one.
var errNoAnswer = errors.New("not an answer of the protocol")

// ask makes a read-only call. It fails with *connector.Refusal of kind
// TRANSIENT, or with the error of opening the connection.
func (c *Connector) ask(ctx context.Context, method string, limit time.Duration, in, out proto.Message, hide transport.Secrets) error {
	by := time.Now().Add(limit)
	if end, ok := ctx.Deadline(); ok && end.Before(by) {
		by = end
	}
	call, err := c.call(method, in, time.Until(by))
	if err != nil {
		return &connector.Refusal{Kind: job.FailPermanent, Msg: "the call to " + c.who + " cannot be encoded"}
	}
	conn, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	a := conn.Exchange(call, transport.Bounds{SendBy: by, AnswerBy: by})
	err = parse(a, out)
	if err != nil {
		err = &connector.Refusal{Kind: job.FailTransient, Msg: c.unread(a, method, hide)}
	}
	if limit == c.askFor { // others wait for a platform
		c.heard(a.Complete, !time.Now().Before(by))
	}
	return err
}

// heard remembers whether a question was answered, and else whether the time for it
// was over.
func (c *Connector) heard(answered, late bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case answered:
		c.away = away{}
	case late:
		if c.away.silent++; c.away.silent >= maxSilent {
			c.away.until, c.away.why = time.Now().Add(silentFor), c.who+" does not answer"
		}
	}
}

// open opens a connection for one call, and remembers when that is not possible.
func (c *Connector) open(ctx context.Context) (*transport.Conn, error) {
	conn, err := c.sender.Open(ctx, transport.TargetOf(c.base), true)
	var r *connector.Refusal
	c.mu.Lock()
	defer c.mu.Unlock()
	if errors.As(err, &r) && ctx.Err() == nil {
		c.away.until, c.away.why = time.Now().Add(awayFor), r.Msg
	}
	if r != nil {
		r.Down = false // the service, not the platform
	}
	return conn, err
}

// reach refuses immediately when the service could not be reached a moment ago.
func (c *Connector) reach() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Now().Before(c.away.until) {
		return &connector.Refusal{Kind: job.FailTransient, Msg: c.away.why}
	}
	return nil
}

// call encodes one call. within is how long its caller waits; the call passes it to the service.
func (c *Connector) call(method string, in proto.Message, within time.Duration) (transport.Request, error) {
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(in)
	if err != nil {
		return transport.Request{}, err
	}
	u, err := transport.ParseURL(strings.TrimSuffix(c.base.String(), "/") + service + method)
	if err != nil {
		return transport.Request{}, err
	}
	headers := []transport.Header{
		{Name: "Content-Type", Value: contentType},
		{Name: "Connect-Protocol-Version", Value: "1"},
		{Name: "Connect-Timeout-Ms", Value: strconv.FormatInt(max(within.Milliseconds(), 1), 10)},
	}
	if c.token != "" {
		headers = append(headers, transport.Header{Name: "Authorization", Value: "Bearer " + c.token})
	}
	return transport.Request{
		Method: "POST", URL: u, Headers: headers, Keep: transport.MaxBody,
		Body: bytes.NewReader(body), Length: int64(len(body)),
	}, nil
}

// parse reads the message of an answer.
func parse(a transport.Response, out proto.Message) error {
	kind, _, _ := strings.Cut(a.Header.Get("Content-Type"), ";")
	encoding := a.Header.Get("Content-Encoding")
	switch {
	case !a.Complete, !a.Sent, a.Cut, a.Status != 200, encoding != "" && encoding != "identity",
		!strings.EqualFold(strings.TrimSpace(kind), contentType):
		return errNoAnswer
	}
	if err := proto.Unmarshal(a.Excerpt, out); err != nil {
		return fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	return nil
}

// unread returns why a call has no answer. It quotes nothing of it if hide is nil.
func (c *Connector) unread(a transport.Response, method string, hide transport.Secrets) string {
	code, said := rpcError(a)
	switch {
	case hide == nil && a.Complete && a.Status != 200:
		return fmt.Sprintf("%s answered %s with an error (HTTP status %d)", c.who, method, a.Status)
	case said:
		return transport.Clean(fmt.Sprintf("%s answered %s with the error %s", c.who, method, hide.Quote(code, transport.MaxMessage)), transport.MaxMessage)
	case a.Complete && a.Status == 200:
		return c.who + " answered " + method + " with something that is not a message of the protocol"
	}
	return transport.Unread(a, c.who, hide)
}

// rpcError reads an error of the Connect protocol: its code and its message.
func rpcError(a transport.Response) (string, bool) {
	var body struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	if !a.Complete || a.Status == 200 || json.Unmarshal(a.Excerpt, &body) != nil || body.Code == "" {
		return "", false
	}
	if body.Message == "" {
		return body.Code, true
	}
	return body.Code + ": " + body.Message, true
}
