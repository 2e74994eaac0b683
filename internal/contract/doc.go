// Package contract has the compiled rules of requests and the grammar of the paths by which
// errors name parts of a request. It also tests what proto/ promises to clients in every
// language: file options, names, and the behavior of requests for pages.
package contract
