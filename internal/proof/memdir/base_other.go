//go:build !unix

package memdir

import "os"

// Base is the folder to make temporary folders in.
func Base() string { return os.TempDir() }
