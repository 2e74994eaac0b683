package notice

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/subscriptionsv1"
)

// Rules of this file: words are for people. The first line has what happened and where; then come
// the largest groups, some jobs by their keys, what to do, and a link. They have no content but
// what the subscription includes.

// wordGroups and wordExamples bound what words list.
const (
	wordGroups   = 5
	wordExamples = 5
)

// happened are the words for jobs that entered a state.
var happened = map[fireoncev1.JobState]string{
	fireoncev1.JobState_JOB_STATE_SCHEDULED: "scheduled", fireoncev1.JobState_JOB_STATE_CLAIMED: "taken up",
	fireoncev1.JobState_JOB_STATE_SENDING: "being sent", fireoncev1.JobState_JOB_STATE_ACCEPTED: "accepted, and not done yet",
	fireoncev1.JobState_JOB_STATE_AMBIGUOUS:        "sent with an unknown outcome",
	fireoncev1.JobState_JOB_STATE_RETRYING:         "to be tried again",
	fireoncev1.JobState_JOB_STATE_NEEDS_RESOLUTION: "waiting for your decision",
	fireoncev1.JobState_JOB_STATE_SUCCEEDED:        "sent", fireoncev1.JobState_JOB_STATE_FAILED: "failed",
	fireoncev1.JobState_JOB_STATE_CANCELED: "canceled", fireoncev1.JobState_JOB_STATE_EXPIRED: "not sent in time",
}

// words returns the subject line and the text of a notice.
func words(n *subscriptionsv1.NoticeData, name, link string) (subject, text string) {
	name = cmp.Or(name, n.GetSubscriptionKey())
	var b strings.Builder
	switch n.GetKind() {
	case subscriptionsv1.NoticeKind_NOTICE_KIND_TEST:
		subject = "Test: notices of " + name + " arrive"
		b.WriteString("This is a test. Nothing happened.\n")
	case subscriptionsv1.NoticeKind_NOTICE_KIND_SILENCE:
		subject = "No job of " + name + " was sent"
		fmt.Fprintf(&b, "No job was sent since %s.\n", minute(n.GetSilenceStartTime().AsTime()))
	case subscriptionsv1.NoticeKind_NOTICE_KIND_CONNECTIONS:
		var lines string
		subject, lines = connectionWords(n)
		b.WriteString(lines)
	default:
		subject = headline(n)
		digestWords(&b, n)
	}
	if n.GetEventsLost() {
		b.WriteString("Earlier events were removed before they could be reported.\n")
	}
	if link != "" {
		b.WriteString("\n" + link + "\n")
	}
	fmt.Fprintf(&b, "\nNotice %d of subscription %s in project %s. It may arrive twice.\n", n.GetNumber(), n.GetSubscriptionKey(), n.GetProjectId())
	return subject, subject + "\n\n" + b.String()
}

// headline returns what happened most, and where.
func headline(n *subscriptionsv1.NoticeData) string {
	d := n.GetDigest()
	top := d.GetGroups()[0]
	what := cmp.Or(happened[top.GetNewState()], "changed")
	if n.GetKind() == subscriptionsv1.NoticeKind_NOTICE_KIND_RECOVERED {
		return "Recovered: " + where(top) + " succeeds again"
	}
	if d.GetEventCount() == 1 {
		return fmt.Sprintf("Job %s %s: %s", cmp.Or(d.GetExamples()[0].GetJobChanged().GetIdempotencyKey(), "(removed)"), what, where(top))
	}
	more := ""
	if rest := d.GetEventCount() - top.GetEventCount(); rest > 0 {
		more = fmt.Sprintf(", and %d others", rest)
	}
	return fmt.Sprintf("%d jobs %s: %s%s", top.GetEventCount(), what, where(top), more)
}

func where(g *subscriptionsv1.NoticeGroup) string {
	return "connection " + cmp.Or(g.GetConnectionKey(), g.GetConnectionId())
}

func digestWords(b *strings.Builder, n *subscriptionsv1.NoticeData) {
	d := n.GetDigest()
	if d.GetEventCount() > 1 {
		fmt.Fprintf(b, "Between %s and %s:\n", minute(d.GetFirstEventTime().AsTime()), minute(d.GetLastEventTime().AsTime()))
		for i, g := range d.GetGroups() {
			if i == wordGroups {
				fmt.Fprintf(b, "- and %d more groups\n", len(d.GetGroups())-i)
				break
			}
			fmt.Fprintf(b, "- %d %s: %s\n", g.GetEventCount(), cmp.Or(happened[g.GetNewState()], "changed"), where(g))
		}
		b.WriteString("For example:\n")
	}
	person := false
	for i, e := range d.GetExamples() {
		c := e.GetJobChanged()
		person = person || c.GetNewState() == fireoncev1.JobState_JOB_STATE_NEEDS_RESOLUTION
		if i >= wordExamples {
			continue
		}
		fmt.Fprintf(b, "- %s at %s: %s", cmp.Or(c.GetIdempotencyKey(), c.GetJobId()), minute(e.GetEventTime().AsTime()),
			cmp.Or(happened[c.GetNewState()], "changed"))
		if c.GetDetail() != "" {
			fmt.Fprintf(b, ". %s", c.GetDetail())
		}
		b.WriteString("\n")
	}
	if person {
		b.WriteString("Whether a job that waits for your decision was sent is not known. Do not send it by other means. Look at it, and decide it: fireonce incidents.\n")
	}
}

func minute(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }
