// Package submit makes the jobs that the store keeps of what the contract's requests ask
// for. Requests for one job and the templates of schedules both go through it.
package submit
