package server

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a request names a job or a connection of the caller's project, by its id or
// by the key under which the client created it. The store resolves a key; an error has the name
// that the request used.

// connectionNamed is a request with a oneof of a connection's names.
type connectionNamed interface {
	GetConnectionId() string
	GetIdempotencyKey() string
}

// jobNamed is a request with a oneof of a job's names.
type jobNamed interface {
	GetJobId() string
	GetIdempotencyKey() string
}

// jobRef reads which job a request is about.
func jobRef(ctx context.Context, req jobNamed) (store.Ref, error) {
	return subjectJob.ref(ctx, req.GetJobId(), req.GetIdempotencyKey())
}

// scheduleNamed is a request with a oneof of a schedule's names.
type scheduleNamed interface {
	GetScheduleId() string
	GetIdempotencyKey() string
}

// names are the fields by which a request names a job or a connection.
type names struct{ id, key string }

var (
	// subjectJob, subjectConnection and subjectSchedule are what a request is about.
	subjectJob        = names{"job_id", "idempotency_key"}
	subjectConnection = names{"connection_id", "idempotency_key"}
	subjectSchedule   = names{"schedule_id", "idempotency_key"}
	// ofConnection is a connection that something else belongs to.
	ofConnection = names{"connection_id", "connection_key"}
	// repliedTo is the job that another one replies to.
	repliedTo = names{"reply_to_job_id", "reply_to_key"}
)

// ref is what a request names by these fields.
func (n names) ref(ctx context.Context, id, key string) (store.Ref, error) {
	named, err := idFromWire(n.id, id)
	return store.Ref{Project: callerOf(ctx).project, ID: named, Key: key}, err
}

// field is the field of a request that named what ref does.
func (n names) field(ref store.Ref) string {
	if ref.Key != "" {
		return n.key
	}
	return n.id
}

// notFound refuses a request that names nothing.
func (n names) notFound(reason fireoncev1.ErrorReason, what string, ref store.Ref) *fault {
	words, value := idToWire(ref.ID), idToWire(ref.ID)
	if ref.Key != "" {
		words, value = "with idempotency key "+strconv.Quote(ref.Key), ref.Key
	}
	return refuse(reason, "no "+what+" "+words, n.field(ref), value)
}

func (n names) noJob(ref store.Ref) *fault {
	return n.notFound(fireoncev1.ErrorReason_ERROR_REASON_JOB_NOT_FOUND, "job", ref)
}

func (n names) noConnection(ref store.Ref) *fault {
	return n.notFound(fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_NOT_FOUND, "connection", ref)
}

func (n names) noSchedule(ref store.Ref) *fault {
	return n.notFound(fireoncev1.ErrorReason_ERROR_REASON_SCHEDULE_NOT_FOUND, "schedule", ref)
}

func jobNotFound(ref store.Ref) *fault        { return subjectJob.noJob(ref) }
func connectionNotFound(ref store.Ref) *fault { return subjectConnection.noConnection(ref) }

func scheduleNotFound(ref store.Ref) *fault { return subjectSchedule.noSchedule(ref) }

// connectionOwned is a request with a oneof of the names of a connection that something
// else belongs to.
type connectionOwned interface {
	GetConnectionId() string
	GetConnectionKey() string
}

// ownerRef reads which connection a request names; zero: none.
func ownerRef(project string, req connectionOwned) (store.Ref, error) {
	id, err := idFromWire(ofConnection.id, req.GetConnectionId())
	return store.Ref{Project: project, ID: id, Key: req.GetConnectionKey()}, err
}

// connectionID resolves what names a connection.
func (s *Server) connectionID(ctx context.Context, ref store.Ref) (job.ID, error) {
	if ref.Key == "" {
		return ref.ID, nil
	}
	id, err := s.connections.id(ctx, ref.Project, ref.Key)
	if err != nil {
		return id, notFoundAs(fmt.Errorf("read the connection: %w", err), ofConnection.noConnection(ref))
	}
	return id, nil
}

// addNamedConnections adds the connections of a filter that are named by their keys to those that
// are named by their ids.
func (s *Server) addNamedConnections(ctx context.Context, project string, ids []job.ID, keys []string) ([]job.ID, error) {
	for _, key := range keys {
		id, err := s.connectionID(ctx, store.Ref{Project: project, Key: key})
		if err != nil {
			return nil, err
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// namedSchedule returns the schedule of a filter, which names it by its id or by its key.
func (s *Server) namedSchedule(ctx context.Context, project string, id job.ID, key string) (job.ID, error) {
	if key == "" {
		return id, nil
	}
	ref := store.Ref{Project: project, Key: key}
	found, err := s.store.Schedule(ctx, ref)
	if err != nil {
		return id, notFoundAs(fmt.Errorf("read the schedule: %w", err), subjectOfItem.noSchedule(ref))
	}
	return found.ID, nil
}
