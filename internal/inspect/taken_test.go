package inspect

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"minsep/internal/must"
)

// TestTaken counts the steps of random starts one by one.
func TestTaken(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for range 300 {
		dir := t.TempDir()
		counts := make([]int, 12)
		var starts []string
		for i := range rng.IntN(5) {
			first := rng.IntN(12)
			end := first + rng.IntN(13-first)
			for step := first; step < end; step++ {
				counts[step]++
			}
			starts = append(starts, fmt.Sprintf(`"%016x": ["%012d", "%012d"]`, i, first, end))
		}
		record := fmt.Sprintf(`{"format": "minsep-training/2", "run_id": "%032x", "token": "%032x", "starts": {%s}}`, 1, 2, strings.Join(starts, ", "))
		must.Do(t, os.WriteFile(filepath.Join(dir, "training.json"), []byte(record), 0o600))
		taken := readTaken(t.Context(), dir)
		if taken.Most != slices.Max(counts) || taken.Starts != len(starts) || (taken.String() == "") != (taken.Most < 2) {
			t.Errorf("%s: %+v, %q", record, taken, taken)
		}
	}
}

// TestTakenOfNoRecord: a record that cannot be read tells nothing, and that is said.
func TestTakenOfNoRecord(t *testing.T) {
	dir := t.TempDir()
	if taken := readTaken(t.Context(), dir); taken != nil {
		t.Errorf("no record: %+v", taken)
	}
	path := filepath.Join(dir, "training.json")
	for text, damaged := range map[string]bool{
		"": false, "{": true, `{"format": "x"}`: true,
		`{"format": "minsep-training/2", "starts": {"0": ["2", "1"]}}`:  true,
		`{"format": "minsep-training/2", "starts": {"0": ["-1", "1"]}}`: true,
		`{"format": "minsep-training/2", "starts": {"0": ["a", "1"]}}`:  true,
		`{"format": "minsep-training/2", "starts": {"0": ["1", "1"]}}`:  false,
	} {
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		taken := readTaken(t.Context(), dir)
		if damaged != (taken != nil && taken.Damaged) || damaged != strings.Contains(taken.String(), "nothing tells how often") {
			t.Errorf("%q: %+v", text, taken)
		}
	}
}
