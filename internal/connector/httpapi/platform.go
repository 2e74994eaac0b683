package httpapi

import (
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/platform"
)

// Platform returns the entry of internal/connector/builtin.
func Platform() platform.Platform {
	return platform.Platform{
		Name: Name, Title: "HTTP",
		New: func(e platform.Env) (connector.Connector, error) {
			return New(Config{Sender: e.Sender, HTTPSOnly: e.HTTPSOnly}), nil
		},
		Settings: append(platform.ReceiverFlags(),
			platform.Flag{
				Name: "key-header", Usage: "with --receiver-dedupes yes: the header in which it expects the key, such as X-Idempotency-Key", Field: "key_header",
				With: "receiver-dedupes", WithValue: "yes", Label: "Key header", DefaultText: "Idempotency-Key",
			},
			platform.Flag{Name: "path", Usage: "a path that jobs may address, with a slash at its end for what is below it; may be repeated; default any", Field: "paths"},
			platform.Flag{Name: "method", Usage: "a method that jobs may use: POST, PUT, PATCH, DELETE or GET; may be repeated; default any", Field: "methods"},
			platform.Flag{
				Name: "id-json-pointer", Usage: "a JSON Pointer at which jobs may find an id in an answer, such as /id; may be repeated; default none",
				Field: "id_json_pointers",
			},
		),
	}
}
