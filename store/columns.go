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
	return asJSON(labels)
}

// asJSON encodes numbers, texts and ids, which cannot fail.
func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
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

// Converted converts what a query returned.
func Converted[R, T any](rows []R, err error, to func(R) T) ([]T, error) {
	if err != nil {
		return nil, err
	}
	out := make([]T, len(rows))
	for i, r := range rows {
		out[i] = to(r)
	}
	return out, nil
}
