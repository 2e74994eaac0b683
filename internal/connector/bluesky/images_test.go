package bluesky

import (
	"crypto/sha256"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/job"
)

// TestCID: the empty file's is well known.
func TestCID(t *testing.T) {
	const want = "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku"
	if got := cidOf(sha256.Sum256(nil)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestMediaFrozen: what is frozen of images comes back as it was, and nothing else
// does.
func TestMediaFrozen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var refs []*fireoncev1.MediaRef
		for range rapid.IntRange(0, MaxImages).Draw(t, "images") {
			refs = append(refs, &fireoncev1.MediaRef{
				Url: rapid.String().Draw(t, "url"), Sha256: rapid.SliceOfN(rapid.Byte(), 0, 32).Draw(t, "digest"),
				MediaType: rapid.String().Draw(t, "type"), AltText: rapid.String().Draw(t, "alt"),
			})
		}
		fields, err := kit.DecodeCanon(kit.EncodeMedia(job.NewCanon(), refs).Bytes())
		if err != nil {
			t.Fatal(err)
		}
		got, err := kit.DecodeMedia(fields, MaxImages)
		if err != nil || len(got) != len(refs) {
			t.Fatalf("%v, %v", got, err)
		}
		for i := range refs {
			if string(got[i].GetSha256()) != string(refs[i].GetSha256()) || got[i].GetUrl() != refs[i].GetUrl() ||
				got[i].GetMediaType() != refs[i].GetMediaType() || got[i].GetAltText() != refs[i].GetAltText() {
				t.Fatalf("%v, want %v", proto.Message(got[i]), refs[i])
			}
		}
		if len(fields) > 0 {
			if _, err := kit.DecodeMedia(fields[1:], MaxImages); err == nil {
				t.Fatal("an image without its address")
			}
		}
	})
}
