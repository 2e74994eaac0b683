package server

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/recur"
)

// timeNamed is a request that names a time in one of two ways.
type timeNamed interface {
	GetScheduleTime() *timestamppb.Timestamp
	GetLocalTime() *fireoncev1.LocalTime
}

// timeField is the field by which a request names its time.
func timeField(req timeNamed) string {
	if req.GetLocalTime() != nil {
		return "local_time"
	}
	return "schedule_time"
}

// requestedTime is the time that a request names: an instant, or a time on the clocks of a zone.
// Zero: none.
func (s *Server) requestedTime(req timeNamed) (at time.Time, mark fireoncev1.TimeMark, err error) {
	if local := req.GetLocalTime(); local != nil {
		return s.localTime("local_time", local)
	}
	at, err = timeFromWire("schedule_time", req.GetScheduleTime())
	return at, mark, err
}

// localTime finds the instant of a time on the clocks of a zone.
func (s *Server) localTime(field string, t *fireoncev1.LocalTime) (time.Time, fireoncev1.TimeMark, error) {
	zone, err := s.cfg.Scheduler.Zones().Load(t.GetTimeZone())
	if err != nil {
		return time.Time{}, 0, badField(under(field, "time_zone"), "time_zone", err.Error())
	}
	civil, err := recur.ParseCivil(t.GetDateTime())
	if err != nil {
		return time.Time{}, 0, badField(under(field, "date_time"), "local_time", err.Error())
	}
	at, mark := zone.Resolve(civil)
	return at, fireoncev1.TimeMark(mark), nil
}
