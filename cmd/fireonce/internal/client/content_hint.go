package client

import (
	"context"
	"slices"
	"strings"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// flagsOfKind are the flags that make each kind of payload, by its field in the contract.
var flagsOfKind = map[string]string{
	"webhook": "--url", "http_request": "--url", "email": "--to", "direct_message": "--recipient", "social_post": "--text or --media",
	"custom": "--payload-file",
}

// hintContent prints which flags a connection takes, after it refused the content of others. It
// prints nothing if it cannot read that.
func (c *call) hintContent(ctx context.Context, err error, p *fireoncev1.Payload) {
	detail, _ := exit.Details(err)
	if detail.GetReason() != fireoncev1.ErrorReason_ERROR_REASON_PAYLOAD_CONNECTION_MISMATCH || !c.cmd.IsSet("connection") {
		return
	}
	id, key := idOrKey(c.cmd.String("connection"))
	conn, err := c.connection(ctx, id, key)
	if err != nil {
		return
	}
	all, err := Ask(ctx, c.Connections.ListConnectors, &connectionsv1.ListConnectorsRequest{})
	if err != nil {
		return
	}
	connector := conn.GetConnector()
	i := slices.IndexFunc(all.GetConnectors(), func(k *connectionsv1.Connector) bool { return k.GetName() == connector })
	sent := kindOf(p)
	if i < 0 || slices.Contains(all.GetConnectors()[i].GetPayloadKinds(), sent) {
		return // options of another platform: the server's error names them
	}
	var flags []string
	for _, kind := range all.GetConnectors()[i].GetPayloadKinds() {
		if text := flagsOfKind[kind]; text != "" {
			flags = append(flags, text)
		}
	}
	c.tell("connection %s is of connector %s, which takes %s",
		plain(c.cmd.String("connection")), plain(connector), strings.Join(flags, ", or "))
}

// kindOf returns the name of the field that a payload has.
func kindOf(p *fireoncev1.Payload) string {
	m := p.ProtoReflect()
	if f := m.WhichOneof(m.Descriptor().Oneofs().ByName("kind")); f != nil {
		return string(f.Name())
	}
	return ""
}
