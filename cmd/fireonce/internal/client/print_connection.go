package client

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/duration"
)

func (p *printer) connection(c *fireoncev1.Connection) {
	p.fields(
		"Connection", c.GetConnectionId(),
		"Name", c.GetDisplayName(),
		"Key", c.GetIdempotencyKey(),
		"Connector", c.GetConnector(),
		"Labels", labelsLine(c.GetLabels()),
		"State", words(c.GetState().String(), "CONNECTION_STATE_"),
		"Cause", causeName(c.GetStateCause()),
		"Because", c.GetStateReason(),
		"Class", words(c.GetEffectClass().String(), "EFFECT_CLASS_"),
		"Key window", keyWindow(c),
		"API", cmp.Or(c.GetFeed().GetBaseUrl(), c.GetMastodon().GetBaseUrl(), c.GetBluesky().GetBaseUrl()),
		"Origins", strings.Join(slices.Concat(c.GetWebhook().GetOrigins(), c.GetHttp().GetOrigins()), ", "),
		"Channel", c.GetSlack().GetChannel(),
		"Relay", relayLine(c.GetSmtp()),
		"Settings", otherSettings(c),
		"Account", c.GetAccountIdentity(),
		"Credential", credentialLine(c),
		"In flight", limit(c.GetLimits().GetMaxInFlight()),
		"Per minute", limit(c.GetLimits().GetMaxPerMinute()),
		"Cool-down", coolDown(c.GetLimits()),
		"Created", stamp(c.GetCreateTime()),
		"Etag", c.GetEtag(),
	)
}

// coolDown is how far apart effects are kept; empty: that is no matter.
func coolDown(l *fireoncev1.ConnectionLimits) string {
	if l.GetCoolDown().AsDuration() == 0 {
		return ""
	}
	return duration.Format(l.GetCoolDown().AsDuration())
}

// causeName is why a connection is in its state; empty: nothing is in the way.
func causeName(c fireoncev1.ConnectionStateCause) string {
	if c == fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_UNSPECIFIED {
		return ""
	}
	return words(c.String(), "CONNECTION_STATE_CAUSE_")
}

func keyWindow(c *fireoncev1.Connection) string {
	for _, w := range []*durationpb.Duration{c.GetWebhook().GetKeyWindow(), c.GetHttp().GetKeyWindow()} {
		if w == nil {
			continue
		}
		if c.GetWebhook().GetDedupesInFlight() || c.GetHttp().GetDedupesInFlight() {
			return duration.Format(w.AsDuration()) + ", also of requests under way"
		}
		return duration.Format(w.AsDuration())
	}
	return ""
}

// otherSettings are those that need no name of their own.
func otherSettings(c *fireoncev1.Connection) string {
	switch {
	case c.GetX().GetLongPosts():
		return "posts of more than 280 characters"
	case c.GetTiktok().GetSource() == fireoncev1.TikTokSettings_SOURCE_PULL_FROM_URL:
		return "TikTok fetches files from their URLs"
	case c.GetFeed().GetReadLag() != nil:
		return "read lag " + duration.Format(c.GetFeed().GetReadLag().AsDuration())
	case c.GetMastodon().GetServerDedupes() != fireoncev1.ReceiverDedupes_RECEIVER_DEDUPES_UNSPECIFIED:
		return "receiver dedupes: " + strings.ToLower(words(c.GetMastodon().GetServerDedupes().String(), "RECEIVER_DEDUPES_"))
	default:
		return labelsLine(c.GetCustom().GetValues())
	}
}

func relayLine(s *fireoncev1.SmtpSettings) string {
	if s == nil {
		return ""
	}
	host := s.GetHost()
	if s.GetPort() != 0 {
		host = net.JoinHostPort(host, strconv.Itoa(int(s.GetPort())))
	}
	return host + ", " + words(s.GetSecurity().String(), "SECURITY_")
}

func credentialLine(c *fireoncev1.Connection) string {
	if c.GetCredentialFingerprint() == "" {
		return "none"
	}
	return "fingerprint " + c.GetCredentialFingerprint()
}

func limit(n int32) string {
	if n == 0 {
		return ""
	}
	return "at most " + strconv.Itoa(int(n))
}

func (p *printer) connections(list []*fireoncev1.Connection) {
	const shown = 60
	rows := [][]string{{"CONNECTION", "KEY", "NAME", "CONNECTOR", "CLASS", "STATE", "CAUSE", "NOTE"}}
	for _, c := range list {
		rows = append(rows, []string{
			c.GetConnectionId(), ownKey(c.GetIdempotencyKey()), short(c.GetDisplayName(), 40), c.GetConnector(),
			words(c.GetEffectClass().String(), "EFFECT_CLASS_"), words(c.GetState().String(), "CONNECTION_STATE_"),
			causeName(c.GetStateCause()), short(c.GetStateReason(), shown),
		})
	}
	p.table(rows)
}

// ownKey is a key that a person may have chosen; empty: it was made.
func ownKey(key string) string {
	if id, _ := idOrKey(key); id != "" {
		return ""
	}
	return key
}
