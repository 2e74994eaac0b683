package client

import (
	"net/url"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

func messageFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "recipient", Category: categoryMessage, Usage: "a direct message, with --text, to the person or conversation with this `ID` on the platform"},
	}
}

func messageContent(cmd *cli.Command) (*fireoncev1.Payload, error) {
	text, err := contentText(cmd)
	if err != nil {
		return nil, err
	}
	return &fireoncev1.Payload{Kind: &fireoncev1.Payload_DirectMessage{
		DirectMessage: &fireoncev1.DirectMessage{RecipientId: cmd.String("recipient"), Text: text},
	}}, nil
}

// platformFlags are the options of posts that only one platform has.
var platformFlags = map[string][]string{
	"mastodon": {"visibility", "content-warning", "sensitive"},
	"tiktok":   {"privacy"},
	"x":        {"quote", "who-may-reply"},
	"slack":    {"channel"},
}

func postFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "media", Category: categoryPost, Usage: "a picture or video at this `URL`, which the server or the platform fetches when it sends; may be repeated"},
		&cli.StringSliceFlag{Name: "alt", Category: categoryPost, Usage: "the alternative `TEXT` of --media: the first for the first, and so on"},
		&cli.StringFlag{Name: "reply-to-post", Category: categoryPost, Usage: "reply to the post with this `ID` on the platform; --reply-to is for a post of a job"},
		&cli.StringFlag{Name: "language", Category: categoryPost, Usage: "the text's language, as a `TAG` such as en or pt-BR"},
		&cli.StringFlag{Name: "visibility", Category: categoryPost, Usage: "mastodon: an `AUDIENCE`: public, unlisted, private or direct", DefaultText: "the account's"},
		&cli.StringFlag{Name: "content-warning", Category: categoryPost, Usage: "mastodon: the `TEXT` that is shown until the reader opens the post"},
		&cli.BoolFlag{Name: "sensitive", Category: categoryPost, Usage: "mastodon: hide the media until the reader opens them"},
		&cli.StringFlag{Name: "privacy", Category: categoryPost, Usage: "tiktok: an `AUDIENCE`: public-to-everyone, mutual-follow-friends, follower-of-creator or self-only; required there"},
		&cli.StringFlag{Name: "quote", Category: categoryPost, Usage: "x: quote the post with this `ID`"},
		&cli.StringFlag{Name: "who-may-reply", Category: categoryPost, Usage: "x: an `AUDIENCE`: following, mentioned-users, subscribers or verified", DefaultText: "everybody"},
		&cli.StringFlag{Name: "channel", Category: categoryPost, Usage: "slack: the conversation, by its `ID`", DefaultText: "the connection's"},
	}
}

func postContent(cmd *cli.Command) (*fireoncev1.Payload, error) {
	text, err := contentText(cmd)
	if err != nil {
		return nil, err
	}
	post := &fireoncev1.SocialPost{Text: text, ReplyToId: cmd.String("reply-to-post"), Language: cmd.String("language")}
	if post.ReplyToId != "" && cmd.IsSet("reply-to") {
		return nil, exit.Usagef("give --reply-to, a job, or --reply-to-post, a post of another author; not both")
	}
	alts := cmd.StringSlice("alt")
	for i, at := range cmd.StringSlice("media") {
		ref, err := mediaAt("media", at)
		if err != nil {
			return nil, err
		}
		if i < len(alts) {
			ref.AltText = alts[i]
		}
		post.Media = append(post.Media, ref)
	}
	if len(alts) > len(post.GetMedia()) {
		return nil, exit.Usagef("%d --alt for %d --media", len(alts), len(post.GetMedia()))
	}
	if err := setPlatform(cmd, post); err != nil {
		return nil, err
	}
	return &fireoncev1.Payload{Kind: &fireoncev1.Payload_SocialPost{SocialPost: post}}, nil
}

// setPlatform sets the options that one platform has.
func setPlatform(cmd *cli.Command, post *fireoncev1.SocialPost) error {
	platform, flag := "", ""
	for _, name := range []string{"mastodon", "slack", "tiktok", "x"} {
		i := slices.IndexFunc(platformFlags[name], cmd.IsSet)
		if i < 0 {
			continue
		}
		if platform != "" {
			return exit.Usagef("--%s is for %s, --%s for %s: give those of one platform", flag, platform, platformFlags[name][i], name)
		}
		platform, flag = name, platformFlags[name][i]
	}
	var err error
	switch platform {
	case "mastodon":
		o := &fireoncev1.MastodonOptions{ContentWarning: cmd.String("content-warning"), Sensitive: cmd.Bool("sensitive")}
		if cmd.IsSet("visibility") {
			o.Visibility, err = oneEnum[fireoncev1.MastodonOptions_Visibility]("visibility", cmd.String("visibility"), "VISIBILITY_", fireoncev1.MastodonOptions_Visibility_value)
		}
		post.PlatformOptions = &fireoncev1.SocialPost_Mastodon{Mastodon: o}
	case "tiktok":
		o := &fireoncev1.TikTokOptions{}
		o.Privacy, err = oneEnum[fireoncev1.TikTokOptions_Privacy]("privacy", cmd.String("privacy"), "PRIVACY_", fireoncev1.TikTokOptions_Privacy_value)
		post.PlatformOptions = &fireoncev1.SocialPost_Tiktok{Tiktok: o}
	case "x":
		o := &fireoncev1.XOptions{QuotePostId: cmd.String("quote")}
		if cmd.IsSet("who-may-reply") {
			o.ReplySettings, err = oneEnum[fireoncev1.XOptions_ReplySettings]("who-may-reply", cmd.String("who-may-reply"), "REPLY_SETTINGS_", fireoncev1.XOptions_ReplySettings_value)
		}
		post.PlatformOptions = &fireoncev1.SocialPost_X{X: o}
	case "slack":
		post.PlatformOptions = &fireoncev1.SocialPost_Slack{Slack: &fireoncev1.SlackOptions{Channel: cmd.String("channel")}}
	}
	return err
}

// mediaAt names a file that somebody else serves.
func mediaAt(flag, at string) (*fireoncev1.MediaRef, error) {
	if u, err := url.Parse(at); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, exit.Usagef("--%s %q: must be an http or https URL: files are fetched when the job is sent, and not uploaded before", flag, at)
	}
	return &fireoncev1.MediaRef{Url: strings.TrimSpace(at)}, nil
}
