package job

import "testing"

// TestNoticeProjects: the project of notices and its owner belong together, and the projects of
// callers have no notices in them.
func TestNoticeProjects(t *testing.T) {
	for _, project := range []string{"default", "a-b_c", "notices", "x-notices"} {
		s := Spec{Project: project}
		if s.IsNotice() || s.Owner() != project {
			t.Errorf("%s: IsNotice %t, Owner %s", project, s.IsNotice(), s.Owner())
		}
		n := Spec{Project: NoticeProject(project)}
		if !n.IsNotice() || n.Owner() != project {
			t.Errorf("%s: IsNotice %t, Owner %s", n.Project, n.IsNotice(), n.Owner())
		}
	}
}

// TestNoticeEffectKeys: the jobs of one notice have one effect key, in every round, and another one
// than any other job.
func TestNoticeEffectKeys(t *testing.T) {
	notice := func(name, try string, round int) string {
		return Job{Spec: Spec{Project: NoticeProject("p"), Key: NoticeKey(name, try)}, Status: Status{Round: round}}.EffectKey("ns")
	}
	want := notice("s/1", "a", 1)
	for _, got := range []string{notice("s/1", "b", 1), notice("s/1", "a", 2), notice("s/1", "c", 9)} {
		if got != want {
			t.Errorf("another effect key for the same notice: %s, %s", got, want)
		}
	}
	ordinary := Job{Spec: Spec{Project: "p", Key: NoticeKey("s/1", "a")}}.EffectKey("ns")
	for _, other := range []string{notice("s/2", "a", 1), notice("s/11", "a", 1), ordinary, EffectKey("ns", "p", "s/1", 1)} {
		if other == want {
			t.Error("another notice, or an ordinary job, has the effect key of a notice")
		}
	}
}
