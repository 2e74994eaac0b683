package client

import (
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
	setName(req, idField, "idempotency_key", id, key)
	return req
}

// setName sets a oneof of id and key.
func setName(req proto.Message, idField, keyField protoreflect.Name, id, key string) {
	m := req.ProtoReflect()
	field, value := idField, id
	if key != "" {
		field, value = keyField, key
	}
	m.Set(m.Descriptor().Fields().ByName(field), protoreflect.ValueOfString(value))
}

// setConnection names the connection that a request belongs to, by its id or its key.
func setConnection(req proto.Message, text string) {
	id, key := idOrKey(text)
	setName(req, "connection_id", "connection_key", id, key)
}

// idOrKey returns a name as an id, or as a key.
func idOrKey(text string) (id, key string) {
	if _, err := uuid.Parse(text); err == nil {
		return text, ""
	}
	return "", text
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

// connectionKeyFlag names a connection by its key instead of its id.
func connectionKeyFlag() cli.Flag {
	return &cli.StringFlag{Name: "key", Usage: "the `KEY` under which the connection was created; needed only where that is a UUID"}
}

// keyFlag names a job by its key instead of its id.
func keyFlag() cli.Flag {
	return &cli.StringFlag{Name: "key", Usage: "the job's idempotency `KEY`; needed only where that is a UUID"}
}

// ofJob sets the job that the arguments name.
func ofJob[T proto.Message](c *call, req T) (T, error) {
	id, key, err := c.argument("job")
	if err != nil {
		return req, err
	}
	return named(req, "job_id", id, key), nil
}

// ofConnection sets the connection that the arguments name.
func ofConnection[T proto.Message](c *call, req T) (T, error) {
	id, key, err := c.argument("connection")
	if err != nil {
		return req, err
	}
	return named(req, "connection_id", id, key), nil
}

// idsAndKeys separates the names of a list.
func idsAndKeys(texts []string) (ids, keys []string) {
	for _, text := range texts {
		if id, key := idOrKey(text); key != "" {
			keys = append(keys, key)
		} else {
			ids = append(ids, id)
		}
	}
	return ids, keys
}
