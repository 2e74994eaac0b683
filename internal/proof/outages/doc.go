// Package outages shows what becomes of webhooks in five ordinary outages of their receiver: a
// deploy, a machine that is down, a router without a route, a name that does not resolve, and a
// rate limit. It runs the engine in simulated time, with the connector's own judgment of
// answers, and counts what the receiver has done. It also has a receiver ask for patience in the
// forms that are in use, and compares the times of requests with what was asked. It has tests
// only:
//
//	go test ./internal/proof/outages -run TestOutages -v -jobs 1000
package outages
