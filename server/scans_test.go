package server_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

// Methods of a server's store by what they do. Of those that only read, scans have a bound of
// their own.
var (
	scans = []string{
		"List", "Count", "Stats", "Series", "Events", "ListSchedules", "Firings", "Items", "ListConnections",
		"ListAPIKeys", "Projects", "ListSubscriptions", "KeyUse", "CredentialsOfOthers", "PreviewStop", "Troubles", "Unproven",
	}
	pointReads = []string{
		"Job", "JobNames", "Attempts", "Observations", "Watch", "Schedule", "Subscription", "Notices", "NextFiring", "Item", "Connection", "Hold", "Missed",
		"Credential", "CredentialKeys", "ReadLogin", "APIKey", "StoredJobs", "Holdings", "ErasedJob", "Meta",
		"ListStops", "StopsOver", // there are few
		"Plan", "PlanPage", "RunningPlans",
		"ListPlans", // no more than a page, of small rows
		"Servers",   // costs as much as there is under way
	}
	storeWrites = []string{
		"Create", "Apply", "CreateSchedule", "ChangeSchedule", "Fire", "CreateSubscription", "ChangeSubscription", "AddItem", "ChangeItem", "CreateConnection",
		"ChangeConnection", "Reseal", "StartLogin", "TakeLogin", "CreateAPIKey",
		"RevokeAPIKey", "TouchAPIKey", "EraseJob", "EraseProject", "CreatePlan", "StartPlan", "FinishPage",
		"CreateStop", "EndStop",
	}
)

// TestEveryStoreMethodIsAScanOrNot: a new method of the store is put into one of the lists, and
// a scan gets its bound in scanStore.
func TestEveryStoreMethodIsAScanOrNot(t *testing.T) {
	kinds := map[string]int{}
	for _, list := range [][]string{scans, pointReads, storeWrites} {
		for _, name := range list {
			kinds[name]++
		}
	}
	of := reflect.TypeFor[server.Store]()
	for i := range of.NumMethod() {
		name := of.Method(i).Name
		if kinds[name] != 1 {
			t.Errorf("%s is in %d lists", name, kinds[name])
		}
		delete(kinds, name)
	}
	for name := range kinds {
		t.Errorf("%s is no method", name)
	}
}

// TestEveryScanIsBounded: each scan of the store fails while no more may run.
func TestEveryScanIsBounded(t *testing.T) {
	f := prepare(t)
	if _, err := f.server.TakeScans(t.Context()); err != nil {
		t.Fatal(err)
	}
	of := reflect.ValueOf(f.server.ScanStore())
	for _, name := range scans {
		method := of.MethodByName(name)
		in := []reflect.Value{reflect.ValueOf(t.Context())}
		for i := 1; i < method.Type().NumIn(); i++ {
			arg := reflect.New(method.Type().In(i)).Elem()
			if arg.Kind() == reflect.Struct && arg.FieldByName("Limit").IsValid() {
				arg.FieldByName("Limit").SetInt(store.MaxBatch)
			}
			in = append(in, arg)
		}
		out := method.Call(in)
		if err, _ := out[len(out)-1].Interface().(error); err == nil || !strings.Contains(err.Error(), "as many lists, searches and counts as it may") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// scanCalls are calls whose cost depends on how much is stored.
var scanCalls = map[string]proto.Message{
	"/fireonce.v1.JobService/ListJobs":                           &fireoncev1.ListJobsRequest{},
	"/fireonce.v1.JobService/ListJobEvents":                      &fireoncev1.ListJobEventsRequest{},
	"/fireonce.admin.v1.StatsService/CountJobs":                  &adminv1.CountJobsRequest{},
	"/fireonce.admin.v1.StatsService/GetStats":                   &adminv1.GetStatsRequest{},
	"/fireonce.admin.v1.StatsService/QueryStats":                 &adminv1.QueryStatsRequest{Bucket: adminv1.StatsBucket_STATS_BUCKET_HOUR, StartTime: timestamppb.New(time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC))},
	"/fireonce.schedules.v1.ScheduleService/ListSchedules":       &schedulesv1.ListSchedulesRequest{},
	"/fireonce.connections.v1.ConnectionService/ListConnections": &connectionsv1.ListConnectionsRequest{},
	"/fireonce.admin.v1.AccessService/ListApiKeys":               &adminv1.ListApiKeysRequest{},
	"/fireonce.admin.v1.AccessService/ListSealingKeys":           &adminv1.ListSealingKeysRequest{},
}

// TestScansTakeNoPointReads: while no scan may run, each call that makes one waits and then is
// SERVER_BUSY. What submits and sends need goes on.
func TestScansTakeNoPointReads(t *testing.T) {
	f := start(t)
	c := overConnect(f)
	made := f.schedule(f.request("before"))
	release, err := f.server.TakeScans(t.Context())
	f.must(err)
	for path, req := range scanCalls {
		t.Run(path, func(t *testing.T) {
			wantReason(t, c.call(t.Context(), path, req, new(fireoncev1.ListJobsResponse)), fireoncev1.ErrorReason_ERROR_REASON_SERVER_BUSY)
		})
	}
	t.Run("StreamJobEvents", func(t *testing.T) {
		_, err := c.open(t, fromBeginning).next()
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_SERVER_BUSY)
	})
	f.schedule(f.request("beside-them"))
	f.read(c, made.GetJobId())
	release()
	f.must(c.call(t.Context(), "/fireonce.v1.JobService/ListJobs", &fireoncev1.ListJobsRequest{}, new(fireoncev1.ListJobsResponse)))
}

// TestOneProjectScansOnceAtATime: a project whose scan runs gets no other one, and leaves one to
// others.
func TestOneProjectScansOnceAtATime(t *testing.T) {
	f := prepare(t)
	release, err := f.server.TakeScan(t.Context(), "busy")
	f.must(err)
	list := func(project string) error {
		_, err := f.server.ScanStore().List(t.Context(), store.JobQuery{Project: project, Limit: 1})
		return err
	}
	f.must(list("other"))
	if err := list("busy"); err == nil {
		t.Error("one project has both scans")
	}
	release()
	f.must(list("busy"))
}
