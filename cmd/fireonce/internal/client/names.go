package client

import (
	"fmt"

	"github.com/google/uuid"
	"github.com/urfave/cli/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// Rules of this file: wherever a command takes the id of a job or a connection, it takes
// the key under which that was created. A UUID is an id; anything else is a key. A key
// that is a UUID itself is given with --key.

// named sets which object a request is about, in its oneof of id and key.
func named[T proto.Message](req T, idField protoreflect.Name, id, key string) T {
	if key != "" {
		set(req, nameField(req.ProtoReflect().Descriptor().Fields().ByName(idField)).Name(), key)
	} else {
		set(req, idField, id)
	}
	return req
}

// set sets a field of a request.
func set(req proto.Message, field protoreflect.Name, value any) {
	m := req.ProtoReflect()
	m.Set(m.Descriptor().Fields().ByName(field), protoreflect.ValueOf(value))
}

// idOrKey returns a name as an id, or as a key.
func idOrKey(text string) (id, key string) {
	if _, err := uuid.Parse(text); err == nil {
		return text, ""
	}
	return "", text
}

// keyOrNew returns the key that a flag names, or a new one.
func keyOrNew(cmd *cli.Command, flag string) (string, error) {
	if key := cmd.String(flag); key != "" {
		return key, nil
	}
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make a key: %w", err)
	}
	return id.String(), nil
}

// argument reads what the one argument or --key names.
func (c *call) argument(what string) (id, key string, err error) {
	key, args := c.cmd.String("key"), c.cmd.Args()
	switch {
	case key != "" && args.Len() == 0:
		return "", key, nil
	case key == "" && args.Len() == 1 && args.First() != "":
		id, key = idOrKey(args.First())
		return id, key, nil
	default:
		return "", "", exit.Usagef("name one %s, by its id or its key", what)
	}
}

// keyFlag names a job, a connection or a schedule by its key instead of its id.
func keyFlag(noun string) cli.Flag {
	return textFlag("key", "`KEY` the "+noun+"'s key; needed only where that is a UUID")
}

// etagFlag names the state of an object that a call is about.
func etagFlag(noun string) cli.Flag {
	return &cli.StringFlag{Name: "etag", Usage: "`ETAG` the " + noun + " as you saw it", DefaultText: "as it is now"}
}

// setName sets the job, connection or schedule that the arguments name.
func (c *call) setName(noun string, req proto.Message) error {
	id, key, err := c.argument(noun)
	if err == nil {
		named(req, protoreflect.Name(noun+"_id"), id, key)
	}
	return err
}
