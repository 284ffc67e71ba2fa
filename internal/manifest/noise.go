package manifest

import (
	"fmt"
	"slices"
)

// MaxNoiseShards is the largest number of shards of noise.
const MaxNoiseShards = 100000

// DefaultStepsPerFile is the default number of steps in a file of noise.
const DefaultStepsPerFile = 1000

// NoiseFacts describes the files of a folder of noise, in its index. If Shards is 0, the folder has
// only the recipe.
type NoiseFacts struct {
	Steps        int   `json:"steps"`                    // at least 1
	Coordinates  int64 `json:"coordinates"`              // of a gradient, at least 1
	Shards       int   `json:"shards"`                   // from 1 to the coordinates; 0 for a recipe only
	StepsPerFile int   `json:"steps_per_file,omitempty"` // of each shard's files but the last, at least 1
	DType        DType `json:"dtype,omitempty"`          // float32 or float64
}

// DescribedNoise has the facts of a folder of noise, and figures that do not affect its files.
type DescribedNoise struct {
	NoiseFacts
	// StepNoise is the noise of one step relative to DP-SGD's under the certificate's claim (F1.2),
	// above 0; 0 if there was no certificate, or nothing to compare with.
	StepNoise float64 `json:"step_noise,omitempty"`
}

// NoiseRange returns the coordinates [lo, hi) of a shard. The first coordinates mod shards shards
// have one more than the others.
func NoiseRange(coordinates int64, shard, shards int) (lo, hi int64) {
	size, more := coordinates/int64(shards), coordinates%int64(shards)
	lo = int64(shard)*size + min(int64(shard), more)
	hi = lo + size
	if int64(shard) < more {
		hi++
	}
	return lo, hi
}

// NoiseShard returns the name of a shard's folder.
func NoiseShard(shard, shards int) string { return fmt.Sprintf("shard-%05d-of-%05d", shard, shards) }

// NoiseStreamState returns the name of a checkpoint of a shard's stream: its state before the given
// step. The checkpoint is in a folder that the user names.
func NoiseStreamState(shard, shards, step int) string {
	return NoiseStreamStates(shard, shards) + fmt.Sprintf("%06d", step)
}

// NoiseStreamStates returns the prefix of the names of a shard's checkpoints.
func NoiseStreamStates(shard, shards int) string { return NoiseShard(shard, shards) + "-step-" }

// ParseNoiseStreamState parses a name that [NoiseStreamState] made.
func ParseNoiseStreamState(name string) (shard, shards, step int, ok bool) {
	_, err := fmt.Sscanf(name, "shard-%d-of-%d-step-%d", &shard, &shards, &step)
	return shard, shards, step, err == nil && name == NoiseStreamState(shard, shards, step)
}

// NoiseFile returns the name, relative to the folder of noise, of a shard's file with the steps
// [first, first+steps).
func NoiseFile(shard, shards, first, steps int) string {
	return fmt.Sprintf("%s/steps-%06d-%06d.npy", NoiseShard(shard, shards), first, first+steps-1)
}

// Names returns the names of all files of noise, in the order of shards and steps.
func (f NoiseFacts) Names() []string {
	var names []string
	for shard := range f.Shards {
		for first := 0; first < f.Steps; first += f.StepsPerFile {
			names = append(names, NoiseFile(shard, f.Shards, first, min(f.StepsPerFile, f.Steps-first)))
		}
	}
	return names
}

// CheckCover requires that files, in any order, are exactly the files of [NoiseFacts.Names], each
// once: so they cover all coordinates and steps.
func (f NoiseFacts) CheckCover(files []File) error {
	if f.Steps < 1 || f.Shards < 1 || f.StepsPerFile < 1 || int64(f.Shards) > f.Coordinates || f.Shards > MaxNoiseShards {
		return fmt.Errorf("%d shards of %d coordinates and files of %d of %d steps do not fit together", f.Shards, f.Coordinates, f.StepsPerFile, f.Steps)
	}
	// Checked before names are made: shards and steps may be false claims.
	perShard := (int64(f.Steps)-1)/int64(f.StepsPerFile) + 1
	if have := int64(len(files)); perShard > have || int64(f.Shards) > have || int64(f.Shards)*perShard != have {
		return fmt.Errorf("has %d files of noise, and needs %d shards of %d files", have, f.Shards, perShard)
	}
	names := make([]string, len(files))
	for i, file := range files {
		names[i] = file.Name
	}
	want := f.Names()
	slices.Sort(names)
	slices.Sort(want)
	for i, name := range names {
		if name != want[i] {
			return fmt.Errorf("file %s: is listed twice, or does not belong to the noise, which needs %s", name, want[i])
		}
	}
	return nil
}
