package tiktok

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/lookup"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file:
//   - the name of the post is durable before anything else happens to it;
//   - of an upload, the last chunk is the commit: as long as TikTok lacks a byte of
//     the video, there is nothing that it could post. So a failure before the last byte
//     was written is proven to have no effect, whatever the answers before it, and the
//     post that was begun stays a name;
//   - if TikTok fetches the video itself, the beginning is the commit;
//   - nothing is sent twice, neither the beginning nor a chunk.

// Publish implements connector.Session.
func (s *session) Publish(c connector.Commit) job.Outcome {
	o := s.publish(c)
	o.Attempt, o.CredentialVersion = c.Attempt, s.Version
	o.Message = transport.Clean(o.Message, transport.MaxMessage)
	return o
}

func (s *session) publish(c connector.Commit) job.Outcome {
	var plan chunks
	if s.asset != nil {
		plan = cut(s.asset.Size)
	}
	path, body := s.post.begin(plan)
	call, err := s.c.call(s.auth, path, body).Request()
	if err != nil {
		return job.Outcome{Result: job.ResultNotSent, Kind: job.FailPermanent, Message: "the stored post cannot be encoded; this try sent nothing"}
	}
	answer := s.Conn.Exchange(call, s.bounds(c))
	b, o := accept(answer, s.auth.Hidden)
	switch {
	case s.asset == nil && o.Result == 0:
		return s.pulled(c, b, o)
	case s.asset == nil:
		return o
	case o.Result == job.ResultUnknown:
		return unposted(o, o.Message)
	case o.Result != 0:
		return o
	}
	return s.upload(c, b, plan, o)
}

// bounds are those of the beginning: an upload's time is not to be spent on waiting
// for it.
func (s *session) bounds(c connector.Commit) transport.Bounds {
	b := transport.Bounds{SendBy: c.SendBy, AnswerBy: c.AnswerBy, MaySend: c.MaySend}
	if s.asset != nil {
		if soon := time.Now().Add(job.DefaultAttemptTimeout); soon.Before(b.AnswerBy) {
			b.AnswerBy = soon
		}
	}
	return b
}

// pulled ends an attempt whose file TikTok fetches: it is committed. The outcome
// carries its name, too, in case the name is not durable yet.
func (s *session) pulled(c connector.Commit, b begun, o job.Outcome) job.Outcome {
	o.Result, o.Handle, o.Message = job.ResultAccepted, b.ID, "TikTok fetches the file as "+b.ID
	if err := c.SaveHandle(o.Handle); err != nil {
		o.Message += "; that name is stored with this outcome"
	}
	return o
}

// unposted is the outcome of an upload that ended before its last byte was written:
// TikTok has nothing to post.
func unposted(o job.Outcome, why string) job.Outcome {
	o.Result, o.Kind, o.Handle, o.RetryAfter = job.ResultRejected, job.FailTransient, "", 0
	o.Message = why + "; TikTok has no whole video, so nothing was posted"
	return o
}

// upload sends the file. o is the outcome so far.
func (s *session) upload(c connector.Commit, b begun, plan chunks, o job.Outcome) job.Outcome {
	to, err := transport.ParseURL(b.UploadURL)
	if err != nil || s.c.cfg.HTTPSOnly && to.Scheme != "https" {
		return unposted(o, "TikTok named no usable place for the upload")
	}
	name := handle{b.ID, plan.size, s.local().Add(s.c.cfg.UploadLife)}.String()
	if err := c.SaveHandle(name); err != nil {
		return unposted(o, "the name of the upload could not be stored")
	}
	call := transport.Request{Method: "PUT", URL: to}
	secrets := kit.Message{URL: to}.Hide(s.auth.Hidden) // its token
	for i := range plan.count {
		from, n := plan.part(i)
		call.Body, call.Length = io.NewSectionReader(s.asset.Reader(), from, n), n
		call.Headers = []transport.Header{{Name: "Content-Type", Value: s.asset.Type}, {Name: "Content-Range", Value: plan.header(i)}}
		last := i == plan.count-1
		answer, err := s.put(c, call, last)
		o.BytesWritten += answer.Written
		switch {
		case err != nil:
			return unposted(o, "the upload could not go on: "+lookup.Unseen(err).Detail) // without addresses of our network
		case last:
			return s.committed(o, b.ID, name, answer, secrets)
		case !answer.Complete || !answer.Sent || answer.Status/100 != 2:
			o.HTTPStatus = answer.Status
			return refusedChunk(o, answer, fmt.Sprintf("chunk %d of %d", i+1, plan.count), secrets)
		}
	}
	return unposted(o, "the video has no bytes")
}

// put sends one chunk on its own connection.
func (s *session) put(c connector.Commit, call transport.Request, last bool) (transport.Response, error) {
	ctx, cancel := context.WithDeadline(context.Background(), c.SendBy)
	defer cancel()
	conn, err := s.c.cfg.Sender.Open(ctx, transport.TargetOf(call.URL), true)
	if err != nil {
		return transport.Response{}, err
	}
	defer conn.Close()
	bounds := transport.Bounds{SendBy: c.SendBy, AnswerBy: c.SendBy, MaySend: c.MaySend}
	if last {
		bounds.AnswerBy = c.AnswerBy
	}
	return conn.Exchange(call, bounds), nil
}

// committed judges the last chunk. It narrows the default rules:
//
//   - a chunk that was not written whole leaves a video that is not whole;
//   - 201 means that the whole video is there (Media Transfer Guide): the post has a
//     name, and polls by that name settle the outcome. Another success may mean that
//     something is missing, so the connector polls by name, too;
//   - everything else that is not a refusal is unknown, and polled by name.
func (s *session) committed(o job.Outcome, id, name string, a transport.Response, secrets transport.Secrets) job.Outcome {
	judged := transport.Classify(a, platformName, secrets)
	o.HTTPStatus = a.Status
	switch {
	case !a.Sent && !a.Complete, a.Written == 0:
		return unposted(o, "the last part of the video was not sent whole")
	case a.Complete && a.Sent && a.Status == 201:
		o.Result, o.Handle, o.Message = job.ResultAccepted, id, "TikTok has the video as "+id
		return o
	case judged.Result == job.ResultRejected:
		return refusedChunk(o, a, "the last part of the video", secrets)
	}
	o.Result, o.Kind, o.RetryAfter = job.ResultUnknown, job.FailAmbiguous, judged.RetryAfter
	o.Handle, o.Message = name, "the whole video was sent as "+id+": "+judged.Message
	return o
}

// refusedChunk ends an upload whose part was refused or lost. 400 and 413 to 416 are
// about the bytes, or how they were cut (Media Transfer Guide); the others, an upload
// that has ended among them, are worth another beginning.
func refusedChunk(o job.Outcome, a transport.Response, what string, secrets transport.Secrets) job.Outcome {
	judged := transport.Classify(a, platformName, secrets)
	o = unposted(o, what+" was not taken: "+judged.Message)
	o.RetryAfter = judged.RetryAfter // another beginning comes no sooner than this answer asks
	switch {
	case judged.Result != job.ResultRejected:
	case judged.Kind == job.FailRateLimited:
		o.Kind = judged.Kind
	case a.Status == 400, a.Status == 413, a.Status == 415:
		o.Kind = job.FailPermanent
	default:
		transport.Postpone(&o, a)
	}
	return o
}
