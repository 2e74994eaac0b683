package server

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fireonce/fireonce/clients/go/adminv1/adminv1connect"
	"github.com/fireonce/fireonce/clients/go/connectionsv1/connectionsv1connect"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1/fireoncev1connect"
	"github.com/fireonce/fireonce/clients/go/schedulesv1/schedulesv1connect"
	"github.com/fireonce/fireonce/clients/go/subscriptionsv1/subscriptionsv1connect"
)

// Rules of this file: the table alone decides what a key may do. No scope includes another. An RPC
// that the table does not name cannot be called.

// What an API key may be allowed to do.
const (
	// ScopeJobsRead: look at jobs, their history, their events, and figures.
	ScopeJobsRead = "jobs:read"
	// ScopePayloadsRead: see content, in addition to the scope that shows the message which has it
	// (auth_content.go).
	ScopePayloadsRead = "payloads:read"
	// ScopeJobsWrite: schedule jobs, change and cancel them, and try again what has
	// failed.
	ScopeJobsWrite = "jobs:write"
	// ScopeJobsResolve: decide the outcome of an attempt that Fireonce cannot find out. The
	// decision that it had no effect may send it twice.
	ScopeJobsResolve = "jobs:resolve"
	// ScopeJobsDelete: erase jobs that have ended.
	ScopeJobsDelete = "jobs:delete"
	// ScopeConnectionsRead: look at connections and connectors, never at credentials.
	ScopeConnectionsRead = "connections:read"
	// ScopeConnectionsWrite: make, change, hold and delete connections, hand over their
	// credentials, and pause what is sent.
	ScopeConnectionsWrite = "connections:write"
	// ScopeEffectKeysWrite: give jobs effect keys of one's own, in addition to the scope that the
	// call needs.
	ScopeEffectKeysWrite = "effect-keys:write"
	// ScopeSchedulesRead: look at schedules and their firings.
	ScopeSchedulesRead = "schedules:read"
	// ScopeSchedulesWrite: make, change, pause and delete schedules, and have them make jobs.
	ScopeSchedulesWrite = "schedules:write"
	// ScopeSubscriptionsRead: look at subscriptions and their notices.
	ScopeSubscriptionsRead = "subscriptions:read"
	// ScopeSubscriptionsWrite: make, change, test and delete subscriptions, which send what
	// happened to jobs to a connection of the project.
	ScopeSubscriptionsWrite = "subscriptions:write"
	// ScopeWorkRun: have the server work what is due, and learn when something will be.
	ScopeWorkRun = "work:run"
	// ScopeAdmin: make, list and revoke keys of one's project, and look at the server
	// itself, which all projects share.
	ScopeAdmin = "admin"
)

// Scopes returns all of them.
func Scopes() []string {
	return []string{
		ScopeJobsRead, ScopePayloadsRead, ScopeJobsWrite, ScopeJobsResolve, ScopeJobsDelete, ScopeEffectKeysWrite,
		ScopeConnectionsRead, ScopeConnectionsWrite, ScopeSchedulesRead, ScopeSchedulesWrite,
		ScopeSubscriptionsRead, ScopeSubscriptionsWrite, ScopeWorkRun, ScopeAdmin,
	}
}

// ParseScopes reads scopes, separated by commas, in the order of Scopes and each
// once. "all" is every one of them. It fails when there is none, or one that does
// not exist.
func ParseScopes(text string) ([]string, error) {
	if text == "all" {
		return Scopes(), nil
	}
	asked := strings.Split(text, ",")
	for _, s := range asked {
		if !slices.Contains(Scopes(), s) {
			return nil, fmt.Errorf("no scope %q; there are %s, and all", s, strings.Join(Scopes(), ", "))
		}
	}
	return slices.DeleteFunc(Scopes(), func(s string) bool { return !slices.Contains(asked, s) }), nil
}

// access is what a caller needs for a call, and what it sees of the answer.
type access struct {
	scope string
	// keeps is the answer that callers see without the scope that reads; nil: all see the whole one.
	keeps keptFields
}

// reads is the scope that shows the whole answer of a call that changes something.
func (a access) reads() string {
	kind, _, _ := strings.Cut(a.scope, ":")
	return kind + ":read"
}

// accessOf is the whole table of procedures. One that it does not name is not served.
var accessOf = map[string]access{
	fireoncev1connect.JobServiceGetJobProcedure:              {scope: ScopeJobsRead},
	fireoncev1connect.JobServiceListJobsProcedure:            {scope: ScopeJobsRead},
	fireoncev1connect.JobServiceListJobAttemptsProcedure:     {scope: ScopeJobsRead},
	fireoncev1connect.JobServiceListJobObservationsProcedure: {scope: ScopeJobsRead},
	fireoncev1connect.JobServiceListJobEventsProcedure:       {scope: ScopeJobsRead},
	fireoncev1connect.JobServiceStreamJobEventsProcedure:     {scope: ScopeJobsRead},
	adminv1connect.StatsServiceGetStatsProcedure:             {scope: ScopeJobsRead},
	adminv1connect.StatsServiceCountJobsProcedure:            {scope: ScopeJobsRead},
	adminv1connect.StatsServiceQueryStatsProcedure:           {scope: ScopeJobsRead},

	adminv1connect.IncidentServiceListIncidentsProcedure: {scope: ScopeJobsRead},
	adminv1connect.IncidentServiceGetIncidentProcedure:   {scope: ScopeJobsRead},
	adminv1connect.IncidentServiceGetPlanProcedure:       {scope: ScopeJobsRead},
	adminv1connect.IncidentServiceListPlansProcedure:     {scope: ScopeJobsRead},
	adminv1connect.IncidentServiceListPlanJobsProcedure:  {scope: ScopeJobsRead},

	fireoncev1connect.JobServiceScheduleJobProcedure: {ScopeJobsWrite, keptOfSubmit},
	fireoncev1connect.JobServiceBatchScheduleJobsProcedure: {ScopeJobsWrite, keptFields{
		"results": {"success": keptOfSubmit, "error": nil},
	}},
	fireoncev1connect.JobServiceUpdateJobProcedure: {ScopeJobsWrite, keptJob},
	fireoncev1connect.JobServiceCancelJobProcedure: {ScopeJobsWrite, keptFields{"job": keptOfJob, "prevented": nil}},
	fireoncev1connect.JobServiceRescheduleJobProcedure: {ScopeJobsWrite, keptFields{
		"job": keptOfJob, "local_time_mark": nil,
	}},
	fireoncev1connect.JobServiceRunJobNowProcedure:        {ScopeJobsWrite, keptJob},
	fireoncev1connect.JobServiceRetryJobProcedure:         {ScopeJobsWrite, keptJob},
	adminv1connect.BulkServiceBulkCancelJobsProcedure:     {ScopeJobsWrite, keptOfBulk},
	adminv1connect.BulkServiceBulkRetryJobsProcedure:      {ScopeJobsWrite, keptOfBulk},
	adminv1connect.BulkServiceBulkRescheduleJobsProcedure: {ScopeJobsWrite, plus(keptOfBulk, "local_time_mark")},

	fireoncev1connect.JobServiceResolveJobProcedure:    {ScopeJobsResolve, keptJob},
	adminv1connect.BulkServiceBulkResolveJobsProcedure: {ScopeJobsResolve, keptOfBulk},

	adminv1connect.IncidentServiceRedeliverJobsProcedure:   {ScopeJobsWrite, keptFields{"plan": keptOfPlan, "unproven_count": nil}},
	adminv1connect.IncidentServiceResolveIncidentProcedure: {ScopeJobsResolve, keptFields{"plan": keptOfPlan}},

	fireoncev1connect.JobServiceDeleteJobProcedure: {scope: ScopeJobsDelete}, // names no person

	connectionsv1connect.ConnectionServiceGetConnectionProcedure:   {scope: ScopeConnectionsRead},
	connectionsv1connect.ConnectionServiceListConnectionsProcedure: {scope: ScopeConnectionsRead},
	connectionsv1connect.ConnectionServiceListConnectorsProcedure:  {scope: ScopeConnectionsRead},

	connectionsv1connect.ConnectionServiceCreateConnectionProcedure: {ScopeConnectionsWrite, keptFields{
		"connection": plus(keptOfConnection, "idempotency_key"), "created": nil,
	}},
	connectionsv1connect.ConnectionServiceUpdateConnectionProcedure: {ScopeConnectionsWrite, keptConnection},
	connectionsv1connect.ConnectionServiceRotateCredentialProcedure: {ScopeConnectionsWrite, keptConnection},
	// The words of a test name the account and quote the platform.
	connectionsv1connect.ConnectionServiceTestConnectionProcedure: {ScopeConnectionsWrite, keptFields{
		"ok": nil, "failure_kind": nil, "platform_reached": nil,
	}},
	connectionsv1connect.ConnectionServicePauseConnectionProcedure:  {ScopeConnectionsWrite, keptConnection},
	connectionsv1connect.ConnectionServiceResumeConnectionProcedure: {ScopeConnectionsWrite, keptConnection},
	connectionsv1connect.ConnectionServiceDeleteConnectionProcedure: {scope: ScopeConnectionsWrite}, // is empty
	connectionsv1connect.ConnectionServiceStartOAuthProcedure:       {scope: ScopeConnectionsWrite}, // is the caller's own login
	connectionsv1connect.ConnectionServiceCompleteOAuthProcedure: {ScopeConnectionsWrite, keptFields{
		"connection": plus(keptOfConnection, "idempotency_key"), "created": nil,
	}},

	schedulesv1connect.ScheduleServiceGetScheduleProcedure:     {scope: ScopeSchedulesRead},
	schedulesv1connect.ScheduleServiceListSchedulesProcedure:   {scope: ScopeSchedulesRead},
	schedulesv1connect.ScheduleServiceListFiringsProcedure:     {scope: ScopeSchedulesRead},
	schedulesv1connect.ScheduleServicePreviewScheduleProcedure: {scope: ScopeSchedulesRead},

	schedulesv1connect.ScheduleServiceCreateScheduleProcedure: {ScopeSchedulesWrite, keptFields{
		"schedule": plus(keptOfSchedule, "idempotency_key"), "created": nil,
	}},
	schedulesv1connect.ScheduleServiceUpdateScheduleProcedure:      {ScopeSchedulesWrite, keptSchedule},
	schedulesv1connect.ScheduleServiceDeleteScheduleProcedure:      {ScopeSchedulesWrite, keptSchedule},
	schedulesv1connect.ScheduleServicePauseScheduleProcedure:       {ScopeSchedulesWrite, keptSchedule},
	schedulesv1connect.ScheduleServiceResumeScheduleProcedure:      {ScopeSchedulesWrite, keptSchedule},
	schedulesv1connect.ScheduleServiceBulkPauseSchedulesProcedure:  {ScopeSchedulesWrite, keptOfBulkSchedules},
	schedulesv1connect.ScheduleServiceBulkResumeSchedulesProcedure: {ScopeSchedulesWrite, keptOfBulkSchedules},
	schedulesv1connect.ScheduleServiceTriggerScheduleProcedure: {ScopeSchedulesWrite, keptFields{
		"firing": keptOfFiring, "created": nil,
	}},
	schedulesv1connect.ScheduleServiceSkipFiringProcedure: {ScopeSchedulesWrite, keptSchedule},
	schedulesv1connect.ScheduleServiceAddScheduleItemProcedure: {ScopeSchedulesWrite, keptFields{
		"item": plus(keptOfItem, "idempotency_key"), "created": nil,
	}},
	schedulesv1connect.ScheduleServiceUpdateScheduleItemProcedure: {ScopeSchedulesWrite, keptItem},
	schedulesv1connect.ScheduleServiceMoveScheduleItemProcedure:   {ScopeSchedulesWrite, keptItem},
	schedulesv1connect.ScheduleServiceRemoveScheduleItemProcedure: {ScopeSchedulesWrite, keptItem},
	schedulesv1connect.ScheduleServiceListScheduleItemsProcedure:  {scope: ScopeSchedulesRead},
	schedulesv1connect.ScheduleServiceBackfillScheduleProcedure: {ScopeSchedulesWrite, keptFields{
		"firings": keptOfFiring, "present": nil, "next_page_token": nil,
	}},

	subscriptionsv1connect.SubscriptionServiceGetSubscriptionProcedure:   {scope: ScopeSubscriptionsRead},
	subscriptionsv1connect.SubscriptionServiceListSubscriptionsProcedure: {scope: ScopeSubscriptionsRead},
	subscriptionsv1connect.SubscriptionServiceListNoticesProcedure:       {scope: ScopeSubscriptionsRead},

	subscriptionsv1connect.SubscriptionServiceCreateSubscriptionProcedure: {ScopeSubscriptionsWrite, keptFields{
		"subscription": plus(keptOfSubscription, "idempotency_key"), "created": nil,
	}},
	subscriptionsv1connect.SubscriptionServiceUpdateSubscriptionProcedure: {ScopeSubscriptionsWrite, keptSubscription},
	subscriptionsv1connect.SubscriptionServicePauseSubscriptionProcedure:  {ScopeSubscriptionsWrite, keptSubscription},
	subscriptionsv1connect.SubscriptionServiceResumeSubscriptionProcedure: {ScopeSubscriptionsWrite, keptSubscription},
	subscriptionsv1connect.SubscriptionServiceDeleteSubscriptionProcedure: {ScopeSubscriptionsWrite, keptSubscription},
	subscriptionsv1connect.SubscriptionServiceTestSubscriptionProcedure:   {ScopeSubscriptionsWrite, keptSubscription},
	subscriptionsv1connect.SubscriptionServiceRedeliverNoticesProcedure:   {ScopeSubscriptionsWrite, keptSubscription},

	adminv1connect.AccessServiceCreateApiKeyProcedure:     {scope: ScopeAdmin},
	adminv1connect.AccessServiceListApiKeysProcedure:      {scope: ScopeAdmin},
	adminv1connect.AccessServiceRevokeApiKeyProcedure:     {scope: ScopeAdmin},
	adminv1connect.AccessServiceListSealingKeysProcedure:  {scope: ScopeAdmin},
	adminv1connect.AccessServiceRotateSealingKeyProcedure: {scope: ScopeAdmin},
	adminv1connect.AccessServiceListProjectsProcedure:     {scope: ScopeAdmin},
	adminv1connect.AccessServiceEraseProjectProcedure:     {scope: ScopeAdmin}, // has counts
	adminv1connect.ServerServiceListServersProcedure:      {scope: ScopeAdmin},
	adminv1connect.ServerServiceRunDueProcedure:           {scope: ScopeWorkRun}, // has a count and a time

	adminv1connect.PauseServiceCreatePauseProcedure: {ScopeConnectionsWrite, keptFields{"pause": keptOfPause, "created": nil, "preview": nil}},
	adminv1connect.PauseServiceEndPauseProcedure:    {ScopeConnectionsWrite, keptFields{"pause": keptOfPause}},
	adminv1connect.PauseServiceListPausesProcedure:  {scope: ScopeJobsRead},

	statusPath: {scope: ScopeAdmin},
}

// permit refuses a call that a caller may not make; nil: it may, or there is no such procedure,
// and the router answers.
func permit(who caller, procedure string) *fault {
	need, known := accessOf[procedure]
	if !known || who.has(need.scope) {
		return nil
	}
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_SCOPE_MISSING,
		"this API key lacks the scope "+need.scope, "scope", need.scope)
}
