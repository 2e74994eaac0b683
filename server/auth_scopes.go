package server

import (
	"fmt"
	"slices"
	"strings"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/gen/fireonce/v1/fireoncev1connect"
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
	// ScopeConnectionsWrite: make, change, hold and delete connections, and hand over
	// their credentials.
	ScopeConnectionsWrite = "connections:write"
	// ScopeEffectKeysWrite: give jobs effect keys of one's own, in addition to the scope that the
	// call needs.
	ScopeEffectKeysWrite = "effect-keys:write"
	// ScopeSchedulesRead: look at schedules and their firings.
	ScopeSchedulesRead = "schedules:read"
	// ScopeSchedulesWrite: make, change, pause and delete schedules, and have them make jobs.
	ScopeSchedulesWrite = "schedules:write"
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
		ScopeConnectionsRead, ScopeConnectionsWrite, ScopeSchedulesRead, ScopeSchedulesWrite, ScopeWorkRun, ScopeAdmin,
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

// scopeOf is the whole table from procedures to the scopes that they need.
var scopeOf = map[string]string{
	fireoncev1connect.JobServiceGetJobProcedure:              ScopeJobsRead,
	fireoncev1connect.JobServiceListJobsProcedure:            ScopeJobsRead,
	fireoncev1connect.JobServiceListJobAttemptsProcedure:     ScopeJobsRead,
	fireoncev1connect.JobServiceListJobObservationsProcedure: ScopeJobsRead,
	fireoncev1connect.JobServiceListJobEventsProcedure:       ScopeJobsRead,
	fireoncev1connect.JobServiceStreamJobEventsProcedure:     ScopeJobsRead,
	fireoncev1connect.StatsServiceGetStatsProcedure:          ScopeJobsRead,
	fireoncev1connect.StatsServiceCountJobsProcedure:         ScopeJobsRead,
	fireoncev1connect.StatsServiceQueryStatsProcedure:        ScopeJobsRead,

	fireoncev1connect.JobServiceScheduleJobProcedure:       ScopeJobsWrite,
	fireoncev1connect.JobServiceBatchScheduleJobsProcedure: ScopeJobsWrite,
	fireoncev1connect.JobServiceUpdateJobProcedure:         ScopeJobsWrite,
	fireoncev1connect.JobServiceCancelJobProcedure:         ScopeJobsWrite,
	fireoncev1connect.JobServiceRescheduleJobProcedure:     ScopeJobsWrite,
	fireoncev1connect.JobServiceRunJobNowProcedure:         ScopeJobsWrite,
	fireoncev1connect.JobServiceRetryJobProcedure:          ScopeJobsWrite,
	fireoncev1connect.JobServiceBulkCancelJobsProcedure:    ScopeJobsWrite,
	fireoncev1connect.JobServiceBulkRetryJobsProcedure:     ScopeJobsWrite,

	fireoncev1connect.JobServiceResolveJobProcedure:      ScopeJobsResolve,
	fireoncev1connect.JobServiceBulkResolveJobsProcedure: ScopeJobsResolve,

	fireoncev1connect.JobServiceDeleteJobProcedure: ScopeJobsDelete,

	fireoncev1connect.JobServiceRunDueProcedure: ScopeWorkRun,

	fireoncev1connect.ConnectionServiceGetConnectionProcedure:   ScopeConnectionsRead,
	fireoncev1connect.ConnectionServiceListConnectionsProcedure: ScopeConnectionsRead,
	fireoncev1connect.ConnectionServiceListConnectorsProcedure:  ScopeConnectionsRead,

	fireoncev1connect.ConnectionServiceCreateConnectionProcedure: ScopeConnectionsWrite,
	fireoncev1connect.ConnectionServiceUpdateConnectionProcedure: ScopeConnectionsWrite,
	fireoncev1connect.ConnectionServiceRotateCredentialProcedure: ScopeConnectionsWrite,
	fireoncev1connect.ConnectionServiceTestConnectionProcedure:   ScopeConnectionsWrite,
	fireoncev1connect.ConnectionServicePauseConnectionProcedure:  ScopeConnectionsWrite,
	fireoncev1connect.ConnectionServiceResumeConnectionProcedure: ScopeConnectionsWrite,
	fireoncev1connect.ConnectionServiceDeleteConnectionProcedure: ScopeConnectionsWrite,
	fireoncev1connect.ConnectionServiceStartOAuthProcedure:       ScopeConnectionsWrite,
	fireoncev1connect.ConnectionServiceCompleteOAuthProcedure:    ScopeConnectionsWrite,

	fireoncev1connect.ScheduleServiceGetScheduleProcedure:     ScopeSchedulesRead,
	fireoncev1connect.ScheduleServiceListSchedulesProcedure:   ScopeSchedulesRead,
	fireoncev1connect.ScheduleServiceListFiringsProcedure:     ScopeSchedulesRead,
	fireoncev1connect.ScheduleServicePreviewScheduleProcedure: ScopeSchedulesRead,

	fireoncev1connect.ScheduleServiceCreateScheduleProcedure:      ScopeSchedulesWrite,
	fireoncev1connect.ScheduleServiceUpdateScheduleProcedure:      ScopeSchedulesWrite,
	fireoncev1connect.ScheduleServiceDeleteScheduleProcedure:      ScopeSchedulesWrite,
	fireoncev1connect.ScheduleServicePauseScheduleProcedure:       ScopeSchedulesWrite,
	fireoncev1connect.ScheduleServiceResumeScheduleProcedure:      ScopeSchedulesWrite,
	fireoncev1connect.ScheduleServiceBulkPauseSchedulesProcedure:  ScopeSchedulesWrite,
	fireoncev1connect.ScheduleServiceBulkResumeSchedulesProcedure: ScopeSchedulesWrite,
	fireoncev1connect.ScheduleServiceTriggerScheduleProcedure:     ScopeSchedulesWrite,
	fireoncev1connect.ScheduleServiceSkipFiringProcedure:          ScopeSchedulesWrite,
	fireoncev1connect.ScheduleServiceAddScheduleItemProcedure:     ScopeSchedulesWrite,
	fireoncev1connect.ScheduleServiceUpdateScheduleItemProcedure:  ScopeSchedulesWrite,
	fireoncev1connect.ScheduleServiceMoveScheduleItemProcedure:    ScopeSchedulesWrite,
	fireoncev1connect.ScheduleServiceRemoveScheduleItemProcedure:  ScopeSchedulesWrite,
	fireoncev1connect.ScheduleServiceListScheduleItemsProcedure:   ScopeSchedulesRead,
	fireoncev1connect.ScheduleServiceBackfillScheduleProcedure:    ScopeSchedulesWrite,

	fireoncev1connect.AccessServiceCreateApiKeyProcedure:     ScopeAdmin,
	fireoncev1connect.AccessServiceListApiKeysProcedure:      ScopeAdmin,
	fireoncev1connect.AccessServiceRevokeApiKeyProcedure:     ScopeAdmin,
	fireoncev1connect.AccessServiceListSealingKeysProcedure:  ScopeAdmin,
	fireoncev1connect.AccessServiceRotateSealingKeyProcedure: ScopeAdmin,
	fireoncev1connect.AccessServiceEraseProjectProcedure:     ScopeAdmin,
	statusPath: ScopeAdmin,
}

// permit refuses a call that a caller may not make; nil: it may, or there is no such procedure,
// and the router answers.
func permit(who caller, procedure string) *fault {
	need, known := scopeOf[procedure]
	if !known || who.has(need) {
		return nil
	}
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_SCOPE_MISSING,
		"this API key lacks the scope "+need, "scope", need)
}
