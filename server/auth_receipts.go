package server

import (
	"maps"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// Rules of this file:
//   - a scope that changes objects does not read them. A call that changes something
//     answers a caller without the read scope with a receipt: what the call did, and
//     what is needed to go on (ids, states, times, etags). Content stays out;
//   - a receipt is a list of the fields that stay, so a field that is added to an
//     answer is withheld until a receipt names it;
//   - the rule does not depend on the object's origin. A repeat is answered like the
//     first call, and a client knows what it has sent itself.

// keptFields names the fields that stay in a message. A nil value keeps the field whole.
type keptFields map[protoreflect.Name]keptFields

// keptOfJob is what a caller without jobs:read sees of a job.
var keptOfJob = keptFields{
	"job_id": nil, "project_id": nil, "state": nil, "phase": nil, "effect_class": nil, "schedule_time": nil, "start_deadline": nil, "keep_trying_time": nil,
	"wait_deadline": nil, "resend_allowed_time": nil,
	"next_attempt_time": nil, "next_look_time": nil, "attempt_count": nil, "failure_count": nil, "resend_count": nil,
	"cancel_request_time": nil, "create_time": nil, "update_time": nil, "end_time": nil, "key_expire_time": nil,
	"sequence": nil, "etag": nil,
}

// keptOfSubmit is what a submit's caller sees: the request names the connection, and
// names the key or has it derived.
var keptOfSubmit = keptFields{
	"job": plus(keptOfJob, "idempotency_key", "connection_id", "connection_key"), "created": nil, "warnings": nil, "local_time_mark": nil,
}

// keptOfBulk has counts and no ids. Failures keep their reasons.
var keptOfBulk = keptFields{"result": {
	"matched": nil, "changed": nil, "next_page_token": nil, "as_of_time": nil,
	"failures": {"error": {"code": nil, "detail": {"reason": nil}}},
}}

// keptOfPlan has counts and no jobs.
var keptOfPlan = keptFields{
	"plan_id": nil, "state": nil, "job_count": nil, "planned_count": nil, "changed_count": nil, "left_out_count": nil, "incomplete": nil,
	"create_time": nil, "start_time": nil, "end_time": nil,
}

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

// keptOfSubscription is what a caller without subscriptions:read sees of a subscription.
var keptOfSubscription = keptFields{
	"subscription_id": nil, "project_id": nil, "state": nil, "pause_cause": nil, "pause_time": nil, "last_notice_number": nil,
	"create_time": nil, "update_time": nil, "delete_time": nil, "etag": nil,
}

// keptOfFiring is what such a caller sees of a firing that made a job.
var keptOfFiring = keptFields{
	"name": nil, "nominal_time": nil, "origin": nil, "outcome": nil, "job_id": nil, "run": nil, "decide_time": nil,
}

// keptOfItem is what such a caller sees of an item of a schedule's queue.
var keptOfItem = keptFields{
	"schedule_id": nil, "item_id": nil, "state": nil, "position": nil, "job_id": nil, "create_time": nil, "update_time": nil, "etag": nil,
}

// keptOfPause is what a caller without connections:read sees of a pause: its own request, and when.
var keptOfPause = keptFields{
	"pause_id": nil, "state": nil, "cause": nil, "begin_time": nil, "end_time": nil, "create_time": nil, "ended_time": nil, "project_id": nil,
}

// keptOfBulkSchedules is keptOfBulk for schedules.
var keptOfBulkSchedules = keptFields{"result": {
	"matched": nil, "changed": nil, "next_page_token": nil,
	"failures": {"error": {"code": nil, "detail": {"reason": nil}}},
}}

// The answers of calls on one object.
var (
	keptJob          = keptFields{"job": keptOfJob}
	keptConnection   = keptFields{"connection": keptOfConnection}
	keptSchedule     = keptFields{"schedule": keptOfSchedule}
	keptSubscription = keptFields{"subscription": keptOfSubscription}
	keptItem         = keptFields{"item": keptOfItem}
)

// plus returns a list with more fields.
func plus(list keptFields, more ...protoreflect.Name) keptFields {
	out := maps.Clone(list)
	for _, name := range more {
		out[name] = nil
	}
	return out
}
