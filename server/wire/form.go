package wire

import (
	"mime"
	"net/http"
	"strings"
)

// Form is how a message is written in a request.
type Form struct {
	Known        bool // handlers read it
	KnownType    bool // they read it if it is not compressed, or by gzip
	JSON, Framed bool
	Gzip         bool
}

// EncodingHeaders say how a message is compressed, in each of the protocols.
var EncodingHeaders = []string{"Content-Encoding", "Grpc-Encoding", "Connect-Content-Encoding"}

// FormOf reads the form from the headers. Handlers know no form that is not known here.
func FormOf(r *http.Request) Form {
	switch r.Method {
	case http.MethodPost:
		return formOfBody(r.Header)
	case http.MethodGet:
		q := r.URL.Query()
		return withEncoding(Form{JSON: q.Get("encoding") == "json", KnownType: q.Get("encoding") == "json" || q.Get("encoding") == "proto"}, q.Get("compression"))
	default:
		return Form{}
	}
}

func formOfBody(h http.Header) Form {
	kind := h.Get("Content-Type")
	var params map[string]string
	if strings.ContainsAny(kind, "; ") || strings.ToLower(kind) != kind {
		kind, params, _ = mime.ParseMediaType(kind)
	}
	protocol, codec, framed := strings.Cut(strings.TrimPrefix(kind, "application/"), "+")
	encoding := "Content-Encoding"
	switch {
	case !strings.HasPrefix(kind, "application/"):
		return Form{}
	case protocol == "grpc" || protocol == "grpc-web":
		encoding = "Grpc-Encoding"
		if !framed {
			codec, framed = "proto", true
		}
	case protocol == "connect" && framed:
		encoding = "Connect-Content-Encoding"
	case framed:
		return Form{}
	default:
		codec = protocol
	}
	known := codec == "json" && (len(params) == 0 || len(params) == 1 && strings.EqualFold(params["charset"], "utf-8")) ||
		codec == "proto" && len(params) == 0
	return withEncoding(Form{JSON: codec == "json", Framed: framed, KnownType: known}, h.Get(encoding))
}

// withEncoding adds the compression. A message of one that handlers do not know is not
// known either.
func withEncoding(f Form, encoding string) Form {
	f.Gzip = encoding == "gzip"
	f.Known = f.KnownType && (f.Gzip || encoding == "" || encoding == "identity")
	return f
}
