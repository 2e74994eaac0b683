// Package contract has the tests of what proto/ promises to clients in every language:
// file options, names, and how requests for pages behave.
package contract
