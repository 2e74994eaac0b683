//go:build !unix

package profile

// lock does nothing: there is no such lock.
func lock() (unlock func() error, err error) {
	return func() error { return nil }, nil
}
