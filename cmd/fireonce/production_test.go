package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/internal/proof/memdir"
	"github.com/fireonce/fireonce/internal/proof/pgtest"
)

// TestProduction follows docs/production.md on a PostgreSQL cluster of its own, with an empty
// home, in folders that stand for /etc/fireonce and /var/lib/fireonce.
func TestProduction(t *testing.T) {
	long(t)
	if crashRun {
		t.Skip("needs no failpoints")
	}
	t.Parallel()
	for _, tool := range []string{"sh", "openssl", "psql", "pg_dump"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	binary, err := exec.LookPath("fireonce") // this test's binary, see TestMain
	if err != nil {
		t.Fatal(err)
	}
	cluster := pgtest.Start(t, pgtest.Options{})
	home := memdir.New(t)
	for _, dir := range []string{"etc", "lib"} {
		if err := os.Mkdir(filepath.Join(home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	places := []string{
		"/etc/fireonce", filepath.Join(home, "etc"), "/var/lib/fireonce", filepath.Join(home, "lib"),
		"postgres://fireonce:CHANGE-ME@db.example.org/fireonce?sslmode=verify-full", cluster.URL("fireonce"),
		"setpriv --reuid=fireonce --regid=fireonce --init-groups ", "", // the system has no such user
		"CREATE ROLE fireonce LOGIN", "ALTER ROLE fireonce LOGIN", // the tests' clusters have it
	}
	env := []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "ADMIN_DATABASE=" + cluster.AdminURL("postgres")}
	run := func(script string) string {
		t.Helper()
		cmd := exec.CommandContext(waiting(t), "sh", "-c", "set -e\n"+strings.NewReplacer(places...).Replace(script))
		cmd.Dir, cmd.Env = home, env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s\n%s", err, script, out)
		}
		return string(out)
	}
	settings := strings.NewReplacer(places...).Replace(strings.Join(marked(t, productionPage, productionSettings), ""))
	if err := os.WriteFile(filepath.Join(home, "etc", "fireonce.env"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	out := run(strings.Join(marked(t, productionPage, productionRuns), "\n"))
	for _, printed := range marked(t, productionPage, productionCompares) {
		comparePrinted(t, productionPage, strings.NewReplacer(places...).Replace(printed), out)
	}

	// In the place of systemctl. The ports are free ones.
	for line := range strings.Lines(settings) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		env = append(env, name+"="+strings.Trim(value, "'"))
	}
	p, err := startProcess(binary, filepath.Join(home, "lib"), env, "--listen", "127.0.0.1:0", "--grpc-listen", "off", "--ops-listen", "off")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	places = append(places, "https://localhost:8443", p.url)
	out = run(strings.Join(marked(t, productionPage, productionRunsOn), "\n"))
	for _, want := range []string{`Class +KEYED`, `Valid\.`} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
	for _, name := range []string{"backup.dump", "backup.time", "namespace.txt"} {
		if info, err := os.Stat(filepath.Join(home, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestProductionPrometheus checks the page's file with the rules beside it.
func TestProductionPrometheus(t *testing.T) {
	if crashRun {
		t.Skip("needs no failpoints")
	}
	t.Parallel()
	tool, dir := promtool(t), t.TempDir()
	for name, text := range map[string]string{
		"prometheus.yml": strings.Join(marked(t, productionPage, productionChecks), ""),
		"alerts.yml":     readFile(t, filepath.Join("..", "..", "deploy", "prometheus", "alerts.yml")),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.CommandContext(waiting(t), tool, "check", "config", filepath.Join(dir, "prometheus.yml")).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
