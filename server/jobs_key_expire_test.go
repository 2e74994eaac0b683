package server_test

import (
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

// mindful is a connector whose targets never forget a key.
type mindful struct{ stub }

func (m mindful) Describe() connector.Description {
	d := m.stub.Describe()
	d.EndlessKeys = true
	return d
}

// TestKeyExpireTime is as long as the key is kept: 30 days, the connection's key window where
// that is longer, and unset where it is kept forever or the job has not ended.
func TestKeyExpireTime(t *testing.T) {
	const day = 24 * time.Hour
	f := start(t, func(c *server.Config) {
		var err error
		c.Connectors, err = connector.NewRegistry(
			stub{"stub", []job.Class{job.Opaque, job.Keyed}, true}, mindful{stub{"mindful", []job.Class{job.Keyed}, true}},
		)
		if err != nil {
			t.Fatal(err)
		}
	})
	for i, tt := range []struct {
		connector string
		window    time.Duration
		kept      time.Duration // 0: forever
	}{{"stub", time.Hour, 30 * day}, {"stub", 60 * day, 60 * day}, {"mindful", 60 * day, 0}} {
		key := string(rune('a' + i))
		id := job.ID{15: byte(80 + i)}
		_, _, err := f.store.CreateConnection(t.Context(), store.NewConnection{Key: key, Connection: store.Connection{
			ID: id, Project: server.DefaultProject, Connector: tt.connector, Class: job.Keyed, KeyWindow: tt.window,
		}})
		f.must(err)
		j := f.schedule(f.request(key, onKey(key)))
		if j.GetKeyExpireTime() != nil {
			t.Errorf("%s: a job that has not ended: %v", tt.connector, j.GetKeyExpireTime())
		}
		c := overConnect(f)
		f.must(c.call(t.Context(), jobsPath+"CancelJob", &fireoncev1.CancelJobRequest{Job: &fireoncev1.CancelJobRequest_JobId{JobId: j.GetJobId()}}, &fireoncev1.CancelJobResponse{}))
		got := f.read(c, j.GetJobId())
		switch {
		case tt.kept == 0 && got.GetKeyExpireTime() != nil:
			t.Errorf("%s: %v, want none", tt.connector, got.GetKeyExpireTime())
		case tt.kept != 0 && !got.GetKeyExpireTime().AsTime().Equal(got.GetEndTime().AsTime().Add(tt.kept)):
			t.Errorf("%s, window %v: %v after the end, want %v", tt.connector, tt.window, got.GetKeyExpireTime().AsTime().Sub(got.GetEndTime().AsTime()), tt.kept)
		}
	}
}
