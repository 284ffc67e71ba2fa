package pipelines

import "testing"

// TestRefuseWithAndWithoutDifferences: a refusal that has nothing to list does not end in
// punctuation.
func TestRefuseWithAndWithoutDifferences(t *testing.T) {
	for want, differs := range map[string][]string{
		"out run/batches: holds another result; give another --out":       nil,
		"out run/batches: holds another result: a; b; give another --out": {"a", "b"},
	} {
		if got := refuse("run/batches", "holds another result", differs).Error(); got != want {
			t.Errorf("%v: %q, want %q", differs, got, want)
		}
	}
}
