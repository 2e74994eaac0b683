package job

import "strings"

// Rules of this file:
//   - a notice reports a person or a program what became of a project's jobs. It is a job itself, of a
//     project that no caller can name, so whatever reads one project leaves notices out;
//   - this file alone knows how the two projects belong together;
//   - all jobs of one notice have one effect key, so a receiver that dedupes has it once.

// noticeSuffix ends the project of notices. No id of a project has a slash.
const noticeSuffix = "/notices"

// NoticeProject returns the project of the jobs that carry a project's notices.
func NoticeProject(project string) string { return project + noticeSuffix }

// NoticesOf returns the project whose notices are the jobs of a project, and whether it has
// any: it is false for the projects of callers.
func NoticesOf(project string) (owner string, ok bool) {
	return strings.CutSuffix(project, noticeSuffix)
}

// IsNotice reports whether the job carries a notice.
func (s *Spec) IsNotice() bool {
	_, is := NoticesOf(s.Project)
	return is
}

// Owner returns the project that the job's connection belongs to: the job's own, or for a
// notice the project that it is a notice of.
func (s *Spec) Owner() string {
	owner, _ := NoticesOf(s.Project)
	return owner
}

// noticeTry separates the name of a notice from the number of the try in the key of its job.
const noticeTry = "#"

// NoticeKey returns the key of a notice's job: the name of the notice, and which try it is.
func NoticeKey(notice, try string) string { return notice + noticeTry + try }

// effectKeyOfNotice returns the key and the round for the effect key of a notice's job: those
// of the notice, whatever the try and the round are.
func effectKeyOfNotice(key string) (notice string, round int) {
	notice, _, _ = strings.Cut(key, noticeTry)
	return notice, 1
}
