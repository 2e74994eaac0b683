package server

import (
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/fireonce/fireonce/gen/fireonce/v1/fireoncev1connect"
)

// Rules of this file:
//   - a scope that changes objects does not read them. A call that changes something
//     answers a caller without the read scope with a receipt: what the call did, and
//     what is needed to go on (ids, states, times, etags). Content stays out;
//   - a receipt is a list of the fields that stay, so a field that is added to an
//     answer is withheld until this table names it;
//   - the rule does not depend on the object's origin. A repeat is answered like the
//     first call, and a client knows what it has sent itself.

// keptFields names the fields that stay in a message. A nil value keeps the field whole.
type keptFields map[protoreflect.Name]keptFields

// receipt is what an RPC's answer shows. The zero receipt hides nothing: the scope
// that the RPC needs is the one that guards its answer.
type receipt struct {
	// scope is what a caller needs to see the whole answer.
	scope string
	// keeps is the answer that all other callers see.
	keeps keptFields
}

var wholeAnswer = receipt{}

// keptOfJob is what a caller without jobs:read sees of a job.
var keptOfJob = keptFields{
	"job_id": nil, "project_id": nil, "state": nil, "effect_class": nil, "schedule_time": nil, "start_deadline": nil,
	"wait_deadline": nil, "resend_allowed_time": nil,
	"next_attempt_time": nil, "next_look_time": nil, "attempt_count": nil, "failure_count": nil, "round": nil,
	"cancel_request_time": nil, "create_time": nil, "update_time": nil, "end_time": nil, "key_expire_time": nil,
	"sequence": nil, "etag": nil,
}

// keptOfSubmit is what a submit's caller sees: the request names the connection, and
// names the key or has it derived.
var keptOfSubmit = keptFields{
	"job": plus(keptOfJob, "idempotency_key", "connection_id"), "created": nil, "warnings": nil, "local_time_mark": nil,
}

// keptOfBulk has counts and no ids. Failures keep their reasons.
var keptOfBulk = keptFields{"result": {
	"matched": nil, "changed": nil, "next_page_token": nil, "as_of_time": nil,
	"failures": {"error": {"code": nil, "detail": {"reason": nil}}},
}}

// keptOfConnection is what a caller without connections:read sees of a connection.
var keptOfConnection = keptFields{
	"connection_id": nil, "project_id": nil, "connector": nil, "state": nil, "state_cause": nil, "pause_time": nil,
	"auth_hold_time": nil, "rate_limit_end_time": nil, "effect_class": nil, "create_time": nil, "update_time": nil,
	"delete_time": nil, "etag": nil,
}

// keptOfSchedule is what a caller without schedules:read sees of a schedule.
var keptOfSchedule = keptFields{
	"schedule_id": nil, "project_id": nil, "state": nil, "pause_cause": nil, "pause_time": nil, "next_fire_time": nil,
	"counts": nil, "create_time": nil, "update_time": nil, "delete_time": nil, "etag": nil,
}

// keptOfFiring is what such a caller sees of a firing that made a job.
var keptOfFiring = keptFields{
	"name": nil, "nominal_time": nil, "origin": nil, "outcome": nil, "job_id": nil, "run": nil, "decide_time": nil,
}

// keptOfItem is what such a caller sees of an item of a schedule's queue.
var keptOfItem = keptFields{
	"schedule_id": nil, "item_id": nil, "state": nil, "position": nil, "job_id": nil, "create_time": nil, "update_time": nil, "etag": nil,
}

// keptOfBulkSchedules is keptOfBulk for schedules.
var keptOfBulkSchedules = keptFields{"result": {
	"matched": nil, "changed": nil, "next_page_token": nil,
	"failures": {"error": {"code": nil, "detail": {"reason": nil}}},
}}

// receiptOf is the whole table. An RPC that it does not name is not served.
var receiptOf = map[string]receipt{
	fireoncev1connect.JobServiceGetJobProcedure:              wholeAnswer,
	fireoncev1connect.JobServiceListJobsProcedure:            wholeAnswer,
	fireoncev1connect.JobServiceListJobAttemptsProcedure:     wholeAnswer,
	fireoncev1connect.JobServiceListJobObservationsProcedure: wholeAnswer,
	fireoncev1connect.JobServiceListJobEventsProcedure:       wholeAnswer,
	fireoncev1connect.JobServiceStreamJobEventsProcedure:     wholeAnswer,
	fireoncev1connect.StatsServiceGetStatsProcedure:          wholeAnswer,
	fireoncev1connect.StatsServiceCountJobsProcedure:         wholeAnswer,
	fireoncev1connect.StatsServiceQueryStatsProcedure:        wholeAnswer,

	fireoncev1connect.JobServiceScheduleJobProcedure: {ScopeJobsRead, keptOfSubmit},
	fireoncev1connect.JobServiceBatchScheduleJobsProcedure: {ScopeJobsRead, keptFields{
		"results": {"success": keptOfSubmit, "error": nil},
	}},
	fireoncev1connect.JobServiceUpdateJobProcedure:       {ScopeJobsRead, keptFields{"job": keptOfJob}},
	fireoncev1connect.JobServiceCancelJobProcedure:       {ScopeJobsRead, keptFields{"job": keptOfJob, "prevented": nil}},
	fireoncev1connect.JobServiceRescheduleJobProcedure:   {ScopeJobsRead, keptFields{"job": keptOfJob, "local_time_mark": nil}},
	fireoncev1connect.JobServiceRunJobNowProcedure:       {ScopeJobsRead, keptFields{"job": keptOfJob}},
	fireoncev1connect.JobServiceRetryJobProcedure:        {ScopeJobsRead, keptFields{"job": keptOfJob}},
	fireoncev1connect.JobServiceResolveJobProcedure:      {ScopeJobsRead, keptFields{"job": keptOfJob}},
	fireoncev1connect.JobServiceBulkCancelJobsProcedure:  {ScopeJobsRead, keptOfBulk},
	fireoncev1connect.JobServiceBulkRetryJobsProcedure:   {ScopeJobsRead, keptOfBulk},
	fireoncev1connect.JobServiceBulkResolveJobsProcedure: {ScopeJobsRead, keptOfBulk},

	fireoncev1connect.JobServiceDeleteJobProcedure: wholeAnswer, // names no person
	fireoncev1connect.JobServiceRunDueProcedure:    wholeAnswer, // has a count and a time

	fireoncev1connect.ConnectionServiceGetConnectionProcedure:   wholeAnswer,
	fireoncev1connect.ConnectionServiceListConnectionsProcedure: wholeAnswer,
	fireoncev1connect.ConnectionServiceListConnectorsProcedure:  wholeAnswer,

	fireoncev1connect.ConnectionServiceCreateConnectionProcedure: {ScopeConnectionsRead, keptFields{
		"connection": plus(keptOfConnection, "idempotency_key"), "created": nil,
	}},
	fireoncev1connect.ConnectionServiceUpdateConnectionProcedure: {ScopeConnectionsRead, keptFields{"connection": keptOfConnection}},
	fireoncev1connect.ConnectionServiceRotateCredentialProcedure: {ScopeConnectionsRead, keptFields{"connection": keptOfConnection}},
	fireoncev1connect.ConnectionServicePauseConnectionProcedure:  {ScopeConnectionsRead, keptFields{"connection": keptOfConnection}},
	fireoncev1connect.ConnectionServiceResumeConnectionProcedure: {ScopeConnectionsRead, keptFields{"connection": keptOfConnection}},
	fireoncev1connect.ConnectionServiceCompleteOAuthProcedure: {ScopeConnectionsRead, keptFields{
		"connection": plus(keptOfConnection, "idempotency_key"), "created": nil,
	}},
	// The words of a test name the account and quote the platform.
	fireoncev1connect.ConnectionServiceTestConnectionProcedure: {ScopeConnectionsRead, keptFields{
		"ok": nil, "failure_kind": nil, "platform_reached": nil,
	}},
	fireoncev1connect.ConnectionServiceDeleteConnectionProcedure: wholeAnswer, // is empty
	fireoncev1connect.ConnectionServiceStartOAuthProcedure:       wholeAnswer, // is the caller's own login

	fireoncev1connect.ScheduleServiceGetScheduleProcedure:     wholeAnswer,
	fireoncev1connect.ScheduleServiceListSchedulesProcedure:   wholeAnswer,
	fireoncev1connect.ScheduleServiceListFiringsProcedure:     wholeAnswer,
	fireoncev1connect.ScheduleServicePreviewScheduleProcedure: wholeAnswer,

	fireoncev1connect.ScheduleServiceCreateScheduleProcedure: {ScopeSchedulesRead, keptFields{
		"schedule": plus(keptOfSchedule, "idempotency_key"), "created": nil,
	}},
	fireoncev1connect.ScheduleServiceUpdateScheduleProcedure:    {ScopeSchedulesRead, keptFields{"schedule": keptOfSchedule}},
	fireoncev1connect.ScheduleServiceDeleteScheduleProcedure:    {ScopeSchedulesRead, keptFields{"schedule": keptOfSchedule}},
	fireoncev1connect.ScheduleServicePauseScheduleProcedure:     {ScopeSchedulesRead, keptFields{"schedule": keptOfSchedule}},
	fireoncev1connect.ScheduleServiceResumeScheduleProcedure:    {ScopeSchedulesRead, keptFields{"schedule": keptOfSchedule}},
	fireoncev1connect.ScheduleServiceSkipFiringProcedure:        {ScopeSchedulesRead, keptFields{"schedule": keptOfSchedule}},
	fireoncev1connect.ScheduleServiceListScheduleItemsProcedure: wholeAnswer,
	fireoncev1connect.ScheduleServiceAddScheduleItemProcedure: {ScopeSchedulesRead, keptFields{
		"item": plus(keptOfItem, "idempotency_key"), "created": nil,
	}},
	fireoncev1connect.ScheduleServiceUpdateScheduleItemProcedure:  {ScopeSchedulesRead, keptFields{"item": keptOfItem}},
	fireoncev1connect.ScheduleServiceMoveScheduleItemProcedure:    {ScopeSchedulesRead, keptFields{"item": keptOfItem}},
	fireoncev1connect.ScheduleServiceRemoveScheduleItemProcedure:  {ScopeSchedulesRead, keptFields{"item": keptOfItem}},
	fireoncev1connect.ScheduleServiceBulkPauseSchedulesProcedure:  {ScopeSchedulesRead, keptOfBulkSchedules},
	fireoncev1connect.ScheduleServiceBulkResumeSchedulesProcedure: {ScopeSchedulesRead, keptOfBulkSchedules},
	fireoncev1connect.ScheduleServiceTriggerScheduleProcedure: {ScopeSchedulesRead, keptFields{
		"firing": keptOfFiring, "created": nil,
	}},
	fireoncev1connect.ScheduleServiceBackfillScheduleProcedure: {ScopeSchedulesRead, keptFields{
		"firings": keptOfFiring, "present": nil, "next_page_token": nil,
	}},

	fireoncev1connect.AccessServiceCreateApiKeyProcedure:     wholeAnswer,
	fireoncev1connect.AccessServiceListApiKeysProcedure:      wholeAnswer,
	fireoncev1connect.AccessServiceRevokeApiKeyProcedure:     wholeAnswer,
	fireoncev1connect.AccessServiceListSealingKeysProcedure:  wholeAnswer,
	fireoncev1connect.AccessServiceRotateSealingKeyProcedure: wholeAnswer,
	fireoncev1connect.AccessServiceEraseProjectProcedure:     wholeAnswer, // has counts
}

// plus returns a list with more fields.
func plus(list keptFields, more ...protoreflect.Name) keptFields {
	out := keptFields{}
	for name, within := range list {
		out[name] = within
	}
	for _, name := range more {
		out[name] = nil
	}
	return out
}
