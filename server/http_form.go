package server

import (
	"mime"
	"net/http"
	"strings"
)

// form is how a message is written in a request.
type form struct {
	known        bool
	json, framed bool
	gzip         bool
}

// encodingHeaders say how a message is compressed, in each of the protocols.
var encodingHeaders = []string{"Content-Encoding", "Grpc-Encoding", "Connect-Content-Encoding"}

// formOf reads the form from the headers. Handlers know no form that is not known here.
func formOf(r *http.Request) form {
	switch r.Method {
	case http.MethodPost:
		return formOfBody(r.Header)
	case http.MethodGet:
		q := r.URL.Query()
		return withEncoding(form{json: q.Get("encoding") == "json", known: q.Get("encoding") == "json" || q.Get("encoding") == "proto"}, q.Get("compression"))
	default:
		return form{}
	}
}

func formOfBody(h http.Header) form {
	kind := h.Get("Content-Type")
	if strings.ContainsAny(kind, "; ") || strings.ToLower(kind) != kind {
		kind, _, _ = mime.ParseMediaType(kind)
	}
	protocol, codec, framed := strings.Cut(strings.TrimPrefix(kind, "application/"), "+")
	encoding := "Content-Encoding"
	switch {
	case !strings.HasPrefix(kind, "application/"):
		return form{}
	case protocol == "grpc" || protocol == "grpc-web":
		encoding = "Grpc-Encoding"
		if !framed {
			codec, framed = "proto", true
		}
	case protocol == "connect" && framed:
		encoding = "Connect-Content-Encoding"
	case framed:
		return form{}
	default:
		codec = protocol
	}
	return withEncoding(form{json: codec == "json", framed: framed, known: codec == "json" || codec == "proto"}, h.Get(encoding))
}

// withEncoding adds the compression. A message of one that handlers do not know is not
// known either.
func withEncoding(f form, encoding string) form {
	switch encoding {
	case "", "identity":
	case "gzip":
		f.gzip = true
	default:
		f.known = false
	}
	return f
}
