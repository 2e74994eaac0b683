package main

import "testing"

// switchedSource is a source that holds the mutants.
func switchedSource(t *testing.T, mutants []mutant) *switched {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	source, err := writeSwitched(root, t.TempDir(), mutants)
	if err != nil {
		t.Fatal(err)
	}
	for name, why := range source.alone {
		t.Logf("%s is built alone: %v", name, why)
	}
	return source
}

// compiledTests are the tests of a package over it.
func compiledTests(t *testing.T, source *switched, tested string) *compiled {
	t.Helper()
	tests, err := source.compile(t.Context(), tested)
	if err != nil {
		t.Fatal(err)
	}
	return tests
}

// chosen is the program with a mutant.
func chosen(t *testing.T, tests *compiled, m mutant) program {
	t.Helper()
	p, err := tests.with(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
