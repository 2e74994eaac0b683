package server

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

const (
	// maxBuckets bounds the buckets of one QueryStats, and maxSeries these times the
	// connections.
	maxBuckets, maxSeries = 1500, 15_000
)

// QueryStats implements the RPC.
func (s *statsService) QueryStats(ctx context.Context, req *adminv1.QueryStatsRequest) (*adminv1.QueryStatsResponse, error) {
	if err := noUnknown(req); err != nil {
		return nil, err
	}
	q, err := s.seriesFromWire(ctx, callerOf(ctx).project, req)
	if err != nil {
		return nil, err
	}
	series, err := s.store.Series(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("read the counts: %w", err)
	}
	keys, err := s.keys.keys(ctx, q.Project, convertAll(series.Rows, func(r store.SeriesRow) job.ID { return r.Connection }), nil)
	if err != nil {
		return nil, err
	}
	out := seriesToWire(req, series, keys)
	return out, seriesFits(out)
}

// seriesFits refuses an answer that clients would not take.
func seriesFits(out *adminv1.QueryStatsResponse) error {
	if n := proto.Size(out); n > maxAnswerBytes {
		return badField("include_bins", "max_bytes", fmt.Sprintf(
			"the answer would have %d bytes in %d rows, and %d is the limit; leave out bins or dimensions, or take longer buckets or less time",
			n, len(out.GetRows()), maxAnswerBytes))
	}
	return nil
}

var widths = map[adminv1.StatsBucket]store.Width{
	adminv1.StatsBucket_STATS_BUCKET_MINUTE: store.Minute,
	adminv1.StatsBucket_STATS_BUCKET_HOUR:   store.Hour,
	adminv1.StatsBucket_STATS_BUCKET_DAY:    store.Day,
}

// seriesFromWire makes a query of whole buckets.
func (s *statsService) seriesFromWire(ctx context.Context, project string, req *adminv1.QueryStatsRequest) (store.SeriesQuery, error) {
	q := store.SeriesQuery{
		Project: project, Width: widths[req.GetBucket()], Connectors: req.GetFilter().GetConnectors(),
		ByConnection: slices.Contains(req.GetDimensions(), adminv1.StatsDimension_STATS_DIMENSION_CONNECTION),
		ByConnector:  slices.Contains(req.GetDimensions(), adminv1.StatsDimension_STATS_DIMENSION_CONNECTOR),
		ByClass:      slices.Contains(req.GetDimensions(), adminv1.StatsDimension_STATS_DIMENSION_EFFECT_CLASS),
		Classes:      castAll[job.Class](req.GetFilter().GetEffectClasses()),
	}
	var err error
	if q.Connections, err = idsFromWire("filter.connection_ids", req.GetFilter().GetConnectionIds()); err != nil {
		return q, err
	}
	if q.Connections, err = s.addNamedConnections(ctx, project, q.Connections, req.GetFilter().GetConnectionKeys()); err != nil {
		return q, err
	}
	// A connection that is named twice counts once.
	slices.SortFunc(q.Connections, func(a, b job.ID) int { return slices.Compare(a[:], b[:]) })
	q.Connections = slices.Compact(q.Connections)
	from, err := timeFromWire("start_time", req.GetStartTime())
	if err != nil {
		return q, err
	}
	before := s.cfg.Now().Add(time.Microsecond)
	if req.GetEndTime() != nil {
		if before, err = timeFromWire("end_time", req.GetEndTime()); err != nil {
			return q, err
		}
		if !before.After(from) {
			return q, badField("end_time", "after_start_time", "must be after start_time")
		}
	}
	length := q.Width.Length()
	q.From, q.Before = q.Width.Start(from), q.Width.Start(before.Add(length-time.Nanosecond))
	if !q.Before.After(q.From) { // start_time is ahead
		q.Before = q.From
	}
	buckets := int64(q.Before.Sub(q.From) / length)
	switch {
	case buckets > maxBuckets:
		return q, badField("start_time", "max_buckets", fmt.Sprintf(
			"there are %d buckets up to end_time, and %d is the limit; take longer buckets or less time", buckets, maxBuckets))
	case buckets*int64(len(q.Connections)) > maxSeries:
		return q, badField("filter.connection_ids", "max_buckets", fmt.Sprintf(
			"%d buckets times %d connections is more than the limit of %d; name fewer connections, or take longer buckets or less time",
			buckets, len(q.Connections), maxSeries))
	}
	return q, nil
}
