package main

import (
	"context"
	"errors"
	"os/exec"
	"time"

	"github.com/hibiken/asynq"

	"github.com/fireonce/fireonce/internal/proof/bench/duplicates/internal/tally"
	"github.com/fireonce/fireonce/internal/proof/bench/internal/redis"
)

const (
	asynqQueue = "default"
	asynqType  = "order"
	// retention keeps finished tasks until they are counted. By default they are
	// removed immediately.
	retention = 24 * time.Hour
)

// asynqTasks is asynq on Redis with its defaults.
type asynqTasks struct {
	*environment
	face      string
	server    *redis.Server
	inspector *asynq.Inspector
}

func newAsynq(h *environment, face string) system { return &asynqTasks{environment: h, face: face} }

func (a *asynqTasks) prepare(ctx context.Context) error {
	if a.redis == "" {
		return redis.ErrNone
	}
	var err error
	if a.server, err = redis.Start(ctx, a.redis, a.dir); err != nil {
		return err
	}
	a.inspector = asynq.NewInspector(redis.At(a.server.Socket))
	client := asynq.NewClient(redis.At(a.server.Socket))
	defer client.Close() //nolint:errcheck // what it enqueued was confirmed
	for _, s := range a.subjects {
		_, err := client.EnqueueContext(ctx, asynq.NewTask(asynqType, []byte(s)), asynq.TaskID(s), asynq.Retention(retention))
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *asynqTasks) command() *exec.Cmd { return worker("asynq", a.work(a.face, a.server.Socket)) }

func (a *asynqTasks) ready(context.Context, string) error { return nil }

func (a *asynqTasks) atRest(context.Context) (int, error) {
	info, err := a.inspector.GetQueueInfo(asynqQueue)
	if err != nil {
		return 0, err
	}
	return info.Completed + info.Archived, nil
}

func (a *asynqTasks) verdicts(context.Context) (map[string]tally.Verdict, error) {
	out := make(map[string]tally.Verdict)
	for _, s := range a.subjects {
		info, err := a.inspector.GetTaskInfo(asynqQueue, s)
		if errors.Is(err, asynq.ErrTaskNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		switch info.State {
		case asynq.TaskStateCompleted:
			out[s] = tally.Succeeded
		case asynq.TaskStateArchived:
			out[s] = tally.Failed
		default:
			out[s] = tally.Unfinished
		}
	}
	return out, nil
}

func (a *asynqTasks) close() error {
	if a.server == nil {
		return nil
	}
	var err error
	if a.inspector != nil {
		err = a.inspector.Close()
	}
	return errors.Join(err, a.server.Close())
}

func workAsynq(ctx context.Context, w work, ready func()) error {
	p := newPoster(w)
	server := asynq.NewServer(redis.At(w.Store), asynq.Config{Concurrency: w.Senders, LogLevel: asynq.WarnLevel})
	mux := asynq.NewServeMux()
	mux.HandleFunc(asynqType, func(ctx context.Context, t *asynq.Task) error { return p.post(ctx, string(t.Payload())) })
	if err := server.Start(mux); err != nil {
		return err
	}
	ready()
	<-ctx.Done()
	server.Shutdown()
	return nil
}
