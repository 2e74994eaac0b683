package tiktoktest

import (
	"net/http"
	"regexp"
	"strings"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/connector/platform/fake"
)

// Fake returns the entry of internal/connector/builtin/fakes.
func Fake() fake.Fake {
	return fake.Fake{
		Name: "tiktok", Connector: "tiktok", Title: "TikTok", New: sandboxed,
		About: "Works in two phases: it names the video first, and an unknown outcome is polled by that name.",
		Connection: func(string) (*connectionsv1.Connection, *connectionsv1.Credential) {
			return &connectionsv1.Connection{Connector: "tiktok", Settings: &connectionsv1.Connection_Tiktok{Tiktok: &connectionsv1.TikTokSettings{
				Source: connectionsv1.TikTokSettings_SOURCE_FILE_UPLOAD,
			}}}, fake.Bearer()
		},
	}
}

var uploadID = regexp.MustCompile(`upload_id=([0-9]+)`)

func sandboxed(h fake.Host) fake.Platform {
	p := New(Options{Now: h.Now, Process: h.Work, Moderate: h.Work, UploadLife: h.UploadLife, Plan: func(string) Answer {
		return fake.Of(h.Refuse(), Reply, Unauthorized, RateLimit)
	}})
	return fake.Platform{
		Handler: p, List: p.things, At: p.Uploads,
		Kind: func(method, path string) fake.Kind {
			switch {
			case method == http.MethodPut:
				return fake.Effects
			case path == "/v2/post/publish/video/init/", path == "/v2/post/publish/content/init/":
				return fake.Prepares
			default:
				return fake.Reads
			}
		},
		Tag: func(uri string, answer []byte) string {
			text := uri
			if answer != nil {
				text = strings.ReplaceAll(string(answer), `\u0026`, "&")
			}
			if found := uploadID.FindStringSubmatch(text); found != nil {
				return found[1]
			}
			return ""
		},
	}
}

func (p *Platform) things() (out []fake.Thing) {
	for _, v := range p.All() {
		out = append(out, fake.Thing{ID: v.PublishID, Kind: "video", Text: v.Text, Note: strings.ToLower(strings.ReplaceAll(v.Privacy, "_", " "))})
	}
	return out
}
