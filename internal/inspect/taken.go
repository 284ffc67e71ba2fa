package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strconv"

	"minsep/internal/manifest"
	"minsep/internal/stages"
	"minsep/internal/store"
	"minsep/internal/stream"
)

// trainingFormat is the format of the record that the Python package's StepGuard keeps.
const trainingFormat = "minsep-training/2"

// maxTraining bounds the record of a training, in bytes.
const maxTraining = 16 << 20

// Taken says how often the training of a run directory has taken its steps, as the record of its
// starts counts them. It does not change the verdict.
type Taken struct {
	Damaged bool `json:"damaged,omitempty"` // the record cannot be read: then nothing is known
	Starts  int  `json:"starts,omitempty"`
	Most    int  `json:"most,omitempty"` // how often the steps that were taken most often were taken
	// NoiseMultiplier is σ/√Most, for which the claim holds if what was thrown away was seen
	// (F2.2). It is 0 without repeated steps, and without a certificate.
	NoiseMultiplier float64 `json:"noise_multiplier,omitempty"`
}

// readTaken reads the record of the training of a run directory, nil without one. A record of
// another run counts as none.
func readTaken(ctx context.Context, dir string) *Taken {
	b, err := store.ReadFile(ctx, store.Join(dir, manifest.TrainingRecord), maxTraining)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &Taken{Damaged: true}
	}
	var r struct {
		Format string               `json:"format"`
		RunID  stream.RunID         `json:"run_id"`
		Starts map[string][2]string `json:"starts"`
	}
	if len(b) == 0 { // a guard has made it, and was refused
		return nil
	}
	if json.Unmarshal(b, &r) != nil || r.Format != trainingFormat {
		return &Taken{Damaged: true}
	}
	if run, err := manifest.ReadRun(ctx, dir); err == nil && run.RunID != r.RunID {
		return nil
	}
	changes := map[int]int{} // by step, how many more starts have taken it than the step before
	for _, start := range r.Starts {
		first, errFirst := strconv.Atoi(start[0])
		end, errEnd := strconv.Atoi(start[1])
		if errFirst != nil || errEnd != nil || first < 0 || end < first {
			return &Taken{Damaged: true}
		}
		changes[first]++
		changes[end]--
	}
	taken := &Taken{Starts: len(r.Starts)}
	times := 0
	for _, step := range slices.Sorted(maps.Keys(changes)) {
		times += changes[step]
		taken.Most = max(taken.Most, times)
	}
	if c, err := stages.ReadCertificate(ctx, dir); err == nil && taken.Most > 1 {
		taken.NoiseMultiplier = c.NoiseMultiplier / math.Sqrt(float64(taken.Most))
	}
	return taken
}

// String says how often steps were taken if more than once, and what may be claimed; it is "" for none.
func (t *Taken) String() string {
	if t == nil {
		return ""
	}
	if t.Damaged {
		return "the record " + manifest.TrainingRecord + " was changed or cut, so nothing tells how often the steps of the training were taken"
	}
	if t.Most < 2 {
		return ""
	}
	claim := fmt.Sprintf("of the noise multiplier divided by the root of %d", t.Most)
	if t.NoiseMultiplier > 0 {
		claim = fmt.Sprintf(
			"of noise multiplier %.4g, which minsep account --noise-multiplier %.4g certifies",
			t.NoiseMultiplier,
			t.NoiseMultiplier,
		)
	}
	return fmt.Sprintf("some steps were taken %d times: if what was thrown away was seen, or the restarts depended on data or releases, the claim is that %s", t.Most, claim)
}
