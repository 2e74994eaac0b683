// Package submit converts the contract's requests into jobs of the store. Requests for one job
// and the templates of schedules both use it.
package submit
