package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/urfave/cli/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

const (
	// maxLine bounds one line of a batch, in bytes.
	maxLine = maxPayloadFile
	// batchJobs and batchBytes keep a call below the contract's bounds of 500 jobs
	// and 16 MiB.
	batchJobs  = 500
	batchBytes = 8 << 20
)

func batchCommand() *cli.Command {
	return &cli.Command{
		Name: "batch", Usage: "schedule many jobs from a file", ArgsUsage: "FILE",
		Description: "Each line is a ScheduleJobRequest of the contract in JSON; - reads standard input. Every line needs its\n" +
			"key, so that the same file can be given again: lines that are stored already are repeats. One line is\n" +
			"printed for each; the exit code is 1 if any failed.",
		Flags: flags(), Action: action(batch),
	}
}

func batch(ctx context.Context, c *call) error {
	if c.cmd.Args().Len() != 1 {
		return exit.Usagef("name one file, or - for standard input")
	}
	in := c.cmd.Root().Reader
	if name := c.cmd.Args().First(); name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return exit.AsUsage(err)
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	b := batcher{call: c}
	defer c.out.progress.Clear()
	if err := b.read(ctx, in); err != nil {
		return err
	}
	if !c.out.json {
		c.out.line("%d stored, %d already stored, %d failed.", b.created, b.repeated, b.failed)
	}
	if b.failed > 0 {
		return fmt.Errorf("%d of %d lines failed", b.failed, b.created+b.repeated+b.failed)
	}
	return nil
}

// batcher sends lines in groups.
type batcher struct {
	*call
	requests                  []*fireoncev1.ScheduleJobRequest
	size                      int
	first                     int // line of the first request
	created, repeated, failed int
}

func (b *batcher) read(ctx context.Context, in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	n := 0
	for lines.Scan() {
		n++
		text := strings.TrimSpace(lines.Text())
		req := &fireoncev1.ScheduleJobRequest{}
		if err := protojson.Unmarshal([]byte(text), req); err != nil {
			// The lines before it are sent, and their answers printed.
			return errors.Join(b.send(ctx), exit.Usagef("line %d: not a ScheduleJobRequest of the contract in JSON%s", n, fieldUnknown(err)))
		}
		if b.size+len(text) > batchBytes || len(b.requests) == batchJobs {
			if err := b.send(ctx); err != nil {
				return err
			}
		}
		if len(b.requests) == 0 {
			b.first = n
		}
		b.requests, b.size = append(b.requests, req), b.size+len(text)
	}
	if err := lines.Err(); err != nil {
		return errors.Join(b.send(ctx), exit.Usagef("after line %d: %w", n, err))
	}
	return b.send(ctx)
}

func (b *batcher) send(ctx context.Context) error {
	if len(b.requests) == 0 {
		return nil
	}
	resp, err := Ask(ctx, b.Jobs.BatchScheduleJobs, &fireoncev1.BatchScheduleJobsRequest{Requests: b.requests})
	if err != nil {
		b.tell("lines %d to %d may or may not be stored; give the file again", b.first, b.first+len(b.requests)-1)
		return err
	}
	for i, r := range resp.GetResults() {
		if err := b.result(b.first+i, b.requests[i], r); err != nil {
			return err
		}
	}
	b.requests, b.size = nil, 0
	b.out.progress.Show("%d lines sent", b.created+b.repeated+b.failed)
	return nil
}

func (b *batcher) result(line int, req *fireoncev1.ScheduleJobRequest, r *fireoncev1.BatchScheduleJobsResponse_Result) error {
	said := "stored"
	switch {
	case r.GetError() != nil:
		b.failed++
	case r.GetSuccess().GetCreated():
		b.created++
	default:
		b.repeated++
		said = "already stored"
	}
	switch {
	case b.out.json:
		return b.out.compact(r)
	case r.GetError() != nil:
		b.out.line("%d  %s  failed: %s", line, plain(req.GetIdempotencyKey()), plain(r.GetError().GetMessage()))
	default:
		j := r.GetSuccess().GetJob()
		b.out.line("%d  %s  %s  %s", line, plain(j.GetIdempotencyKey()), plain(j.GetJobId()), said)
	}
	return nil
}
