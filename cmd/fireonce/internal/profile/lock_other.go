//go:build !unix

package profile

// lock does nothing: this system has no such lock.
func lock() (unlock func() error, err error) {
	return func() error { return nil }, nil
}
