// Package contract has the rules of requests as they are compiled, the grammar of the paths
// by which errors name parts of a request, and the tests of what proto/ promises to clients in every language: file options, names,
// and how requests for pages behave.
package contract
