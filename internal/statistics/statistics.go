// Package statistics aggregates the values of examples and releases private statistics of them, by
// github.com/google/differential-privacy. [New] makes aggregates, which are merged and released
// once: see [Aggregates.Release].
//
// An owner has at most k examples of a bounded table, each with one value in a column. So leaving
// out an owner changes at most k values, be they of one class or of several: the counts of all
// classes together change by at most k in the sum of their absolute values, which is what Laplace
// noise needs.
//
// A value is clamped and mapped to [-1, 1], and counted in multiples of 1/grid. Sums are integers,
// since sums of floats are rounded: one value would then move a sum by more than its own size, as it
// changes how all that follow are rounded, and a sum that overflows has no noise at all.
package statistics

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/google/differential-privacy/go/v3/dpagg"
	"github.com/google/differential-privacy/go/v3/noise"

	"minsep/internal/manifest"
	"minsep/internal/param"
	"minsep/internal/store"
	"minsep/internal/strictjson"
	"minsep/privacy"
)

// Aggregates are the sums of the statistics of a request before noise. They are secret.
type Aggregates struct {
	of       privacy.Statistics
	perOwner int64
	all      []aggregate // by statistic
}

// aggregate holds the sums of one statistic.
type aggregate struct {
	// Sums has the number of examples by class; of a mean and a variance the number of values, and
	// the sums of their positions and of the squares of these, in multiples of 1/grid.
	Sums      []int64
	Quantiles *dpagg.BoundedQuantiles // of positions
}

// grid is the number of steps from 0 to 1. With an owner's 2³¹ examples, a sum moves by at most 2⁶¹.
const grid = 1 << 30

// maxValues is how many values a sum may have: it is then at most 2⁶², which leaves as much for noise.
const maxValues = 1 << 32

var errTooMany = fmt.Errorf("more than %d values of a column: bound fewer examples", maxValues)

// New returns aggregates without values, for owners with at most perOwner examples.
func New(of privacy.Statistics, perOwner int) (*Aggregates, error) {
	if err := of.Validate(); err != nil {
		return nil, err
	}
	a := &Aggregates{of: of, perOwner: int64(perOwner)}
	for _, s := range of.Statistics {
		var g aggregate
		var err error
		switch s.Kind {
		case privacy.Counts:
			g.Sums = make([]int64, len(s.Classes))
		case privacy.Mean:
			g.Sums = make([]int64, 2)
		case privacy.Variance:
			g.Sums = make([]int64, 3)
		case privacy.Quantiles:
			g.Quantiles, err = dpagg.NewBoundedQuantiles(&dpagg.BoundedQuantilesOptions{Epsilon: a.epsilon(),
				MaxPartitionsContributed: 1, MaxContributionsPerPartition: a.perOwner, Lower: -1, Upper: 1})
		}
		_, small := a.noisy(0, 1, 3) // ε may be too small for the noise
		if err := errors.Join(err, small); err != nil {
			return nil, fmt.Errorf("%s of %s: %w", s.Kind, s.Column, err)
		}
		a.all = append(a.all, g)
	}
	return a, nil
}

// epsilon is the part of one statistic.
func (a *Aggregates) epsilon() float64 { return a.of.Epsilon / float64(len(a.of.Statistics)) }

// position maps a value to [-1, 1].
func position(s privacy.Statistic, value float64) float64 {
	value = min(max(value, s.Lower), s.Upper)
	return 2*((value-s.Lower)/(s.Upper-s.Lower)) - 1
}

// valueAt is the inverse of position.
func valueAt(s privacy.Statistic, position float64) float64 {
	return s.Lower + (s.Upper-s.Lower)*((position+1)/2)
}

// Add adds the value of an example in a column: a number, and the text of a class. A number that is
// NaN is no value.
func (a *Aggregates) Add(column string, number float64, text string) error {
	for i, s := range a.of.Statistics {
		g := a.all[i]
		switch {
		case s.Column != column:
		case s.Kind == privacy.Counts:
			if class := slices.Index(s.Classes, text); class >= 0 {
				g.Sums[class]++
			}
		case math.IsNaN(number):
		default:
			at := math.Round(position(s, number)*grid) / grid
			if s.Kind == privacy.Quantiles {
				if err := g.Quantiles.Add(at); err != nil {
					return err
				}
				continue
			}
			if g.Sums[0] == maxValues {
				return errTooMany
			}
			power := 1.0
			g.Sums[0]++
			for j := range g.Sums[1:] {
				power *= at
				g.Sums[1+j] += int64(math.Round(power * grid))
			}
		}
	}
	return nil
}

// Encode ends the aggregates, for Merge on another worker.
func (a *Aggregates) Encode() ([]byte, error) {
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(a.all)
	return b.Bytes(), err
}

// Merge adds encoded aggregates of the same request.
func (a *Aggregates) Merge(encoded []byte) error {
	var others []aggregate
	if err := gob.NewDecoder(bytes.NewReader(encoded)).Decode(&others); err != nil {
		return err
	}
	for i, other := range others {
		to := a.all[i]
		for j, n := range other.Sums {
			to.Sums[j] += n
		}
		if a.of.Statistics[i].Kind != privacy.Counts && to.Quantiles == nil && to.Sums[0] > maxValues {
			return errTooMany
		}
		if to.Quantiles != nil {
			if err := to.Quantiles.Merge(other.Quantiles); err != nil {
				return err
			}
		}
	}
	return nil
}

// results adds noise, and ends the aggregates.
func (a *Aggregates) results() (results [][]float64, err error) {
	for i, s := range a.of.Statistics {
		list, failed := a.result(s, a.all[i])
		results, err = append(results, list), errors.Join(err, failed)
	}
	return results, err
}

func (a *Aggregates) result(s privacy.Statistic, g aggregate) (list []float64, err error) {
	for _, rank := range s.Ranks {
		at, err := g.Quantiles.Result(rank)
		if err != nil {
			return nil, err
		}
		list = append(list, valueAt(s, at))
	}
	most, parts := int64(1), 1 // of one example; of the statistic's ε
	if s.Kind != privacy.Counts {
		parts = len(g.Sums)
	}
	for _, sum := range g.Sums {
		noisy, err := a.noisy(sum, most, parts)
		if err != nil {
			return nil, err
		}
		list = append(list, float64(noisy))
		if s.Kind != privacy.Counts {
			most = grid // all but the first
		}
	}
	if s.Kind == privacy.Counts || s.Kind == privacy.Quantiles {
		return list, nil
	}
	values := grid * max(1, list[0])
	mean := list[1] / values
	if s.Kind == privacy.Mean {
		return []float64{valueAt(s, min(max(mean, -1), 1))}, nil
	}
	half := (s.Upper - s.Lower) / 2
	return []float64{half * half * min(max(list[2]/values-mean*mean, 0), 1)}, nil
}

// noisy adds noise to a sum in which an example counts at most so much, for one of so many equal
// parts of the statistic's ε.
func (a *Aggregates) noisy(sum, most int64, parts int) (int64, error) {
	return noise.Laplace().AddNoiseInt64(sum, 1, a.perOwner*most, a.epsilon()/float64(parts), 0)
}

// releaseFormat is the format of the file of a release.
const releaseFormat = "minsep-statistics/1"

// file is the file of a release.
type file struct {
	Format string          `json:"format"`
	SHA256 manifest.Digest `json:"sha256"` // of the release as compact JSON
	privacy.Release
}

// sealed is the file of a release.
func sealed(r privacy.Release) (file, error) {
	b, err := json.Marshal(r)
	return file{releaseFormat, sha256.Sum256(b), r}, err
}

// path returns the name of the file of a release.
func path(run, name string) string {
	return store.Join(run, manifest.StatisticsFolder, name+".json")
}

// Release draws noise and publishes the results in a run directory. The file of its name comes before
// the noise, and nobody draws for a file that is there: a worker that is repeated or killed leaves no
// second draw of the same sums, under no name. In an object store a draw that comes late is refused
// before anybody can read it. If the request was released already, by a bundle that is repeated, that
// release is returned; another request under its name is refused. examples names the bounded table, as
// run.json does.
func (a *Aggregates) Release(ctx context.Context, run, examples string) (r privacy.Release, err error) {
	release := privacy.Release{Statistics: a.of, Examples: examples, MaxExamplesPerOwner: int(a.perOwner)}
	if err := store.MkdirAll(ctx, store.Join(run, manifest.StatisticsFolder), 0o755); err != nil {
		return r, err
	}
	once := store.Options{Mode: 0o644, New: true, InPlace: true}
	err = store.Write(ctx, path(run, a.of.Name), once, func(w io.Writer) error {
		if release.Results, err = a.results(); err != nil {
			return err
		}
		f, err := sealed(release)
		if err != nil {
			return err
		}
		to := json.NewEncoder(w)
		to.SetIndent("", "  ")
		return to.Encode(f)
	})
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return r, err
	}
	if r, err = Read(ctx, run, a.of.Name); err != nil {
		return r, err
	}
	if release.Results = r.Results; !reflect.DeepEqual(r, release) {
		return privacy.Release{}, param.Fault("name", a.of.Name,
			"is of other statistics, which were released meanwhile, and stay and count: give another one")
	}
	return r, nil
}

// Read reads a release of a run directory.
func Read(ctx context.Context, run, name string) (privacy.Release, error) {
	const most = 64 << 20
	b, err := store.ReadText(ctx, path(run, name), most)
	if err != nil {
		return privacy.Release{}, err
	}
	var f file
	if err = strictjson.Unmarshal(b, &f); !bytes.HasSuffix(b, []byte("\n}\n")) { // what is inside is indented
		err = errors.New("has no end: it is being written, or was left by a killed process; then remove it to release again, if nobody has seen results in it")
	}
	if err == nil && f.Format != releaseFormat {
		err = fmt.Errorf("format %q: must be %q", f.Format, releaseFormat)
	}
	if err == nil {
		err = f.Validate()
	}
	if err == nil {
		var written file
		written, err = sealed(f.Release)
		if f.SHA256 != written.SHA256 || f.MaxExamplesPerOwner < 1 || f.Name != name || len(f.Results) != len(f.Statistics.Statistics) {
			err = errors.New("is not as it was written")
		}
	}
	if err != nil {
		return privacy.Release{}, fmt.Errorf("%s: %w: %w", path(run, name), manifest.ErrInvalid, err)
	}
	return f.Release, nil
}

// All reads the releases of a run directory, by name. A release of another table than the directory's
// bounded table, if that is there, is an error.
func All(ctx context.Context, run string) (all []privacy.Release, err error) {
	entries, err := store.List(ctx, store.Join(run, manifest.StatisticsFolder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		name, is := strings.CutSuffix(e.Name, ".json")
		if !is || e.Dir {
			continue
		}
		r, err := Read(ctx, run, name)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	if err != nil || all == nil {
		return all, err
	}
	table, err := manifest.DigestOf(ctx, store.Join(run, manifest.BoundedFolder))
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return nil, err
	}
	for _, r := range all {
		if r.Examples != manifest.BoundedExamples(table) {
			return nil, &param.Error{Param: "statistics", Value: r.Name, Rule: "are of another bounded table than " +
				store.Join(run, manifest.BoundedFolder) + ": put theirs back, and bound the other one in a new directory"}
		}
	}
	return all, nil
}
