// Package manyjobs writes a million jobs into a database for benchmarks: the rows of
// storetest.SearchFixture, as if the jobs had been made and had ended.
package manyjobs
