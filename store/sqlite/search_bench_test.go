package sqlite

import (
	"fmt"
	"os"
	"testing"
	"time"

	driver "modernc.org/sqlite"

	"github.com/fireonce/fireonce/internal/proof/manyjobs"
	"github.com/fireonce/fireonce/store/storetest"
)

// BenchmarkSearch: see storetest. FIREONCE_SEARCH_JOBS is how many jobs there are.
func BenchmarkSearch(b *testing.B) {
	s, f := filled(b)
	storetest.BenchmarkSearch(b, s, f)
}

// BenchmarkIncidents: see storetest.
func BenchmarkIncidents(b *testing.B) {
	s, f := filled(b)
	storetest.BenchmarkIncidents(b, s, f)
}

// filled opens a store with the jobs of a fixture.
func filled(b *testing.B) (*Store, storetest.SearchFixture) {
	b.Helper()
	n := storetest.SearchJobs()
	if n == 0 {
		b.Skip("FIREONCE_SEARCH_JOBS is not set: see make bench-search")
	}
	path := testPath(b)
	s := mustOpen(b, Options{Path: path})
	f := storetest.SearchFixture{Jobs: n, Now: time.Now()}
	for range 50 {
		f.Connections = append(f.Connections, mustConnect(b, s).ID)
	}
	must(b, s.Close())
	begun := time.Now()
	manyjobs.SQLite(b, path, f)
	info, err := os.Stat(path)
	must(b, err)
	fmt.Fprintf(os.Stderr, "SQLite: %d jobs were written in %v, %d MB\n", n, time.Since(begun).Round(time.Second), info.Size()>>20)
	s = mustOpen(b, Options{Path: path})
	f.Read = func() (pages, rows int64) { return pagesRead(b, s), 0 }
	return s, f
}

// pagesRead returns how many pages of the database the readers have looked at.
func pagesRead(tb testing.TB, s *Store) (sum int64) {
	tb.Helper()
	for range cap(s.readers) {
		r := <-s.readers
		must(tb, r.ses.conn.Raw(func(dc any) error {
			for _, op := range []driver.DBStatusOp{driver.DBStatusCacheHit, driver.DBStatusCacheMiss} {
				n, _, err := dc.(driver.DBStatus).Status(op, false)
				if err != nil {
					return err
				}
				sum += int64(n)
			}
			return nil
		}))
		s.readers <- r
	}
	return sum
}
