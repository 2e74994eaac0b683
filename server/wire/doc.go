// Package wire reads the messages of requests, whatever they mean: it knows their forms, bounds their
// bytes and elements before they are decoded, decodes them strictly with errors that name a field,
// and has one canonical encoding of what they say.
package wire
