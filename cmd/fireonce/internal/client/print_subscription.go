package client

import (
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/subscriptionsv1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/duration"
)

// showSubscription prints the subscription of an answer.
func showSubscription[R interface {
	GetSubscription() *subscriptionsv1.Subscription
}](c *call, resp R) {
	c.out.subscription(resp.GetSubscription())
}

func (p *printer) subscription(s *subscriptionsv1.Subscription) {
	failing := ""
	if n := s.GetFailedNoticeNumber(); n > 0 {
		failing = "notice " + strconv.FormatInt(n, 10) + " since " + stamp(s.GetFailureStartTime()) + away(s.GetFailureStartTime())
	}
	p.fields(
		"Key", s.GetIdempotencyKey(),
		"Name", s.GetDisplayName(),
		"State", word(s.GetState()),
		"Cause", word(s.GetPauseCause()),
		"Note", s.GetNote(),
		"Sent by", connectionName(s),
		"To", noticeTargetLine(s.GetTarget()),
		"Events", noticeFilterLine(s.GetFilter()),
		"Rules", noticeRulesLine(s.GetRules()),
		"Content", quotesLine(s.GetIncludeContent()),
		"Notices", noticesLine(s),
		"Delivered", stamp(s.GetDeliveryTime())+away(s.GetDeliveryTime()),
		"Failing", failing,
		"Last error", s.GetLastError(),
		"Next", stamp(s.GetNextTime())+away(s.GetNextTime()),
		"Created", stamp(s.GetCreateTime()),
		"Cursor", s.GetCursor(),
		"Subscription", s.GetSubscriptionId(),
		"Etag", s.GetEtag(),
	)
}

func (p *printer) subscriptions(list []*subscriptionsv1.Subscription) {
	rows := [][]string{{"SUBSCRIPTION", "STATE", "SENT BY", "EVENTS", "NOTICES", "DELIVERED", "FAILING SINCE"}}
	for _, s := range list {
		rows = append(rows, []string{
			plain(s.GetIdempotencyKey()), word(s.GetState()), plain(connectionName(s)), plain(noticeFilterLine(s.GetFilter())),
			noticesLine(s), stamp(s.GetDeliveryTime()), stamp(s.GetFailureStartTime()),
		})
	}
	p.table(rows)
}

func quotesLine(included bool) string {
	if included {
		return "included"
	}
	return ""
}

func noticesLine(s *subscriptionsv1.Subscription) string {
	out := strconv.FormatInt(s.GetLastNoticeNumber(), 10)
	if s.GetUnderWay() {
		out += ", one under way"
	}
	return out
}

func noticeTargetLine(t *subscriptionsv1.NoticeTarget) string {
	if t.GetEmail() != nil {
		return strings.Join(t.GetEmail().GetTo(), ", ")
	}
	return t.GetSlackChannel()
}

func noticeFilterLine(f *subscriptionsv1.NoticeFilter) string {
	var parts []string
	for _, s := range f.GetStates() {
		parts = append(parts, word(s))
	}
	for _, p := range f.GetPhases() {
		parts = append(parts, "phase "+word(p))
	}
	if f.GetHolds() {
		parts = []string{"holds"}
	}
	if len(parts) == 0 {
		parts = []string{"what went wrong"}
	}
	out := strings.Join(parts, ", ")
	if len(f.GetLabels()) > 0 {
		out += "; " + labelsLine(f.GetLabels())
	}
	for what, n := range map[string]int{"connections": len(f.GetConnectionIds()), "schedules": len(f.GetScheduleIds())} {
		if n > 0 {
			out += "; of " + strconv.Itoa(n) + " " + what
		}
	}
	return out
}

func noticeRulesLine(r *subscriptionsv1.NoticeRules) string {
	var parts []string
	add := func(what string, d *durationpb.Duration) {
		if d.AsDuration() > 0 {
			parts = append(parts, what+" "+duration.Format(d.AsDuration()))
		}
	}
	add("collect", r.GetCollect())
	add("quiet", r.GetQuiet())
	if r.GetThreshold() > 0 {
		add("at least "+strconv.Itoa(int(r.GetThreshold()))+" in", r.GetThresholdWindow())
	}
	if r.GetRecovered() {
		parts = append(parts, "recovered")
	}
	add("silence", r.GetSilence())
	if r.GetDigest() {
		parts = append(parts, "digest")
	}
	return strings.Join(parts, ", ")
}
