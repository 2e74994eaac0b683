package kit

import (
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
)

// mediaFields are the frozen form of a file that a post refers to: these fields, in this order.
func mediaFields(ref *fireoncev1.MediaRef) []FrozenField {
	return []FrozenField{
		{"media_url", &ref.Url}, {"media_sha256", &ref.Sha256}, {"media_type", &ref.MediaType}, {"media_alt", &ref.AltText},
	}
}

// EncodeMedia adds references to a frozen encoding.
func EncodeMedia(c *job.Canon, refs []*fireoncev1.MediaRef) *job.Canon {
	for _, ref := range refs {
		Freeze(c, mediaFields(ref)...)
	}
	return c
}

// DecodeMedia reads references that EncodeMedia has added, at most as many as given. It fails
// with ErrBadCanon.
func DecodeMedia(fields []CanonField, most int) (refs []*fireoncev1.MediaRef, err error) {
	for len(fields) > 0 {
		ref := &fireoncev1.MediaRef{}
		if fields, err = thawFields(fields, mediaFields(ref)...); err != nil || len(refs) == most {
			return nil, ErrBadCanon
		}
		refs = append(refs, ref)
	}
	return refs, nil
}
