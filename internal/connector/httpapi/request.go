package httpapi

import (
	"slices"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// maxPointer bounds id_json_pointer, in bytes.
const maxPointer = 1024

// methods are the methods that a request may have, in the contract's order.
var methods = map[fireoncev1.HttpMethod]string{
	fireoncev1.HttpMethod_HTTP_METHOD_UNSPECIFIED: "POST",
	fireoncev1.HttpMethod_HTTP_METHOD_POST:        "POST",
	fireoncev1.HttpMethod_HTTP_METHOD_PUT:         "PUT",
	fireoncev1.HttpMethod_HTTP_METHOD_PATCH:       "PATCH",
	fireoncev1.HttpMethod_HTTP_METHOD_DELETE:      "DELETE",
	fireoncev1.HttpMethod_HTTP_METHOD_GET:         "GET",
}

// request is a checked HTTP request: what every attempt sends alike.
type request struct {
	method  string
	message kit.Message
	// id is where the answer names the object; nil: nowhere.
	id pointer
	// keyHeader carries the key: at every attempt the header of the first.
	keyHeader string
}

func (c *Connector) read(in *fireoncev1.HttpRequest) (request, error) {
	var q request
	var known bool
	if q.method, known = methods[in.GetMethod()]; !known {
		return q, badPayload(".method", "not a method that this connector sends")
	}
	usual := ""
	if len(in.GetBody())+len(in.GetBodyText()) > 0 {
		if usual = kit.UsualContentType; q.method == "GET" {
			return q, badPayload(".content", "a GET has no body (RFC 9110, section 9.3.1)")
		}
	}
	var err error
	if q.message, err = kit.ReadMessage("payload.http_request", in, usual, c.cfg.HTTPSOnly); err != nil {
		return q, err
	}
	if q.id, err = parsePointer(in.GetIdJsonPointer()); err != nil {
		return q, badPayload(".id_json_pointer", err.Error())
	}
	return q, nil
}

var badPayload = kit.Bad(connector.BadPayload, "payload.http_request")

// The frozen encoding: job.Canon with the method, the message's fields, and the
// pointer.
const (
	fieldMethod  = "method"
	fieldKey     = "key_header" // if it is not the usual one
	fieldPointer = "id_json_pointer"
)

func (q request) freeze() []byte {
	c := job.NewCanon().Field(fieldMethod, []byte(q.method))
	if q.keyHeader != usualKeyHeader {
		c = c.Field(fieldKey, []byte(q.keyHeader))
	}
	return q.message.Encode(c).Field(fieldPointer, []byte(q.id.String())).Bytes()
}

// thaw reads a frozen request: the bytes come from a database.
func thaw(frozen []byte) (request, error) {
	var q request
	fields, err := kit.DecodeCanon(frozen)
	if err != nil {
		return q, err
	}
	last := len(fields) - 1
	if last < 1 || fields[0].Name != fieldMethod || fields[last].Name != fieldPointer {
		return q, kit.ErrBadCanon
	}
	q.method = string(fields[0].Value)
	if !slices.Contains([]string{"POST", "PUT", "PATCH", "DELETE", "GET"}, q.method) {
		return q, kit.ErrBadCanon
	}
	first := 1
	if q.keyHeader = usualKeyHeader; fields[first].Name == fieldKey && first < last {
		q.keyHeader, first = string(fields[first].Value), first+1
		if transport.CheckKeyHeader(q.keyHeader) != nil {
			return q, kit.ErrBadCanon
		}
	}
	if q.message, err = kit.DecodeMessage(fields[first:last]); err != nil {
		return q, err
	}
	q.id, err = parsePointer(string(fields[last].Value))
	return q, err
}
