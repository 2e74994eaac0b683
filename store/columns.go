package store

import (
	"encoding/json"
	"fmt"

	"github.com/fireonce/fireonce/internal/job"
)

// EncodeLabels returns labels as databases keep them, as a JSON object.
func EncodeLabels(labels map[string]string) string {
	if len(labels) == 0 {
		return "{}"
	}
	text, err := json.Marshal(labels)
	if err != nil { // texts alone
		panic(err)
	}
	return string(text)
}

// DecodeTerms reads the labels and the fingerprint of a row; nil and the zero fingerprint:
// there are none.
func DecodeTerms[T ~string | ~[]byte](labels T, fingerprint []byte) (map[string]string, job.Fingerprint, error) {
	var out map[string]string
	if string(labels) != "{}" {
		if err := json.Unmarshal([]byte(labels), &out); err != nil {
			return nil, job.Fingerprint{}, fmt.Errorf("labels: %w", err)
		}
	}
	if len(fingerprint) == 0 {
		return out, job.Fingerprint{}, nil
	}
	digest, err := job.ParseFingerprint(fingerprint)
	return out, digest, err
}
