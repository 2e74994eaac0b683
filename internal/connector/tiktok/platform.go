package tiktok

import (
	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/platform"
)

// Platform returns the entry of internal/connector/builtin.
func Platform() platform.Platform {
	return platform.Platform{
		Name: Name, Title: "TikTok", New: build, Address: DefaultBaseURL,
		Settings: []platform.Flag{{
			Name: "source", Usage: "upload, or pull to have TikTok fetch files from their URLs", Field: "source", Default: "upload",
			Label: "Settings", Words: []platform.Word{
				{Text: "upload", Value: connectionsv1.TikTokSettings_SOURCE_FILE_UPLOAD.String(), Shown: platform.ShownNot},
				{Text: "pull", Value: connectionsv1.TikTokSettings_SOURCE_PULL_FROM_URL.String(), Shown: "TikTok fetches files from their URLs"},
			},
		}},
		Post: []platform.Flag{{
			Name: "privacy", Usage: "public-to-everyone, mutual-follow-friends, follower-of-creator or self-only; required there", Placeholder: "AUDIENCE", Field: "privacy",
		}},
		// TikTok calls the client's id its key, and separates scopes by commas.
		OAuth: &platform.OAuth{
			LoginURL: "https://www.tiktok.com/v2/auth/authorize/", ExchangeURL: "https://open.tiktokapis.com/v2/oauth/token/",
			Scopes: []string{"user.info.basic", "video.publish", "video.list"}, Separator: ",", Body: true, ClientIDParam: "client_key",
		},
	}
}

func build(e platform.Env) (connector.Connector, error) {
	return New(Config{
		Sender: e.Sender, Media: e.Media, HTTPSOnly: e.HTTPSOnly, BaseURL: e.BaseURL,
		ReadLag: e.Wait(DefaultReadLag), UploadLife: e.Life(DefaultUploadLife), StepTime: e.Step,
	}), nil
}
