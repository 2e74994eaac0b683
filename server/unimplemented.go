package server

// unimplemented is every RPC of the contract that is not served yet. It is
// empty when the contract is fulfilled.
var unimplemented = map[string]bool{}
