package client

import (
	"context"
	"testing"

	"github.com/urfave/cli/v3"
	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
)

func TestDeclaredFlags(t *testing.T) {
	webhook := func(s *connectionsv1.WebhookSettings) *connectionsv1.Connection {
		return &connectionsv1.Connection{Connector: "webhook", Settings: &connectionsv1.Connection_Webhook{Webhook: s}}
	}
	no := webhook(&connectionsv1.WebhookSettings{ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_NO})
	upload := &connectionsv1.Connection{Connector: "tiktok", Settings: &connectionsv1.Connection_Tiktok{Tiktok: &connectionsv1.TikTokSettings{
		Source: connectionsv1.TikTokSettings_SOURCE_FILE_UPLOAD,
	}}}
	for name, tt := range map[string]struct {
		connector string
		args      []string
		want      *connectionsv1.Connection // nil: the flags are refused
	}{
		"a flag that goes with another":    {"webhook", []string{"--receiver-dedupes", "no", "--dedupes-in-flight"}, nil},
		"switched off":                     {"webhook", []string{"--receiver-dedupes", "no", "--dedupes-in-flight=false"}, no},
		"required with another":            {"webhook", []string{"--receiver-dedupes", "yes"}, nil},
		"required":                         {"webhook", nil, nil},
		"a flag of another platform":       {"webhook", []string{"--receiver-dedupes", "no", "--source", "pull"}, nil},
		"a default":                        {"tiktok", nil, upload},
		"an empty value means the default": {"tiktok", []string{"--source", ""}, upload},
		"no such word":                     {"tiktok", []string{"--source", "carrier pigeon"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := &connectionsv1.Connection{Connector: tt.connector}
			root := &cli.Command{Name: "fireonce", Flags: settingsFlags(anyPlatform), Action: func(_ context.Context, cmd *cli.Command) error {
				return setSettings(cmd, got)
			}}
			switch err := root.Run(t.Context(), append([]string{"fireonce"}, tt.args...)); {
			case tt.want == nil && err == nil:
				t.Errorf("accepted: %v", got)
			case tt.want != nil && (err != nil || !proto.Equal(got, tt.want)):
				t.Errorf("%v, %v; want %v", got, err, tt.want)
			}
		})
	}
}
