package server

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// TestSeriesFits: rows times bins are bounded by the size that clients accept.
func TestSeriesFits(t *testing.T) {
	rows := make([]store.SeriesRow, maxSeries)
	for i := range rows {
		bins := make(map[int]int64)
		for bin := range 40 {
			bins[bin] = 1000
		}
		rows[i] = store.SeriesRow{
			Start: time.Unix(int64(i)*60, 0), Connection: job.ID{1}, Counts: map[store.Measure]int64{store.CountScheduled: 1},
			Bins: map[store.Measure]map[int]int64{store.CountStarted: bins},
		}
	}
	for bins, ok := range map[bool]bool{true: false, false: true} {
		req := &adminv1.QueryStatsRequest{IncludeBins: bins}
		out := seriesToWire(req, store.Series{Rows: rows}, nil)
		if err := seriesFits(out); (err == nil) != ok {
			t.Errorf("bins %t: %d bytes: %v", bins, proto.Size(out), err)
		}
	}
}
