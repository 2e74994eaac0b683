// Package tracing makes spans of what a server does (OpenTelemetry), and carries the trace
// context of a call to the job that it submits and on to the job's target. docs/traces.md is
// the contract: every span, its attributes and events, and when a trace is continued; a test
// compares it with what is exported.
//
// Spans are off unless the environment configures an exporter (see FromEnv): a nil *Tracer
// records nothing. Trace contexts are carried all the same.
package tracing
