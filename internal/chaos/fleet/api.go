package fleet

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"connectrpc.com/connect"

	"github.com/fireonce/fireonce/gen/fireonce/v1/fireoncev1connect"
)

// API is a server's services, over Connect.
type API struct {
	Jobs        fireoncev1connect.JobServiceClient
	Connections fireoncev1connect.ConnectionServiceClient
	Stats       fireoncev1connect.StatsServiceClient
}

const (
	// maxMessage bounds an answer; a page of 500 jobs is far below.
	maxMessage = 32 << 20
	idleLines  = 64
	idleFor    = 10 * time.Second // many servers come and go in a campaign
)

// Dial makes clients for a server; nothing is sent yet.
func Dial(server string) (*API, error) {
	if u, err := url.Parse(server); err != nil || u.Host == "" {
		return nil, errors.New("not a server's URL: " + server)
	}
	hc := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: idleLines, IdleConnTimeout: idleFor}}
	limit := connect.WithReadMaxBytes(maxMessage)
	return &API{
		Jobs:        fireoncev1connect.NewJobServiceClient(hc, server, limit),
		Connections: fireoncev1connect.NewConnectionServiceClient(hc, server, limit),
		Stats:       fireoncev1connect.NewStatsServiceClient(hc, server, limit),
	}, nil
}

// Final tells whether repeating a call is of no use.
func Final(err error) bool {
	switch connect.CodeOf(err) {
	case connect.CodeUnavailable, connect.CodeUnknown, connect.CodeInternal, connect.CodeDeadlineExceeded,
		connect.CodeAborted, connect.CodeCanceled, connect.CodeResourceExhausted:
		return false
	default:
		return true
	}
}
