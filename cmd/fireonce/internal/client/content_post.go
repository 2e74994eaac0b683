package client

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v3"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector/builtin"
	"github.com/fireonce/fireonce/internal/connector/platform"
	"github.com/fireonce/fireonce/internal/weburl"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

var messageFields = fieldsOf(&fireoncev1.DirectMessage{}, "recipient:ID=recipient_id")

func messageContent(cmd *cli.Command) (*fireoncev1.Payload, error) {
	m := &fireoncev1.DirectMessage{}
	err := messageFields.set(cmd, m)
	if err == nil {
		m.Text, err = contentText(cmd)
	}
	return &fireoncev1.Payload{Kind: &fireoncev1.Payload_DirectMessage{DirectMessage: m}}, err
}

// postOptions is the oneof of a post's options on one platform. Each member has its platform's
// name.
var postOptions = (*fireoncev1.SocialPost)(nil).ProtoReflect().Descriptor().Oneofs().ByName("platform_options")

var postFields = fieldsOf(&fireoncev1.SocialPost{}, "media:URL=media reply-to-post:ID=reply_to_id language:TAG=language")

func postFlags() []cli.Flag {
	return append(append(postFields.flags(), textsFlag("alt", "`TEXT` what replaces --media where it is not seen: the first for the first, and so on")), declaredFlags(anyPlatform, func(p platform.Platform) ([]platform.Flag, protoreflect.MessageDescriptor) {
		return p.Post, memberOf(postOptions, p.Name)
	})...)
}

func postContent(cmd *cli.Command) (*fireoncev1.Payload, error) {
	text, err := contentText(cmd)
	if err != nil {
		return nil, err
	}
	post := &fireoncev1.SocialPost{Text: text}
	if err := postFields.set(cmd, post); err != nil {
		return nil, err
	}
	if post.ReplyToId != "" && cmd.IsSet("reply-to") {
		return nil, exit.Usagef("give --reply-to, a job, or --reply-to-post, a post of another author; not both")
	}
	alts := cmd.StringSlice("alt")
	if len(alts) > len(post.GetMedia()) {
		return nil, exit.Usagef("%d --alt for %d --media", len(alts), len(post.GetMedia()))
	}
	for i, alt := range alts {
		post.Media[i].AltText = alt
	}
	if err := setPlatform(cmd, post); err != nil {
		return nil, err
	}
	return &fireoncev1.Payload{Kind: &fireoncev1.Payload_SocialPost{SocialPost: post}}, nil
}

// setPlatform sets the options of the one platform whose flags are given.
func setPlatform(cmd *cli.Command, post *fireoncev1.SocialPost) error {
	var given *platform.Platform
	flag := ""
	for _, p := range builtin.Platforms {
		i := slices.IndexFunc(p.Post, func(f platform.Flag) bool { return cmd.IsSet(f.Name) })
		if i < 0 {
			continue
		}
		if given != nil {
			return exit.Usagef("--%s is for %s, --%s for %s: give those of one platform", flag, given.Name, p.Post[i].Name, p.Name)
		}
		given, flag = &p, p.Post[i].Name
	}
	if given == nil {
		return nil
	}
	field := postOptions.Fields().ByName(protoreflect.Name(given.Name))
	return setFields(cmd, *given, given.Post, post.ProtoReflect().Mutable(field).Message())
}

// mediaAt returns a reference to a file at a URL.
func mediaAt(flag, at string) (*fireoncev1.MediaRef, error) {
	at = strings.TrimSpace(at)
	if _, err := weburl.Parse(at); err != nil {
		return nil, exit.Usagef("--%s %q: must be an http or https URL: files are fetched when the job is sent, and not uploaded before (%v)", flag, at, err)
	}
	return &fireoncev1.MediaRef{Url: at}, nil
}
