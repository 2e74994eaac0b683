//go:build linux

package sqlite

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOneProcessByAnyName: a database that another process has open is refused under every
// name of its file.
func TestOneProcessByAnyName(t *testing.T) {
	for name, give := range map[string]struct {
		alias func(t *testing.T, path string) string
		want  error
	}{
		"the same path": {func(_ *testing.T, path string) string { return path }, ErrLocked},
		"a relative path": {func(t *testing.T, path string) string {
			t.Chdir(filepath.Dir(path))
			return "./x/../" + filepath.Base(path)
		}, ErrLocked},
		"a link beside it": {func(t *testing.T, path string) string {
			must(t, os.Symlink(filepath.Base(path), path+".link"))
			return path + ".link"
		}, ErrLocked},
		"a link elsewhere": {func(t *testing.T, path string) string {
			alias := filepath.Join(t.TempDir(), "alias.db")
			must(t, os.Symlink(path, alias))
			return alias
		}, ErrLocked},
		"a link to a link": {func(t *testing.T, path string) string {
			must(t, os.Symlink(path, path+".1"))
			must(t, os.Symlink(path+".1", path+".2"))
			return path + ".2"
		}, ErrLocked},
		"a link to the folder": {func(t *testing.T, path string) string {
			alias := filepath.Join(t.TempDir(), "folder")
			must(t, os.Symlink(filepath.Dir(path), alias))
			return filepath.Join(alias, filepath.Base(path))
		}, ErrLocked},
		"a hard link": {func(t *testing.T, path string) string {
			must(t, os.Link(path, path+".hard"))
			return path + ".hard"
		}, ErrLinked},
		"its own name beside a hard link": {func(t *testing.T, path string) string {
			must(t, os.Link(path, path+".hard"))
			must(t, os.Remove(path+".lock"))
			return path
		}, ErrLinked},
		"a new name": {func(t *testing.T, path string) string {
			must(t, os.Rename(path, path+".new"))
			return path + ".new"
		}, ErrLocked},
		"no lock file": {func(t *testing.T, path string) string {
			must(t, os.Remove(path+".lock"))
			return path
		}, ErrLocked},
	} {
		for _, frozen := range []bool{false, true} {
			if frozen && name != "the same path" && name != "a new name" {
				continue // one for each of the two locks
			}
			t.Run(name, func(t *testing.T) {
				path := diskPath(t)
				process := holder(t, path).Process
				if frozen {
					must(t, process.Signal(syscall.SIGSTOP))
				}
				must(t, os.Mkdir(filepath.Join(filepath.Dir(path), "x"), 0o700))
				alias := give.alias(t, path)
				for range 2 { // the first try leaves no trace that lets the second one in
					_, err := Open(t.Context(), Options{Path: alias})
					wantErr(t, err, give.want)
					wantErr(t, Migrate(t.Context(), alias), give.want)
				}
			})
		}
	}
}

// TestNamesShareOneSetOfFiles: a database that is opened by a link has its log and its lock
// file beside the file, and finds there what was recorded under the other name.
func TestNamesShareOneSetOfFiles(t *testing.T) {
	path := diskPath(t)
	alias := filepath.Join(t.TempDir(), "alias.db")
	s, _ := openUnder(t, path, "a")
	conn := mustConnect(t, s)
	must(t, s.Close())
	older := path + ".older"
	copyFile(t, path, older)
	must(t, os.Symlink(path, alias))
	s, reason := openUnder(t, alias, "a")
	if reason != "" {
		t.Errorf("opened by a link: %s", reason)
	}
	for _, name := range []string{path + "-wal", path + ".lock"} {
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
	mustCreate(t, s, newJob(conn))
	must(t, s.Close())
	if files, err := filepath.Glob(alias + "?*"); err != nil || len(files) > 0 {
		t.Errorf("beside the link: %v, %v", files, err)
	}
	copyFile(t, older, path)
	if _, reason = openUnder(t, path, "a"); !strings.Contains(reason, "newer state") {
		t.Errorf("an older state than was seen by the link: %q", reason)
	}
}

// TestDanglingLinkIsRefused: a disk that is not mounted is no reason to create a new
// database.
func TestDanglingLinkIsRefused(t *testing.T) {
	path := diskPath(t)
	must(t, os.Symlink(filepath.Join(t.TempDir(), "gone.db"), path))
	_, err := Open(t.Context(), Options{Path: path, Migrate: true})
	wantErr(t, err, ErrDangling)
	wantErr(t, Migrate(t.Context(), path), ErrDangling)
	_, err = Resolve(filepath.Join(t.TempDir(), "none", "a.db"))
	wantErr(t, err, os.ErrNotExist)
}

// TestRefusalKeepsSQLitesLocks: an Open that is refused in the process that has the
// database must not end the locks by which SQLite keeps other programs from
// removing its log.
func TestRefusalKeepsSQLitesLocks(t *testing.T) {
	path := diskPath(t)
	s := mustOpen(t, Options{Path: path})
	// Never closed before the store: that would be the very fault.
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	locked := func() bool {
		const shared, size = 0x40000002, 510
		lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: shared, Len: size}
		must(t, unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock))
		return lock.Type != unix.F_UNLCK
	}
	if !locked() {
		t.Fatal("SQLite has no lock on an open database")
	}
	must(t, os.Symlink(path, path+".link"))
	for _, name := range []string{path, path + ".link"} {
		_, err := Open(t.Context(), Options{Path: name})
		wantErr(t, err, ErrLocked)
	}
	_, err = openFile(path) // as by a name that the lock file does not know
	wantErr(t, err, ErrLocked)
	if !locked() {
		t.Error("a refused open has ended SQLite's lock")
	}
	mustCreate(t, s, newJob(mustConnect(t, s)))
}

const refusedEnv = "FIREONCE_SQLITE_TEST_REFUSED"

// TestRefusedChild is the process that TestBindMount runs in a mount namespace.
func TestRefusedChild(t *testing.T) {
	path := os.Getenv(refusedEnv)
	if path == "" {
		t.Skip("only run by TestBindMount")
	}
	_, err := Open(t.Context(), Options{Path: path})
	wantErr(t, err, ErrLocked)
	fmt.Println("REFUSED")
}

// TestBindMount: the file alone is mounted into another folder, where it has another
// lock file and would have another log.
func TestBindMount(t *testing.T) {
	if err := exec.Command("unshare", "--mount", "true").Run(); err != nil {
		t.Skipf("mounts need root: %v", err)
	}
	path, alias := diskPath(t), diskPath(t)
	holder(t, path)
	must(t, os.WriteFile(alias, nil, 0o600))
	const script = `mount --bind "$1" "$2" && exec "$0" -test.run='^TestRefusedChild$' -test.v`
	cmd := exec.Command("unshare", "--mount", "sh", "-c", script, os.Args[0], path, alias)
	cmd.Env = append(os.Environ(), refusedEnv+"="+alias)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "REFUSED") {
		t.Errorf("%v\n%s", err, out)
	}
}
