package node

import (
	"context"
	"strings"
	"testing"

	"github.com/urfave/cli/v3"
)

// TestSecretsInTheOpen: an operator is warned where others can read a secret, and only there.
func TestSecretsInTheOpen(t *testing.T) {
	const words, local = "postgres://fireonce:hush@db:5432/fireonce", "127.0.0.1:8080"
	for name, tt := range map[string]struct {
		cfg  Config
		want []string
	}{
		"nothing":                 {Config{Listen: local, Database: "sqlite:a.db"}, nil},
		"a password in arguments": {Config{Listen: local, Database: words, DatabaseInArguments: true}, []string{"FIREONCE_DATABASE"}},
		"as a parameter": {
			Config{Listen: local, Database: "postgres://db/fireonce?user=a&password=hush", DatabaseInArguments: true}, []string{"FIREONCE_DATABASE"},
		},
		"a password in the variable": {Config{Listen: local, Database: words}, nil},
		"no password":                {Config{Listen: local, Database: "postgres://fireonce@db/fireonce", DatabaseInArguments: true}, nil},
		"other addresses":            {Config{Listen: "0.0.0.0:80", GRPCListen: "192.0.2.1:81", Database: "sqlite:a.db"}, []string{"--listen 0.0.0.0:80", "--grpc-listen 192.0.2.1:81"}},
		"loopback addresses":         {Config{Listen: "[::1]:80", GRPCListen: "localhost:81", Database: "sqlite:a.db"}, nil},
	} {
		got := tt.cfg.warnings()
		if len(got) != len(tt.want) {
			t.Errorf("%s: %q", name, got)
			continue
		}
		for i, w := range tt.want {
			if !strings.Contains(got[i], w) || strings.Contains(got[i], "hush") {
				t.Errorf("%s: %q", name, got[i])
			}
		}
	}
}

// TestInArguments: what a variable says is in no list of processes.
func TestInArguments(t *testing.T) {
	for name, tt := range map[string]struct {
		variable string
		args     []string
		want     bool
	}{
		"neither":  {"", nil, false},
		"variable": {"sqlite:v.db", nil, false},
		"argument": {"", []string{"--database", "sqlite:a.db"}, true},
		"both":     {"sqlite:v.db", []string{"--database", "sqlite:a.db"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(databaseVariable, tt.variable)
			got := false
			cmd := &cli.Command{Flags: []cli.Flag{databaseFlag()}, Action: func(_ context.Context, cmd *cli.Command) error {
				got = inArguments(cmd, "database", databaseVariable)
				return nil
			}}
			if err := cmd.Run(t.Context(), append([]string{"serve"}, tt.args...)); err != nil || got != tt.want {
				t.Errorf("%v, %v; want %v", got, err, tt.want)
			}
		})
	}
}
