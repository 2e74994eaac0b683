//go:build !failpoints

package failpoint

// Hit does nothing in ordinary builds; the compiler removes it.
func Hit(string) {}
