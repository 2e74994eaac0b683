package server_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
)

// TestTimeZones: every field for a zone takes the same names, and answers another text with the name that was probably meant.
func TestTimeZones(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		in := func(zone string) *fireoncev1.LocalTime {
			return &fireoncev1.LocalTime{DateTime: "2026-12-24T18:00:00", TimeZone: zone}
		}
		spec := func(zone string) *schedulesv1.ScheduleSpec {
			return &schedulesv1.ScheduleSpec{TimeZone: zone, CronExpressions: []string{"0 9 * * *"}}
		}
		later := f.schedule(f.request("later", at(f.clock.Now().Add(time.Hour))))
		id, n := later.GetJobId(), 0
		for place, call := range map[string]func(zone string) error{
			"time_zone": func(zone string) error {
				n++
				_, err := ask[fireoncev1.ScheduleJobResponse](t, c, scheduleJob, f.request(fmt.Sprint("zone-", n), func(r *fireoncev1.ScheduleJobRequest) { r.TimeZone = zone }))
				return err
			},
			"local_time.time_zone": func(zone string) error {
				n++
				_, err := ask[fireoncev1.ScheduleJobResponse](t, c, scheduleJob, f.request(fmt.Sprint("zone-", n), func(r *fireoncev1.ScheduleJobRequest) { r.LocalTime = in(zone) }))
				return err
			},
			"UpdateJob time_zone": func(zone string) error {
				_, err := ask[fireoncev1.UpdateJobResponse](t, c, jobsPath+"UpdateJob", &fireoncev1.UpdateJobRequest{
					Job: &fireoncev1.UpdateJobRequest_JobId{JobId: id}, Etag: f.read(c, id).GetEtag(), TimeZone: zone, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"time_zone"}},
				})
				return err
			},
			"RescheduleJob local_time.time_zone": func(zone string) error {
				_, err := ask[fireoncev1.RescheduleJobResponse](t, c, jobsPath+"RescheduleJob", &fireoncev1.RescheduleJobRequest{
					Job: &fireoncev1.RescheduleJobRequest_JobId{JobId: id}, Etag: f.read(c, id).GetEtag(), LocalTime: in(zone),
				})
				return err
			},
			"PreviewSchedule spec.time_zone": func(zone string) error {
				_, err := ask[schedulesv1.PreviewScheduleResponse](t, c, schedsPath+"PreviewSchedule", &schedulesv1.PreviewScheduleRequest{
					Subject: &schedulesv1.PreviewScheduleRequest_Spec{Spec: spec(zone)},
				})
				return err
			},
			"CreateSchedule spec.time_zone": func(zone string) error {
				n++
				_, err := ask[schedulesv1.CreateScheduleResponse](t, c, schedsPath+"CreateSchedule", f.newSchedule(fmt.Sprint("zone-", n), func(r *createScheduleRequest) { r.Spec = spec(zone) }))
				return err
			},
		} {
			for _, zone := range []string{"UTC", "Europe/Vienna", "US/Eastern", "Asia/Calcutta", "Etc/GMT-2"} {
				if err := call(zone); err != nil {
					t.Errorf("%s: %q: %v", place, zone, err)
				}
			}
			_, field, cut := strings.Cut(place, " ")
			if !cut {
				field = place
			}
			for zone, meant := range map[string]string{
				"Local": "such as Europe/Vienna", "localtime": "such as Europe/Vienna", "posixrules": "such as Europe/Vienna",
				"Factory": "such as Europe/Vienna", "posix/Europe/Vienna": "write Europe/Vienna", "right/UTC": "write UTC", "europe/vienna": "write Europe/Vienna",
				"W. Europe Standard Time": "write Europe/Berlin", "+02:00": "Etc/GMT-2, which is +02:00 all year", "GMT+2": "Etc/GMT-2, which is +02:00 all year",
				"CEST": "write Europe/Berlin, ", "America/New York": "write America/New_York", "Vienna": "write Europe/Vienna", "S\u00e3o Paulo": "write America/Sao_Paulo",
				"/": "a region and a city",
			} {
				err := call(zone)
				if err == nil || !strings.Contains(err.Error(), field+": \""+strings.Trim(strconv.Quote(zone), "\"")) || !strings.Contains(err.Error(), meant) {
					t.Errorf("%s: %q: %v; want %q", place, zone, err, meant)
				}
			}
		}
	})
}
