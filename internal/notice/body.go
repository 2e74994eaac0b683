package notice

import (
	"bytes"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/subscriptionsv1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// MaxBody bounds the bytes of a notice's body. Events beyond it are in the next notice.
const MaxBody = 200 << 10

// types are the names of the kinds in Notice.type.
var types = map[store.NoticeKind]string{
	store.NoticeEvents: "events", store.NoticeDigest: "digest", store.NoticeTest: "test",
	store.NoticeSilence: "silence", store.NoticeRecovered: "recovered", store.NoticeConnections: "connections",
}

// fit returns how many of the events, which are encoded in JSON, a body has room for; one at least.
func fit(events []*fireoncev1.JobEvent) int {
	size := 0
	for i, e := range events {
		// JSON names its fields, and binary does not.
		if size += 3*proto.Size(e) + 256; size > MaxBody && i > 0 {
			return i
		}
	}
	return len(events)
}

// digest counts events. shown are the examples.
func digest(events []told, keys map[job.ID]string, cause func(job.Cause) fireoncev1.EventCause, shown []*fireoncev1.JobEvent) *subscriptionsv1.NoticeDigest {
	out := &subscriptionsv1.NoticeDigest{
		EventCount: int64(len(events)), Examples: shown[:fit(shown)],
		FirstEventTime: timestamppb.New(events[0].At), LastEventTime: timestamppb.New(events[len(events)-1].At),
	}
	for _, g := range groups(events) {
		out.Groups = append(out.Groups, &subscriptionsv1.NoticeGroup{
			ConnectionKey: keys[g.connection], ConnectionId: g.connection.String(), NewState: fireoncev1.JobState(g.state),
			Cause: cause(g.cause), EventCount: g.count,
		})
	}
	return out
}

// body returns the notice in JSON, in one form: protojson's own differs from build to build.
func body(n *subscriptionsv1.Notice) (string, error) {
	text, err := protojson.Marshal(n)
	if err != nil {
		return "", fmt.Errorf("encode a notice: %w", err)
	}
	var out bytes.Buffer
	if err := json.Compact(&out, text); err != nil {
		return "", fmt.Errorf("encode a notice: %w", err)
	}
	return out.String(), nil
}
