package client

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/duration"
)

func (p *printer) scheduled(resp *fireoncev1.ScheduleJobResponse, validated bool) {
	switch {
	case validated:
		p.line("Valid. Nothing was stored; the platform and the credential were not asked.")
		return
	case resp.GetCreated():
		p.line("Scheduled.")
	default:
		p.line("Already stored under this key; this is the job as it is now.")
	}
	p.brief(resp.GetJob())
}

func (p *printer) brief(j *fireoncev1.Job) {
	p.fields(
		"Key", j.GetIdempotencyKey(),
		"State", stateName(j.GetState()),
		"Connection", connectionName(j),
		"Scheduled for", stamp(j.GetScheduleTime())+away(j.GetScheduleTime()),
		"Blocked", blockedLine(j.GetBlockedReason()),
		"Job", j.GetJobId(),
	)
}

// connectionName returns the name of a connection as flags take it: its key, or its id where the
// key was generated or is not known.
func connectionName(of interface {
	GetConnectionId() string
	GetConnectionKey() string
}) string {
	return cmp.Or(ownKey(of.GetConnectionKey()), of.GetConnectionId())
}

// shownKey returns a job's key, in which the schedule that made the job has its key.
func shownKey(of interface {
	GetIdempotencyKey() string
	GetScheduleId() string
	GetScheduleKey() string
}) string {
	firing, made := strings.CutPrefix(of.GetIdempotencyKey(), "fireonce:schedule/"+of.GetScheduleId()+"/")
	if !made || of.GetScheduleKey() == "" {
		return of.GetIdempotencyKey()
	}
	return of.GetScheduleKey() + "/" + firing
}

// shortKey returns a job's shown key in at most n characters. The name of a firing stays whole, as far as it can.
func shortKey(j *fireoncev1.Job, n int) string {
	key := shownKey(j)
	firing, made := strings.CutPrefix(key, j.GetScheduleKey()+"/")
	if room := n - len(firing) - 1; made && j.GetScheduleKey() != "" && len(key) > n && room > 1 {
		return short(j.GetScheduleKey(), room) + "/" + firing
	}
	return short(key, n)
}

// blockedLine returns why a job waits, in words and as the code for programs.
func blockedLine(b *fireoncev1.BlockedReason) string {
	if b == nil {
		return ""
	}
	if b.GetKind() == fireoncev1.BlockedReason_KIND_SERVER_GONE {
		return b.GetMessage() + " Nothing has to be done (" + word(b.GetKind()) + ")"
	}
	name := word(b.GetKind())
	if cause := word(b.GetConnectionCause()); b.GetKind() == fireoncev1.BlockedReason_KIND_CREDENTIAL && cause != "" {
		name = cause
	}
	return b.GetMessage() + " (" + name + ")"
}

func (p *printer) job(j *fireoncev1.Job) {
	p.fields(
		"Key", j.GetIdempotencyKey(),
		"State", stateLine(j),
		"Phase", word(j.GetPhase()),
		"Blocked", blockedLine(j.GetBlockedReason()),
		"Next", nextLine(j),
		"Connection", connectionName(j),
		"Schedule", j.GetScheduleKey(),
		"Class", word(j.GetEffectClass()),
		"Scheduled for", stamp(j.GetScheduleTime()),
		"Replies to", j.GetReplyToJobId(),
		"Waits until", stamp(j.GetWaitDeadline()),
		"Start before", stamp(j.GetStartDeadline()),
		"Tried until", stamp(j.GetKeepTryingTime()),
		"RESEND from", resendLine(j),
		"Delivery", word(j.GetDelivery()),
		"Attempts", attemptsLine(j),
		"Effect", effectLine(j.GetEffect()),
		"Answer", strings.Join(answerLines(j.GetLastAttempt().GetAnswer()), "; "),
		"Last error", errorLine(j.GetLastError()),
		"Incident", incidentLine(j.GetIncidentId()),
		"Resolution", resolutionLine(j.GetResolution()),
		"Cancel asked", stamp(j.GetCancelRequestTime()),
		"Labels", labelsLine(j.GetLabels()),
		"Created", stamp(j.GetCreateTime()),
		"Ended", stamp(j.GetEndTime()),
		"Content", contentLine(j),
		"Job", j.GetJobId(),
		"Etag", j.GetEtag(),
	)
}

func stateLine(j *fireoncev1.Job) string {
	switch j.GetState() {
	case fireoncev1.JobState_JOB_STATE_SUCCEEDED:
		return stateName(j.GetState()) + ", proof " + word(j.GetEffect().GetProof())
	case fireoncev1.JobState_JOB_STATE_NEEDS_RESOLUTION:
		return stateName(j.GetState()) + ": find out whether the effect took place, then `fireonce resolve`"
	default:
		return stateName(j.GetState())
	}
}

// nextLine returns what the server does next about a job; empty: nothing, or what Blocked says.
func nextLine(j *fireoncev1.Job) string {
	switch {
	case j.GetEndTime() != nil:
		return ""
	case j.GetNextLookTime() != nil:
		return "a look at the target, " + stamp(j.GetNextLookTime()) + away(j.GetNextLookTime())
	case j.GetNextAttemptTime() != nil:
		return fmt.Sprintf("attempt %d, %s%s", j.GetAttemptCount()+1, stamp(j.GetNextAttemptTime()), away(j.GetNextAttemptTime()))
	case j.GetState() == fireoncev1.JobState_JOB_STATE_SCHEDULED && j.GetBlockedReason() == nil:
		return "the first attempt, " + stamp(j.GetScheduleTime()) + away(j.GetScheduleTime())
	default:
		return ""
	}
}

// resendLine returns from when a person may choose RESEND; empty: they may already.
func resendLine(j *fireoncev1.Job) string {
	if t := j.GetResendAllowedTime(); t != nil && t.AsTime().After(time.Now()) {
		return stamp(t) + away(t)
	}
	return ""
}

func attemptsLine(j *fireoncev1.Job) string {
	line := strconv.Itoa(int(j.GetAttemptCount()))
	if failed := j.GetFailureCount(); failed > 0 {
		if j.GetAttemptCount() == 0 { // none came to the intent to send
			return fmt.Sprintf("%s of at most %d, none reached the receiver", many(failed, "try", "tries"), j.GetRetryPolicy().GetMaxAttempts())
		}
		line += fmt.Sprintf("; %d of at most %s failed", failed, many(j.GetRetryPolicy().GetMaxAttempts(), "try", "tries"))
	}
	if n := j.GetResendCount(); n > 0 {
		line += fmt.Sprintf("; resent %d× after an unknown outcome: the effect may exist more than once", n)
	}
	return line
}

func effectLine(e *fireoncev1.Effect) string {
	if e == nil {
		return ""
	}
	line := "known since " + stamp(e.GetEffectTime())
	if e.GetAttempt() > 0 {
		line += ", attempt " + strconv.Itoa(int(e.GetAttempt()))
	}
	for _, name := range []string{e.GetExternalId(), e.GetExternalUrl()} {
		if name != "" {
			line += ", " + name
		}
	}
	if other := e.GetSharedWithJobId(); other != "" {
		line += ", also the effect of job " + other + ": one of the two may have none"
	}
	return line
}

func errorLine(e *fireoncev1.JobError) string {
	if e == nil {
		return ""
	}
	line := word(e.GetKind())
	if e.GetHttpStatus() != 0 {
		line += " (HTTP " + strconv.Itoa(int(e.GetHttpStatus())) + ")"
	}
	return line + ": " + e.GetMessage() + egressHint(e.GetKind())
}

// egressHint returns the flag that allows an address which the server may not call.
func egressHint(kind fireoncev1.FailureKind) string {
	if kind != fireoncev1.FailureKind_FAILURE_KIND_EGRESS_DENIED {
		return ""
	}
	return "; the server's operator allows a range of addresses with fireonce serve --allow-egress, e.g. 10.0.0.0/8, and all of this machine's with --dev"
}

func resolutionLine(r *fireoncev1.Resolution) string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf("%s by %s, %s: %s", word(r.GetDecision()), r.GetActor(),
		stamp(r.GetResolveTime()), r.GetNote())
}

func labelsLine(labels map[string]string) string {
	pairs := make([]string, 0, len(labels))
	for name, value := range labels {
		pairs = append(pairs, name+"="+value)
	}
	slices.Sort(pairs)
	return strings.Join(pairs, " ")
}

// contentLine is payloadLine, or why there is none.
func contentLine(j *fireoncev1.Job) string {
	if j.GetContentWithheld() {
		return "withheld: this API key lacks the scope payloads:read"
	}
	return payloadLine(j.GetPayload())
}

func payloadLine(p *fireoncev1.Payload) string {
	const shown = 60
	switch kind := p.GetKind().(type) {
	case nil:
		return ""
	case *fireoncev1.Payload_Webhook:
		w := kind.Webhook
		body := w.GetBodyText()
		if w.GetBody() != nil {
			body = string(w.GetBody())
		}
		line := "POST " + w.GetUrl()
		if body != "" {
			line += fmt.Sprintf(" (%d bytes: %s)", len(body), short(body, shown))
		}
		return line
	case *fireoncev1.Payload_SocialPost:
		return "post: " + short(kind.SocialPost.GetText(), shown)
	case *fireoncev1.Payload_HttpRequest:
		return cmp.Or(word(kind.HttpRequest.GetMethod()), "POST") + " " + kind.HttpRequest.GetUrl()
	case *fireoncev1.Payload_Email:
		to := slices.Concat(kind.Email.GetTo(), kind.Email.GetCc(), kind.Email.GetBcc())
		return "e-mail to " + short(strings.Join(to, ", "), shown) + ": " + short(kind.Email.GetSubject(), shown)
	case *fireoncev1.Payload_DirectMessage:
		return "message to " + kind.DirectMessage.GetRecipientId() + ": " + short(kind.DirectMessage.GetText(), shown)
	case *fireoncev1.Payload_Custom:
		return fmt.Sprintf("%s (%d bytes)", kind.Custom.GetSchema(), len(kind.Custom.GetData()))
	default:
		return "of a kind that is newer than this program"
	}
}

func (p *printer) jobs(jobs []*fireoncev1.Job) {
	const shown = 48
	rows := [][]string{{"KEY", "STATE", "CONNECTION", "SCHEDULED FOR", "ATTEMPTS", "NOTE", "JOB"}}
	for _, j := range jobs {
		note := j.GetBlockedReason().GetMessage()
		if note == "" && j.GetEffect() == nil {
			note = errorLine(j.GetLastError())
		}
		rows = append(rows, []string{
			shortKey(j, shown), stateName(j.GetState()), short(connectionName(j), shown), stamp(j.GetScheduleTime()),
			strconv.Itoa(int(j.GetAttemptCount())), short(note, shown), j.GetJobId(),
		})
	}
	p.table(rows)
}

// tries prints attempts, and the looks at the target, oldest first. A database that was restored may lack attempts
// that were made.
func (p *printer) tries(attempts []*fireoncev1.Attempt, looks []*fireoncev1.Observation, restored *fireoncev1.JobEvent) {
	p.line("")
	switch {
	case len(attempts) > 0:
	case restored != nil:
		p.line("No attempt is known to this database, which was restored: an attempt may have been made before %s.", clock(restored.GetEventTime()))
		return
	default:
		// The database may have been restored without anyone's knowledge.
		p.line("No attempt is known to this database.")
		return
	}
	p.heading("Attempts")
	for _, a := range attempts {
		p.attempt(a)
	}
	if len(looks) == 0 {
		return
	}
	p.line("")
	p.heading("Looks")
	for _, o := range slices.Backward(looks) {
		line := fmt.Sprintf("  %s  for attempt %d: %s", clock(o.GetTime()), o.GetAttempt(), word(o.GetVerdict()))
		for _, text := range []string{o.GetExternalId(), o.GetExternalUrl(), o.GetDetail()} {
			if text != "" {
				line += ", " + plain(text)
			}
		}
		p.line("%s", line)
	}
}

func (p *printer) attempt(a *fireoncev1.Attempt) {
	line := fmt.Sprintf("  %d  %s  %s", a.GetNumber(), clock(a.GetIntentTime()), cmp.Or(word(a.GetOutcome()), "under way"))
	if a.GetEndTime() != nil && a.GetIntentTime() != nil {
		line += " after " + duration.Format(a.GetEndTime().AsTime().Sub(a.GetIntentTime().AsTime()))
	}
	if a.GetHttpStatus() != 0 {
		line += ", HTTP " + strconv.Itoa(int(a.GetHttpStatus()))
	}
	if a.GetRequestWritten() {
		line += ", request written"
	}
	if a.GetDetail() != "" {
		line += ": " + plain(a.GetDetail())
	}
	p.line("%s", line)
	for _, line := range answerLines(a.GetAnswer()) {
		p.line("     %s", line)
	}
}

// answerLines are the stored parts of an answer: its status, its headers and its body.
func answerLines(a *fireoncev1.Answer) []string {
	if a == nil {
		return nil
	}
	out := []string{"answered HTTP " + strconv.Itoa(int(a.GetHttpStatus()))}
	for _, h := range a.GetHeaders() {
		out = append(out, plain(h.GetName())+": "+plain(h.GetValue()))
	}
	for line := range strings.Lines(a.GetBody()) {
		out = append(out, plain(strings.TrimRight(line, "\r\n")))
	}
	if a.GetBodyCut() {
		out = append(out, "(the body went on)")
	}
	if why := word(a.GetBodyOmission()); why != "" {
		out = append(out, "(a body that is not kept: "+why+")")
	}
	return out
}

// actorName returns who made a change; a schedule by its key.
func actorName(c *fireoncev1.JobChanged) string {
	if key := c.GetScheduleKey(); key != "" && c.GetActor() == "schedule:"+c.GetScheduleId() {
		return "schedule:" + key
	}
	return c.GetActor()
}

// event prints one line of a history.
func (p *printer) event(e *fireoncev1.JobEvent, withJob bool) {
	c := e.GetJobChanged()
	change, arrow := stateName(c.GetNewState()), ""
	switch {
	case c.GetOldState() == fireoncev1.JobState_JOB_STATE_UNSPECIFIED:
	case c.GetOldState() == c.GetNewState():
		arrow = "still "
	default:
		arrow = stateName(c.GetOldState()) + " → "
	}
	line := "  " + p.in(faint, clock(e.GetEventTime()))
	if withJob {
		line += "  " + plain(cmp.Or(shownKey(c), c.GetJobId())) + "  " + p.in(faint, plain(connectionName(c)))
	}
	const changeWidth = 28
	blanks := strings.Repeat(" ", max(0, changeWidth-len([]rune(arrow+change))))
	line += fmt.Sprintf("  #%-2d %s%s%s %s", c.GetSequence(), arrow, p.paint(change), blanks, word(c.GetCause()))
	if n := c.GetAttempt().GetNumber(); n > 0 {
		line += fmt.Sprintf(", attempt %d", n)
	}
	if c.GetActor() != "" && c.GetActor() != "fireonce" {
		line += ", by " + plain(actorName(c))
	}
	for _, text := range []string{c.GetDetail(), c.GetReason()} {
		if text != "" {
			line += ": " + plain(text)
		}
	}
	p.line("%s", line)
}
