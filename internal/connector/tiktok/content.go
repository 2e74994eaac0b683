package tiktok

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// Limits of the API (Content Posting API reference, Direct Post and Photo Post).
const (
	// MaxTitle bounds a video's text, MaxDescription a photo post's, in UTF-16 code
	// units.
	MaxTitle       = 2200
	MaxDescription = 4000
	// MaxPhotos bounds the photos of one post.
	MaxPhotos = 35
)

// The words of the API.
const (
	sourceUpload = "FILE_UPLOAD"
	sourcePull   = "PULL_FROM_URL"
)

var privacies = map[fireoncev1.TikTokOptions_Privacy]string{
	fireoncev1.TikTokOptions_PRIVACY_PUBLIC_TO_EVERYONE:    "PUBLIC_TO_EVERYONE",
	fireoncev1.TikTokOptions_PRIVACY_MUTUAL_FOLLOW_FRIENDS: "MUTUAL_FOLLOW_FRIENDS",
	fireoncev1.TikTokOptions_PRIVACY_FOLLOWER_OF_CREATOR:   "FOLLOWER_OF_CREATOR",
	fireoncev1.TikTokOptions_PRIVACY_SELF_ONLY:             "SELF_ONLY",
}

// selfOnly is the privacy of a post that only its account sees.
const selfOnly = "SELF_ONLY"

// videoTypes are the media types of the videos that TikTok takes (Media Transfer
// Guide), photoTypes those of photos.
var (
	videoTypes = []string{"video/mp4", "video/quicktime", "video/webm"}
	photoTypes = []string{"image/jpeg", "image/webp"}
)

// media is one file of a post.
type media struct {
	URL    string `json:"url"`
	SHA256 []byte `json:"sha256,omitempty"`
	Type   string `json:"type,omitempty"`
}

func (m media) ref() *fireoncev1.MediaRef {
	return &fireoncev1.MediaRef{Url: m.URL, Sha256: m.SHA256, MediaType: m.Type}
}

// content is a post: what every attempt sends alike. Its JSON is what is frozen.
type content struct {
	Source  string  `json:"source"`
	Photo   bool    `json:"photo,omitempty"`
	Text    string  `json:"text"`
	Privacy string  `json:"privacy"`
	Media   []media `json:"media"`
	// NoComment, NoDuet and NoStitch switch off what others may do with it.
	NoComment bool `json:"no_comment,omitempty"`
	NoDuet    bool `json:"no_duet,omitempty"`
	NoStitch  bool `json:"no_stitch,omitempty"`
	// Branded and OwnBrand disclose advertising.
	Branded  bool  `json:"branded,omitempty"`
	OwnBrand bool  `json:"own_brand,omitempty"`
	Cover    int32 `json:"cover,omitempty"` // milliseconds
}

// fetched reports whether Open reads the file: to upload it, or because a digest of
// what TikTok is to fetch is known.
func (c content) fetched() bool {
	return c.Source == sourceUpload || slices.ContainsFunc(c.Media, func(m media) bool { return len(m.SHA256) > 0 })
}

// plain reports whether a file has an http URL.
func (c content) plain() bool {
	return slices.ContainsFunc(c.Media, func(m media) bool { return strings.HasPrefix(strings.ToLower(m.URL), "http:") })
}

// read checks a post against what TikTok takes.
func read(p *fireoncev1.SocialPost, source connectionsv1.TikTokSettings_Source) (content, error) {
	c := content{Source: sourceUpload, Text: p.GetText()}
	if source == connectionsv1.TikTokSettings_SOURCE_PULL_FROM_URL {
		c.Source = sourcePull
	}
	o := p.GetTiktok()
	switch {
	case p.GetPlatformOptions() != nil && o == nil:
		return c, kit.OtherOptions("TikTok")
	case p.GetReplyToId() != "":
		return c, badPayload(".reply_to_id", "a post on TikTok cannot reply to another one")
	case privacies[o.GetPrivacy()] == "":
		return c, badPayload(".tiktok.privacy", "TikTok requires privacy: who may see the post")
	}
	c.Privacy = privacies[o.GetPrivacy()]
	c.NoComment, c.NoDuet, c.NoStitch = o.GetDisableComment(), o.GetDisableDuet(), o.GetDisableStitch()
	c.Branded, c.OwnBrand, c.Cover = o.GetBrandedContent(), o.GetOwnBrand(), o.GetCoverTimestampMs()
	if err := c.readMedia(p.GetMedia()); err != nil {
		return c, err
	}
	return c, c.check()
}

// readMedia distinguishes a video from photos by the media types in the payload.
func (c *content) readMedia(refs []*fireoncev1.MediaRef) error {
	if len(refs) == 0 {
		return badPayload(".media", "TikTok takes no text alone: one video, or photos")
	}
	photos := 0
	for i, ref := range refs {
		field := fmt.Sprintf(".media[%d]", i)
		if _, err := transport.ParseURL(ref.GetUrl()); err != nil {
			return badPayload(field+".url", err.Error())
		}
		kind, _, _ := strings.Cut(strings.ToLower(ref.GetMediaType()), ";")
		kind = strings.TrimSpace(kind)
		switch {
		case strings.HasPrefix(kind, "image/"):
			if !slices.Contains(photoTypes, kind) {
				return badPayload(field+".media_type", "TikTok takes photos as image/jpeg or image/webp")
			}
			photos++
		case kind != "" && !slices.Contains(videoTypes, kind):
			return badPayload(field+".media_type", "TikTok takes videos as video/mp4, video/quicktime or video/webm")
		}
		c.Media = append(c.Media, media{URL: ref.GetUrl(), SHA256: ref.GetSha256(), Type: kind})
	}
	c.Photo = photos > 0
	switch {
	case photos > 0 && photos < len(refs), photos == 0 && len(refs) > 1:
		return badPayload(".media", "TikTok takes one video, or photos whose media_type says so; not both, and not several videos")
	case photos > MaxPhotos:
		return badPayload(".media", "TikTok takes at most 35 photos")
	case c.Photo && c.Source == sourceUpload:
		return badPayload(".media", "TikTok fetches photos itself: they need a connection whose source is PULL_FROM_URL")
	}
	return nil
}

// check holds what belongs together against the platform's rules.
func (c content) check() error {
	most, units := MaxTitle, len(utf16.Encode([]rune(c.Text)))
	if c.Photo {
		most = MaxDescription
	}
	switch {
	case !utf8.ValidString(c.Text) || units > most:
		return badPayload(".text", fmt.Sprintf("TikTok takes at most %d characters (in UTF-16)", most))
	case c.Branded && c.Privacy == selfOnly:
		return badPayload(".tiktok.branded_content", "branded content cannot be for the account's owner only")
	case c.Photo && (c.NoDuet || c.NoStitch):
		return badPayload(".tiktok", "photos know neither duets nor stitches")
	case c.Photo && c.Cover != 0:
		return badPayload(".tiktok.cover_timestamp_ms", "photos have no cover frame")
	}
	return nil
}

var badPayload = kit.Bad(connector.BadPayload, "payload.social_post")

// fieldPost is the one field of the frozen encoding, which is job.Canon.
const fieldPost = "post"

func (c content) freeze() []byte {
	text, err := json.Marshal(c) // a struct of texts and numbers: it cannot fail
	if err != nil {
		return nil
	}
	return job.NewCanon().Field(fieldPost, text).Bytes()
}

// thaw reads a frozen post: the bytes come from a database.
func thaw(frozen []byte) (content, error) {
	var c content
	var text []byte
	if kit.ThawAll(frozen, kit.FrozenField{Name: fieldPost, At: &text}) != nil || json.Unmarshal(text, &c) != nil {
		return content{}, kit.ErrBadCanon
	}
	known := c.Source == sourceUpload || c.Source == sourcePull
	if !known || len(c.Media) == 0 || c.Privacy == "" || c.check() != nil || c.Source == sourceUpload && (c.Photo || len(c.Media) != 1) {
		return content{}, kit.ErrBadCanon
	}
	return c, nil
}

// The bodies of the requests that begin a post.
type (
	postInfo struct {
		Title       string `json:"title,omitempty"`
		Description string `json:"description,omitempty"`
		Privacy     string `json:"privacy_level"`
		NoComment   bool   `json:"disable_comment"`
		NoDuet      bool   `json:"disable_duet,omitempty"`
		NoStitch    bool   `json:"disable_stitch,omitempty"`
		Branded     bool   `json:"brand_content_toggle"`
		OwnBrand    bool   `json:"brand_organic_toggle"`
		Cover       int32  `json:"video_cover_timestamp_ms,omitempty"`
	}
	sourceInfo struct {
		Source string `json:"source"`
		// Of an upload.
		Size   int64 `json:"video_size,omitempty"`
		Chunk  int64 `json:"chunk_size,omitempty"`
		Chunks int64 `json:"total_chunk_count,omitempty"`
		// Of what TikTok fetches.
		Video  string   `json:"video_url,omitempty"`
		Cover  *int     `json:"photo_cover_index,omitempty"`
		Photos []string `json:"photo_images,omitempty"`
	}
	initBody struct {
		MediaType string     `json:"media_type,omitempty"`
		Mode      string     `json:"post_mode,omitempty"`
		Post      postInfo   `json:"post_info"`
		Source    sourceInfo `json:"source_info"`
	}
)

// begin returns the path and the body of the request that begins the post. plan cuts
// the file of an upload.
func (c content) begin(plan chunks) (path string, in initBody) {
	in = initBody{
		Post: postInfo{
			Privacy: c.Privacy, NoComment: c.NoComment, NoDuet: c.NoDuet, NoStitch: c.NoStitch,
			Branded: c.Branded, OwnBrand: c.OwnBrand, Cover: c.Cover,
		},
		Source: sourceInfo{Source: c.Source},
	}
	switch {
	case c.Photo:
		path, in.MediaType, in.Mode = pathPhotos, "PHOTO", "DIRECT_POST"
		in.Post.Description, in.Source.Cover = c.Text, new(int)
		for _, m := range c.Media {
			in.Source.Photos = append(in.Source.Photos, m.URL)
		}
	case c.Source == sourcePull:
		path, in.Post.Title, in.Source.Video = pathVideo, c.Text, c.Media[0].URL
	default:
		path, in.Post.Title = pathVideo, c.Text
		in.Source.Size, in.Source.Chunk, in.Source.Chunks = plan.size, plan.chunk, plan.count
	}
	return path, in
}
