package sqlite

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/sqlstore"
)

// checkCache compares the writer's cache with the rows.
func checkCache(t *testing.T, s *Store) {
	t.Helper()
	_, err := write(t.Context(), s, "check", func(ctx context.Context, tx *tx) (int, error) {
		return 0, compareCache(ctx, tx)
	})
	must(t, err)
}

// compareCache compares the whole cache with the rows.
func compareCache(ctx context.Context, tx *tx) error {
	c, differences := tx.w.cache, []error{}
	compare := func(what string, got, want any, err error) {
		switch {
		case err != nil:
			differences = append(differences, fmt.Errorf("%s: remembered %+v, and it is not there: %w", what, got, err))
		case !reflect.DeepEqual(got, want):
			differences = append(differences, fmt.Errorf("%s: remembered %+v, is %+v", what, got, want))
		}
	}
	if c.meta != nil {
		want, err := tx.q.GetMeta(ctx)
		compare("meta", *c.meta, want, err)
	}
	for id, got := range c.conns {
		want, err := sqlstore.View{Q: tx.w.sq}.Connection(ctx, id)
		compare("connection "+id.String(), got, want, err)
	}
	rows := 0
	for id, of := range c.runnable {
		rows += len(of)
		for hold, got := range of {
			want, err := tx.q.GetRunnable(ctx, sqlitedb.GetRunnableParams{ConnectionID: id, HoldKey: hold})
			compare("runnable row "+hold+" of "+id.String(), got, want, err)
		}
	}
	compare("number of runnable rows", c.readyRows, rows, nil)
	for id := range c.loose {
		var saturated int
		err := tx.w.ses.QueryRowContext(ctx, "SELECT count(*) FROM connection_ready WHERE connection_id = ? AND saturated = 1", id[:]).Scan(&saturated)
		compare("saturated rows of "+id.String(), 0, saturated, err)
	}
	if c.waiting != nil && !*c.waiting {
		// The cache may remember longer than necessary that a job waits: that only costs a
		// read.
		_, err := tx.q.AnyWaiting(ctx)
		compare("whether any job waits", false, err == nil, nil)
	}
	if c.underWay != nil {
		all, err := tx.q.InFlight(ctx)
		want := make(map[job.ID]int64)
		for _, id := range all {
			want[id]++
		}
		compare("under way", c.underWay, want, err)
	}
	jobs := c.jobs
	for id, h := range jobs {
		c.jobs = nil
		row, err := tx.load(ctx, id)
		if c.jobs = jobs; err == nil {
			row.account = h.account
		}
		compare("job "+id.String(), h, row, err)
	}
	return errors.Join(differences...)
}

func TestTheWriterRemembersWhatIsThere(t *testing.T) {
	s := mustOpen(t, Options{Path: testPath(t), Now: frozen})
	conn := mustConnect(t, s)
	mustCreate(t, s, newJob(conn), newJob(conn), newJob(conn), newJob(conn))
	got := mustClaim(t, s, 3)
	checkCache(t, s)
	renewed, err := s.Renew(t.Context(), time.Hour, []store.LeaseRef{{Job: got[0].ID, Token: got[0].ClaimToken}})
	must(t, err)
	if !renewed[0] {
		t.Error("not renewed")
	}
	checkCache(t, s)
	armed := mustArm(t, s, got...)
	checkCache(t, s)
	must(t, s.SaveHandle(t.Context(), got[0].ID, 1, "handle"))
	checkCache(t, s)
	// The second change is refused late, so the group runs a second time.
	changes := []store.Change{success(t, armed[0].Snapshot), success(t, armed[1].Snapshot), success(t, armed[2].Snapshot)}
	changes[1].Decision.Round = 0
	out, err := s.Apply(t.Context(), changes)
	must(t, err)
	must(t, out[0].Err)
	wantErr(t, out[1].Err, store.ErrIllegal)
	must(t, out[2].Err)
	checkCache(t, s)
	must(t, s.Quarantine(t.Context(), "a test"))
	_, err = s.Claim(t.Context(), store.ClaimParams{Worker: "w", Lease: time.Minute, Limit: 1})
	wantErr(t, err, store.ErrQuarantined)
	must(t, s.Release(t.Context()))
	checkCache(t, s)
	if got := mustClaim(t, s, 10); len(got) != 1 {
		t.Errorf("%d jobs claimed, want 1", len(got))
	}
	checkCache(t, s)
}

// TestEveryWriteIsKnownToTheCache: each query that changes a table with cached rows is in drops,
// or listed here. The conformance suite with
// CheckCache shows that it drops the right rows.
func TestEveryWriteIsKnownToTheCache(t *testing.T) {
	elsewhere := map[string]string{
		"InsertJob": "new", "InsertState": "new, insertJob forgets whether any job waits",
		"ClaimJob":   "kept by its caller",
		"RenewLease": "kept by its caller", "ArmJob": "kept by its caller",
		"SettleAttempt": "kept by its caller", "CloseAttempt": "kept by its caller",
		"SetState": "kept by its caller", "Succeed": "kept by its caller",
		"RemoveAttempts": "ended, and so not remembered",
		"RemoveStates":   "ended, and so not remembered", "RemoveJobs": "ended, and so not remembered",
		"StepAttempts": "all is dropped", "StepEarlierAttempts": "all is dropped", "ForgetEarlierKeyAges": "all is dropped", "ForgetKeyAges": "all is dropped", "StepLeases": "all is dropped",
		"StepWaits": "all is dropped", "StepWindows": "all is dropped", "StepEnds": "all is dropped",
		"StepHolds": "all is dropped", "StepBuckets": "all is dropped", "StepUnasked": "all is dropped",
		"StepFirstArms": "all is dropped", "StepPauses": "all is dropped", "SetBucket": "buckets are not cached",
	}
	paths, err := filepath.Glob("../../gen/s*db/*.go") // SQLite's own, and the shared ones
	if err != nil {
		t.Fatal(err)
	}
	writes := regexp.MustCompile(`(?:INSERT(?: OR \w+)? INTO|UPDATE(?: OR \w+)?|DELETE FROM)\s+(?:meta|connections|connection_ready|jobs|job_state|attempts)\b`)
	name := regexp.MustCompile(`-- name: (\w+) `)
	found := make(map[string]bool)
	for _, path := range paths {
		ast.Inspect(parsed(t, path), func(n ast.Node) bool {
			text, ok := n.(*ast.BasicLit)
			if !ok || text.Kind != token.STRING || !writes.MatchString(spelled(text.Value)) {
				return true
			}
			if m := name.FindStringSubmatch(text.Value); m != nil {
				found[m[1]] = true
			}
			return true
		})
	}
	for query := range found {
		if _, drops := drops[query]; drops == (elsewhere[query] != "") {
			t.Errorf("query %s: add it to drops, or list it here (in drops: %v, listed: %q)", query, drops, elsewhere[query])
		}
	}
	for query := range drops {
		if !found[query] {
			t.Errorf("query %s drops something, and changes nothing that is remembered", query)
		}
	}
	for query := range elsewhere {
		if !found[query] {
			t.Errorf("query %s is listed, and changes nothing that is remembered", query)
		}
	}
	if len(found) < len(elsewhere)+20 {
		t.Errorf("only %d queries were found", len(found))
	}
}

// TestDropsTakeTheRightArguments: the arguments by which a query's row is dropped are the ones
// that name it.
func TestDropsTakeTheRightArguments(t *testing.T) {
	want := map[string][]string{
		"conns": {"InsertConnection", "SetConnection", "BlankConnection"},
		"row":   {"MakeRunnable", "Served", "Recount"},
		"rows":  {"Saturate", "Unsaturate", "Pace"},
		"hold":  {"HoldAuth", "HoldRate"},
		"holds": {"SetRunnableOf", "DropRunnableOf"},
		"job":   {"SetContent", "SetStart", "NotifyReply"},
	}
	names := map[string]string{"a": "id", "id": "id", "ID": "id", "connectionID": "id", "ConnectionID": "id", "JobID": "id", "HoldKey": "hold"}
	given := argumentsOf(t)
	for kind, queries := range want {
		for _, query := range queries {
			id, other := randomID(), randomID()
			c := newCache()
			for _, id := range []job.ID{id, other} {
				c.keepConnection(store.Connection{ID: id})
				for _, hold := range []string{"hold", "another"} {
					c.keepRunnable(id, sqlitedb.ConnectionReady{HoldKey: hold})
				}
				c.keep(&cachedJob{Job: job.Job{Spec: job.Spec{ID: id}}})
			}
			var args []any
			for _, name := range given[query] {
				switch names[name] {
				case "id":
					args = append(args, id[:])
				case "hold":
					args = append(args, "hold")
				default:
					args = append(args, int64(0))
				}
			}
			drops[query](c, args)
			got := []int{len(c.conns), c.readyRows, len(c.jobs)}
			left := map[string][]int{"conns": {1, 4, 2}, "row": {2, 3, 2}, "rows": {2, 2, 2}, "hold": {1, 3, 2}, "holds": {1, 2, 2}, "job": {2, 4, 1}}[kind]
			if !slices.Equal(got, left) || len(c.runnable[other]) != 2 {
				t.Errorf("%s leaves %v of the cache, want %v", query, got, left)
			}
		}
	}
}

// argumentsOf returns the names of the arguments that generated queries pass on.
func argumentsOf(t *testing.T) map[string][]string {
	t.Helper()
	paths, err := filepath.Glob("../../gen/s*db/*.go")
	must(t, err)
	out := make(map[string][]string)
	for _, path := range paths {
		for _, decl := range parsed(t, path).Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(f.Body, func(n ast.Node) bool {
				var args []ast.Expr
				switch n := n.(type) {
				case *ast.CallExpr:
					if len(n.Args) < 2 {
						return true
					}
					args = n.Args[2:]
				case *ast.CompositeLit:
					if _, list := n.Type.(*ast.ArrayType); list { // those of a statement in a batch
						args = n.Elts
					}
				default:
					return true
				}
				for _, a := range args {
					switch a := a.(type) {
					case *ast.SelectorExpr:
						out[f.Name.Name] = append(out[f.Name.Name], a.Sel.Name)
					case *ast.Ident:
						out[f.Name.Name] = append(out[f.Name.Name], a.Name)
					}
				}
				return false
			})
		}
	}
	return out
}

// TestTheCacheIsBounded: with more connections than the cache holds it keeps the newest, and a
// connection without jobs under way leaves the count of them.
func TestTheCacheIsBounded(t *testing.T) {
	c := newCache()
	c.underWay = make(map[job.ID]int64)
	for range 2 * maxCached {
		id := randomID()
		c.keepConnection(store.Connection{ID: id})
		c.keepRunnable(id, sqlitedb.ConnectionReady{HoldKey: "a"})
		c.keepRunnable(id, sqlitedb.ConnectionReady{HoldKey: "b"})
		c.keepLoose(id)
		c.moved(id, job.Scheduled, job.Claimed)
		c.moved(id, job.Claimed, job.Sending)
		c.moved(id, job.Sending, job.Succeeded)
		if _, ok := c.conns[id]; !ok || len(c.runnable[id]) == 0 || !c.loose[id] {
			t.Fatal("the newest connection is not cached")
		}
	}
	for what, n := range map[string]int{"connections": len(c.conns), "runnable rows": c.readyRows, "loose": len(c.loose)} {
		if n > maxCached {
			t.Errorf("%d %s, at most %d", n, what, maxCached)
		}
	}
	if len(c.underWay) > 0 {
		t.Errorf("%d connections have jobs under way, want none", len(c.underWay))
	}
}

func parsed(t *testing.T, path string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	must(t, err)
	return file
}
