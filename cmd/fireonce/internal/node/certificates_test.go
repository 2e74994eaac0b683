package node

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/certs"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/certs/certstest"
)

// TestCertificateEnd: the first end counts, a certificate that cannot be read has ended, and a server
// that shows none has no end.
func TestCertificateEnd(t *testing.T) {
	dir := t.TempDir()
	ca := certstest.NewCA(t, dir, "ca")
	now := time.Now().Truncate(time.Second)
	in := func(name string, until time.Duration) (cert, key string) {
		cert, key = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key")
		ca.Issue(t, cert, key, certstest.Leaf{Names: []string{"localhost"}, Until: now.Add(until)})
		return cert, key
	}
	cert, key := in("own", 48*time.Hour)
	own, err := certs.FollowPair(certs.Pair{Cert: cert, Key: key}, certs.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	sooner, _ := in("remote", 24*time.Hour)
	for _, tt := range []struct {
		name    string
		own     *certs.Certificate
		remotes []Remote
		acme    []string
		want    int64
	}{
		{"no TLS", nil, []Remote{{}}, nil, 0},
		{"its own", own, nil, nil, now.Add(48 * time.Hour).Unix()},
		{"one for a connector ends sooner", own, []Remote{{ClientCertFile: sooner}}, nil, now.Add(24 * time.Hour).Unix()},
		{"one is gone", own, []Remote{{ClientCertFile: filepath.Join(dir, "none")}}, nil, unreadableEnd},
		{"a file without a certificate", nil, []Remote{{ClientCertFile: key}}, nil, unreadableEnd},
		{"none was obtained yet", nil, nil, []string{"a.example"}, unreadableEnd},
	} {
		n := &Node{cfg: Config{remotes: tt.remotes, TLS: TLS{ACME: certs.ACME{Domains: tt.acme, Cache: dir}}}}
		if got := int64(n.certificateEnd(tt.own)); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}
