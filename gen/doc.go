// Package gen has the server's own generated code below it. Other programs import
// github.com/fireonce/fireonce/clients/go, where the contract's go_package points: a program
// with both copies panics at start, because protobuf-go registers each file once.
package gen
