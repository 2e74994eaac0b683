package node

import "testing"

// TestDoctorSchema: the doctor compares the version of a schema with the program's.
func TestDoctorSchema(t *testing.T) {
	for _, tc := range []struct {
		has, wants    int64
		status, found string
	}{
		{0, 2, statusOK, "there is none yet; the first `serve` makes it"},
		{1, 2, statusWarning, "version 1; this program needs 2"},
		{2, 2, statusOK, "version 2"},
		{3, 2, statusFailure, "version 3; this program knows 2"},
	} {
		var d doctor
		d.schema(tc.has, tc.wants)
		if len(d.findings) != 1 || d.findings[0].Status != tc.status || d.findings[0].Found != tc.found {
			t.Errorf("version %d of %d: %+v", tc.has, tc.wants, d.findings)
		}
	}
}
