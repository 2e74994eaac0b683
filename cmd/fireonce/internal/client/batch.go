package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/contract"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

const (
	// maxLine bounds one object of a batch, in bytes.
	maxLine = maxPayloadFile
	// batchJobs and batchBytes keep a call below the contract's bounds of 500 jobs
	// and 16 MiB.
	batchJobs  = 500
	batchBytes = 8 << 20
)

func batchCommand() *cli.Command {
	return &cli.Command{
		Name: "batch", Usage: "schedule many jobs from a file", ArgsUsage: "FILE",
		Description: "Each line is a ScheduleJobRequest of the contract in JSON; - reads standard input. An object may go over several\n" +
			"lines, and a JSON list of objects will do. Every object needs its key, so that the same file can be given again:\n" +
			"what is stored already is a repeat. One line is printed for each; the exit code is 1 if any failed.\n\n" +
			`   {"idempotencyKey": "a", "connectionKey": "try", "payload": {"webhook": {"url": "http://127.0.0.1:8080/try"}}}`,
		Flags: flags(), Action: action(batch),
	}
}

func batch(ctx context.Context, c *call) error {
	if c.cmd.Args().Len() != 1 {
		return exit.Usagef("name one file, or - for standard input")
	}
	in, name := c.cmd.Root().Reader, c.cmd.Args().First()
	if name == "-" {
		name = "standard input"
	} else {
		f, err := os.Open(name)
		if err != nil {
			return exit.AsUsage(err)
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	b := batcher{call: c, file: name}
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
	file                      string
	requests                  []*fireoncev1.ScheduleJobRequest
	lines                     []int // on which they begin
	size                      int
	created, repeated, failed int
}

func (b *batcher) read(ctx context.Context, in io.Reader) error {
	from := newObjects(in)
	for {
		o, err := from.next()
		if errors.Is(err, io.EOF) {
			return b.send(ctx)
		}
		req := &fireoncev1.ScheduleJobRequest{}
		if err == nil {
			err = readRequest(o, req)
		}
		if err != nil {
			// The objects before it are sent, and their answers printed.
			return errors.Join(b.send(ctx), exit.Usagef("%s: %w", b.file, err))
		}
		if b.size+len(o.text) > batchBytes || len(b.requests) == batchJobs {
			if err := b.send(ctx); err != nil {
				return err
			}
		}
		b.requests, b.lines, b.size = append(b.requests, req), append(b.lines, o.line), b.size+len(o.text)
	}
}

// readRequest decodes one object of a batch. Its errors have the place in the file.
func readRequest(o *object, req *fireoncev1.ScheduleJobRequest) error {
	wrong := contract.ReadJSON(o.text, req)
	if wrong == nil {
		return nil
	}
	line, column := o.line+max(wrong.Line, 1)-1, max(wrong.Column, 1)
	if wrong.Line <= 1 {
		column += o.column - 1
	}
	return fmt.Errorf("line %d, column %d: %s", line, column, wrong.Text("the ScheduleJobRequest"))
}

func (b *batcher) send(ctx context.Context) error {
	if len(b.requests) == 0 {
		return nil
	}
	resp, err := Ask(ctx, b.Jobs.BatchScheduleJobs, &fireoncev1.BatchScheduleJobsRequest{Requests: b.requests})
	if err != nil {
		b.tell("lines %d to %d may or may not be stored; give the file again", b.lines[0], b.lines[len(b.lines)-1])
		return err
	}
	for i, r := range resp.GetResults() {
		if err := b.result(b.lines[i], b.requests[i], r); err != nil {
			return err
		}
	}
	b.requests, b.lines, b.size = nil, nil, 0
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
