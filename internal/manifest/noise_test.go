package manifest_test

import (
	"fmt"
	"math"
	"testing"

	"minsep/internal/manifest"
)

func TestCheckCover(t *testing.T) {
	facts := manifest.NoiseFacts{Steps: 47, Coordinates: 301, Shards: 3, StepsPerFile: 20}
	var files []manifest.File
	for _, name := range facts.Names() {
		files = append(files, manifest.File{Name: name})
	}
	if err := facts.CheckCover(files); err != nil || len(files) != 9 {
		t.Errorf("%d files: %v", len(files), err)
	}
	more := facts
	more.Steps += 20
	if facts.CheckCover(files[1:]) == nil || facts.CheckCover(append(files, files[0])) == nil || more.CheckCover(files) == nil {
		t.Error("files that do not cover the noise are accepted")
	}
}

// How many files there must be is counted before they are named: shards and steps may be what
// somebody claims.
func TestCoverOfClaimedSteps(t *testing.T) {
	files := []manifest.File{{Name: manifest.NoiseFile(0, 1, 0, 1)}}
	for _, c := range []struct{ shards, perFile, steps int }{{1, 1, 1 << 53}, {1 << 53, 1, 1}, {1 << 62, 1, 1 << 62}, {2, 1 << 62, 1 << 62}, {1, 1, 2}} {
		facts := manifest.NoiseFacts{Steps: c.steps, Coordinates: math.MaxInt64, Shards: c.shards, StepsPerFile: c.perFile}
		if err := facts.CheckCover(files); err == nil {
			t.Errorf("%+v: one file covers it", c)
		}
	}
	if err := (manifest.NoiseFacts{Steps: 1, Coordinates: 1, Shards: 1, StepsPerFile: 1}).CheckCover(files); err != nil {
		t.Error(err)
	}
}

func TestNoiseRangeCovers(t *testing.T) {
	for _, n := range []int64{1, 7, 64, 1000, math.MaxInt32} {
		for _, shards := range []int{1, 2, 7, 64} {
			end := int64(0)
			for i := range shards {
				lo, hi := manifest.NoiseRange(n, i, shards)
				if lo != end || hi-lo < n/int64(shards) || hi-lo > n/int64(shards)+1 {
					t.Fatalf("shard %d of %d of %d: [%d,%d)", i, shards, n, lo, hi)
				}
				end = hi
			}
			if end != n {
				t.Errorf("%d shards of %d end at %d", shards, n, end)
			}
		}
	}
}

func ExampleNoiseFile() {
	fmt.Println(manifest.NoiseFile(0, 64, 0, 1000))
	// Output: shard-00000-of-00064/steps-000000-000999.npy
}
