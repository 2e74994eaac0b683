// Package fakes is the list of the platforms' fakes. Only `fireonce sandbox` and tests import it: a
// server that runs in earnest has no fake in it.
package fakes

import (
	"github.com/fireonce/fireonce/internal/connector/httpapi/apitest"
	"github.com/fireonce/fireonce/internal/connector/mastodon/mastodontest"
	"github.com/fireonce/fireonce/internal/connector/platform/fake"
	"github.com/fireonce/fireonce/internal/connector/resend/resendtest"
	"github.com/fireonce/fireonce/internal/connector/slack/slacktest"
	"github.com/fireonce/fireonce/internal/connector/smtp/smtptest"
	"github.com/fireonce/fireonce/internal/connector/tiktok/tiktoktest"
	"github.com/fireonce/fireonce/internal/connector/webhook/webhooktest"
	"github.com/fireonce/fireonce/internal/connector/x/xtest"
)

// Fakes are the fakes, in the order of the sandbox's page and of its ports.
var Fakes = []fake.Fake{
	xtest.Fake(),
	tiktoktest.Fake(),
	mastodontest.Fake(),
	slacktest.Fake(),
	resendtest.Fake(),
	apitest.Fake(),
	webhooktest.Fake(),
	smtptest.Fake(),
}
