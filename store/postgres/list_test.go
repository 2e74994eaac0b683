//go:build unix

package postgres

import (
	"context"
	"testing"

	"github.com/fireonce/fireonce/store"
)

// TestLabelsPatience: an index of labels that takes too long names too many jobs, and the
// transaction continues as if it had not been read.
func TestLabelsPatience(t *testing.T) {
	f := newFleet(t, 1)
	_, err := read(t.Context(), f.stores[0], "test", func(ctx context.Context, v view) (struct{}, error) {
		l, err := newListing(store.JobQuery{Project: "default", Labels: map[string]string{"a": "b"}}, v.now)
		if err != nil {
			return struct{}{}, err
		}
		for text, want := range map[string]int{
			"SELECT 1 AS id FROM pg_sleep(60)": store.SearchCandidates + 1, l.drivers[0].text: 0,
		} {
			if n, err := v.named(ctx, l, driver{text: text, bitmap: true}); err != nil || n != want {
				t.Errorf("%s names %d jobs: %v, want %d", text, n, err, want)
			}
			var timeout, bitmaps string
			if err := v.conn.QueryRow(ctx, "SELECT current_setting('statement_timeout'), current_setting('enable_bitmapscan')").Scan(&timeout, &bitmaps); err != nil {
				return struct{}{}, err
			}
			if timeout != sessionSettings["statement_timeout"] || bitmaps != "on" {
				t.Errorf("settings afterwards: %s, %s", timeout, bitmaps)
			}
		}
		return struct{}{}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
