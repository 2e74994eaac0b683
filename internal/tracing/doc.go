// Package tracing records a server's work as OpenTelemetry spans, and carries the trace
// context of a call to the job that it submits and on to the job's target. docs/traces.md is
// the contract: every span, its attributes and events, and when a trace is continued; a test
// compares it with the exported spans.
//
// Spans are off unless the environment configures an exporter (see FromEnv): a nil *Tracer
// records none. Trace contexts are carried in either case.
package tracing
