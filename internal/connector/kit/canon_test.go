package kit_test

import (
	"bytes"
	"testing"

	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/job"
)

// FuzzDecodeCanon: fields that were read are read again as they were, when they are encoded again.
func FuzzDecodeCanon(f *testing.F) {
	f.Add(job.NewCanon().Field("a", []byte("b")).Field("", nil).Bytes())
	f.Add([]byte{1, 5, 'a'})
	f.Fuzz(func(t *testing.T, raw []byte) {
		fields, err := kit.DecodeCanon(raw)
		if err != nil {
			return
		}
		c := job.NewCanon()
		for _, field := range fields {
			c.Field(field.Name, field.Value)
		}
		again, err := kit.DecodeCanon(c.Bytes())
		if err != nil || len(again) != len(fields) {
			t.Fatalf("%x: %v", raw, err)
		}
		for i := range again {
			if again[i].Name != fields[i].Name || !bytes.Equal(again[i].Value, fields[i].Value) {
				t.Fatalf("%x: field %d", raw, i)
			}
		}
	})
}
