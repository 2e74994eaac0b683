package server_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/server"
)

// TestUnreadableRequests checks that what no handler reads is answered in JSON, in the form of other errors, with
// what to send instead.
func TestUnreadableRequests(t *testing.T) {
	t.Parallel()
	f := start(t)
	const getJob, sendJSON = jobsPath + "GetJob", "send a POST with -H 'Content-Type: application/json' -d '{…}'"
	for _, c := range []struct {
		method, path, kind, encoding string
		status                       int
		code, says                   string
	}{
		{"POST", getJob, "application/x-www-form-urlencoded", "", 415, "invalid_argument", "application/x-www-form-urlencoded, which curl sends unless told otherwise; " + sendJSON},
		{"POST", getJob, "", "", 415, "invalid_argument", "the request has no Content-Type; " + sendJSON},
		{"POST", getJob, "text/plain; charset=utf-8", "", 415, "invalid_argument", `"text/plain"; ` + sendJSON},
		{"POST", getJob, "multipart/form-data; boundary=x", "", 415, "invalid_argument", `"multipart/form-data"; ` + sendJSON},
		{"POST", getJob, "text/json", "", 415, "invalid_argument", sendJSON},
		{"POST", getJob, "application/json; charset=latin1", "", 415, "invalid_argument", "JSON is read in UTF-8"},
		{"POST", getJob, "application/json; v=1", "", 415, "invalid_argument", "has no parameters"},
		{"POST", getJob, "application/json, text/plain", "", 415, "invalid_argument", sendJSON},
		{"POST", getJob, strings.Repeat("long", 100), "", 415, "invalid_argument", sendJSON},
		{"POST", getJob, "application/proto; charset=utf-8", "", 415, "invalid_argument", sendJSON},
		{"POST", jobsPath + "StreamJobEvents", "application/json", "", 415, "invalid_argument", "Content-Type: application/connect+json"},
		{"POST", getJob, "application/json", "br", 501, "unimplemented", "compressed in a way that is not known"},
		{"POST", getJob, "application/json", "gzip", 400, "invalid_argument", "compressed by gzip, and it is not"},
		{"GET", getJob, "", "", 415, "invalid_argument", "encoding=json and message=%7B%7D"},
		{"GET", scheduleJob, "", "", 405, "unimplemented", "this RPC has no GET; " + sendJSON},
		{"PUT", getJob, "application/json", "", 405, "unimplemented", "this RPC has no PUT"},
		{"BREW", getJob, "application/json", "", 405, "unimplemented", "this RPC has no such method"},
		{"POST", jobsPath + "GetJobb", "application/json", "", 404, "unimplemented", "did you mean " + getJob + "?"},
		{"POST", jobsPath + "getjob", "application/json", "", 404, "unimplemented", "did you mean " + getJob + "?"},
		{"GET", "/fireonce.v1.JobServce/GetJob", "", "", 404, "unimplemented", "did you mean " + getJob + "?"},
		{"POST", "/v1/ScheduleJob", "text/plain", "", 404, "unimplemented", "did you mean " + scheduleJob + "?"},
		{"POST", jobsPath + "Enqueue", "application/json", "", 404, "unimplemented", "fireonce.v1.JobService has BatchScheduleJobs, "},
		{"GET", "/nothing", "", "", 404, "unimplemented", "there is nothing at this path; RPCs are at /fireonce.v1.JobService/…"},
		{"POST", "/", "", "", 405, "unimplemented", "read by GET"},
		{"POST", "/status", "", "", 405, "unimplemented", "read by GET"},
	} {
		header := map[string]string{"Content-Type": c.kind}
		if c.encoding != "" {
			header["Content-Encoding"] = c.encoding
		}
		res, answer := f.do(c.method, c.path, "{}", header)
		var got struct {
			Code, Message string
			Details       []struct {
				Type  string
				Debug struct{ Reason string }
			}
		}
		if err := json.Unmarshal([]byte(answer), &got); err != nil || res.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%+v: %v: %s", c, err, answer)
			continue
		}
		if res.StatusCode != c.status || got.Code != c.code || !strings.Contains(got.Message, c.says) || len(answer) > 2000 {
			t.Errorf("%+v: %d %s", c, res.StatusCode, answer)
		}
		if len(got.Details) < 2 || got.Details[0].Type != "fireonce.v1.ErrorDetail" ||
			c.code == "invalid_argument" && got.Details[0].Debug.Reason != fireoncev1.ErrorReason_ERROR_REASON_REQUEST_INVALID.String() {
			t.Errorf("%+v: details %v", c, got.Details)
		}
	}
}

// TestUnreadableOfGRPC checks that clients of gRPC get an answer of gRPC.
func TestUnreadableOfGRPC(t *testing.T) {
	t.Parallel()
	f := start(t)
	for _, kind := range []string{"application/grpc", "application/grpc-web+proto"} {
		res, answer := f.do(http.MethodPost, jobsPath+"GetJobb", "", map[string]string{"Content-Type": kind})
		status := res.Header.Get("Grpc-Status") + res.Trailer.Get("Grpc-Status")
		if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != kind || status != "12" || answer != "" {
			t.Errorf("%s: %d %v %q", kind, res.StatusCode, res.Header, answer)
		}
		res, _ = f.do(http.MethodPost, jobsPath+"GetJob", "", map[string]string{"Content-Type": "application/grpc+thrift"})
		if res.StatusCode != http.StatusUnsupportedMediaType {
			t.Errorf("%s: %d", kind, res.StatusCode)
		}
	}
}

// TestUnreadableNeedsTheKey checks that a caller without the key learns that first.
func TestUnreadableNeedsTheKey(t *testing.T) {
	t.Parallel()
	f := start(t, func(c *server.Config) { c.APIKey = "open-sesame-0123456789" })
	if res, answer := f.do(http.MethodPost, scheduleJob, "{}", nil); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("%d %s", res.StatusCode, answer)
	}
}
