package client

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/profile"
)

// TestAKeyGoesToItsServerOnly: flag, environment, profile, default, in this order; and a
// profile's key leaves for no other server than the profile's, nor the environment's key for
// a server that only a profile names.
func TestAKeyGoesToItsServerOnly(t *testing.T) {
	var got string // Authorization of the last call, behind the server's name
	serve := func(name string) string {
		s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			got = name + " " + r.Header.Get("Authorization")
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	a, b := serve("a"), serve("b")
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	file := &profile.File{Current: "a", Profiles: map[string]profile.Profile{
		"a": {Server: a, APIKey: "key-of-a"}, "b": {Server: b, APIKey: "key-of-b"}, "none": {Server: a},
	}}
	if err := file.Save(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args []string
		env  map[string]string
		want string
	}{
		{name: "the profile in use", want: "a Bearer key-of-a"},
		{name: "a flag names a profile", args: []string{"--profile", "b"}, want: "b Bearer key-of-b"},
		{name: "a variable names a profile", env: map[string]string{profileVar: "b"}, want: "b Bearer key-of-b"},
		{name: "the flag comes first", args: []string{"--profile", "a"}, env: map[string]string{profileVar: "b"}, want: "a Bearer key-of-a"},
		{name: "another server", args: []string{"--server", b}, want: "b "},
		{name: "another server than the named profile's", args: []string{"--server", b, "--profile", "a"}, want: "b "},
		{name: "the same server", args: []string{"--server", a + "/"}, want: "a Bearer key-of-a"},
		{name: "another server in the environment", env: map[string]string{serverVar: b}, want: "b "},
		{name: "a server by flag, before the environment's", args: []string{"--server", a}, env: map[string]string{serverVar: b}, want: "a Bearer key-of-a"},
		{name: "a key in the environment", env: map[string]string{apiKeyVar: "key-of-env"}, want: "a Bearer key-of-a"},
		{name: "a key in the environment, a profile without one", env: map[string]string{apiKeyVar: "key-of-env", profileVar: "none"}, want: "a "},
		{name: "a key in the environment, a server by flag", args: []string{"--server", b}, env: map[string]string{apiKeyVar: "key-of-env"}, want: "b Bearer key-of-env"},
		{name: "a key and a server in the environment", env: map[string]string{apiKeyVar: "key-of-env", serverVar: b}, want: "b Bearer key-of-env"},
		{name: "a profile by flag, before the environment", args: []string{"--profile", "a"}, env: map[string]string{apiKeyVar: "key-of-env", serverVar: b}, want: "a Bearer key-of-a"},
		{name: "a profile without a key, by flag", args: []string{"--profile", "none"}, env: map[string]string{apiKeyVar: "key-of-env"}, want: "a "},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, name := range []string{profileVar, serverVar, apiKeyVar} {
				t.Setenv(name, c.env[name])
			}
			root := &cli.Command{Name: "fireonce", Flags: CommonFlags(), Action: func(ctx context.Context, cmd *cli.Command) error {
				api, err := DialFor(cmd)
				if err != nil {
					return err
				}
				_, _ = api.Jobs.GetJob(ctx, &fireoncev1.GetJobRequest{}) // the answer is of no server
				return nil
			}}
			got = "no call"
			if err := root.Run(t.Context(), append([]string{"fireonce"}, c.args...)); err != nil || got != c.want {
				t.Errorf("%q, not %q; %v", got, c.want, err)
			}
		})
	}
}
