package kit

import (
	"bytes"
	"errors"
	"io"
	"mime/multipart"
	"net/textproto"
	"net/url"

	"github.com/fireonce/fireonce/internal/connector/transport"
)

// FormField is a text in a form.
type FormField struct{ Name, Value string }

// FormFile is the file in a form.
type FormFile struct {
	Name, FileName, Type string
	Asset                *Asset
}

// Form returns the request that uploads a file as the last part of a form (RFC 7578). It fails with
// *Refusal.
func Form(u *url.URL, auth Auth, fields []FormField, file FormFile) (transport.Request, error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	var errs []error
	for _, f := range fields {
		errs = append(errs, w.WriteField(f.Name, f.Value))
	}
	_, err := w.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {`form-data; name="` + file.Name + `"; filename="` + file.FileName + `"`},
		"Content-Type":        {file.Type},
	})
	head := b.Len()
	if err := errors.Join(append(errs, err, w.Close())...); err != nil {
		return transport.Request{}, unusable("a media file cannot be encoded", err)
	}
	return transport.Request{
		Method: "POST", URL: u,
		Headers: auth.AcceptJSON(transport.Header{Name: "Content-Type", Value: w.FormDataContentType()}),
		Body:    io.MultiReader(bytes.NewReader(b.Bytes()[:head]), file.Asset.Reader(), bytes.NewReader(b.Bytes()[head:])),
		Length:  int64(b.Len()) + file.Asset.Size,
	}, nil
}
