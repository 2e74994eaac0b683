// Package server is Fireonce's API: it answers Connect, gRPC and gRPC-Web on
// one port.
//
// A handler converts, calls and converts: every conversion between the wire and
// the domain is in a wire file, every error becomes a wire error in
// errors.go, and every change of a job is judged by job.Decide and written by
// the store. The server reads no engine and no platform, only their contracts.
package server
