package kit

import (
	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/internal/job"
)

// mediaFields are the frozen form of a file that a post refers to: these fields, in this order.
var mediaFields = []string{"media_url", "media_sha256", "media_type", "media_alt"}

// EncodeMedia adds references to a frozen encoding.
func EncodeMedia(c *job.Canon, refs []*fireoncev1.MediaRef) *job.Canon {
	for _, ref := range refs {
		values := [][]byte{[]byte(ref.GetUrl()), ref.GetSha256(), []byte(ref.GetMediaType()), []byte(ref.GetAltText())}
		for i, name := range mediaFields {
			c.Field(name, values[i])
		}
	}
	return c
}

// DecodeMedia reads references that EncodeMedia has added, at most as many as given. It fails
// with ErrBadCanon.
func DecodeMedia(fields []CanonField, most int) ([]*fireoncev1.MediaRef, error) {
	n := len(mediaFields)
	if len(fields)%n != 0 || len(fields) > n*most {
		return nil, ErrBadCanon
	}
	var refs []*fireoncev1.MediaRef
	for ; len(fields) > 0; fields = fields[n:] {
		for i, name := range mediaFields {
			if fields[i].Name != name {
				return nil, ErrBadCanon
			}
		}
		refs = append(refs, &fireoncev1.MediaRef{
			Url: string(fields[0].Value), Sha256: fields[1].Value, MediaType: string(fields[2].Value), AltText: string(fields[3].Value),
		})
	}
	return refs, nil
}
