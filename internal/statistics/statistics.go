// Package statistics aggregates the values of examples and releases private statistics of them, by
// github.com/google/differential-privacy. [New] makes aggregates, which are merged and released
// once: [Publish] keeps the first release of a name.
//
// An owner has at most k examples of a bounded table, each with one value in a column. So leaving
// out an owner changes at most k values, be they of one class or of several: the counts of all
// classes together change by at most k in the sum of their absolute values, which is what Laplace
// noise needs. The noise of a count is therefore that of k classes with one change each.
package statistics

import (
	"bytes"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/google/differential-privacy/go/v3/dpagg"

	"minsep/internal/manifest"
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

// aggregate holds the counts of one statistic by class, or the sums of its values.
type aggregate struct {
	Counts []int64
	Values values
}

// values are [dpagg.BoundedMean], [dpagg.BoundedVariance] or [dpagg.BoundedQuantiles].
type values interface{ Add(float64) error }

func init() {
	gob.Register(&dpagg.BoundedMean{})
	gob.Register(&dpagg.BoundedVariance{})
	gob.Register(&dpagg.BoundedQuantiles{})
}

// New returns aggregates without values, for owners with at most perOwner examples.
func New(of privacy.Statistics, perOwner int) (*Aggregates, error) {
	if err := of.Validate(); err != nil {
		return nil, err
	}
	a := &Aggregates{of: of, perOwner: int64(perOwner)}
	for _, s := range of.Statistics {
		g := aggregate{Counts: make([]int64, len(s.Classes))}
		var err error
		if s.Kind != privacy.Counts {
			g.Values, err = a.newValues(s)
		}
		if err != nil {
			return nil, fmt.Errorf("%s of %s: %w", s.Kind, s.Column, err)
		}
		a.all = append(a.all, g)
	}
	return a, nil
}

// epsilon is the part of one statistic.
func (a *Aggregates) epsilon() float64 { return a.of.Epsilon / float64(len(a.of.Statistics)) }

func (a *Aggregates) newValues(s privacy.Statistic) (values, error) {
	switch s.Kind {
	case privacy.Mean:
		return dpagg.NewBoundedMean(&dpagg.BoundedMeanOptions{Epsilon: a.epsilon(),
			MaxPartitionsContributed: 1, MaxContributionsPerPartition: a.perOwner, Lower: s.Lower, Upper: s.Upper})
	case privacy.Variance:
		return dpagg.NewBoundedVariance(&dpagg.BoundedVarianceOptions{Epsilon: a.epsilon(),
			MaxPartitionsContributed: 1, MaxContributionsPerPartition: a.perOwner, Lower: s.Lower, Upper: s.Upper})
	}
	return dpagg.NewBoundedQuantiles(&dpagg.BoundedQuantilesOptions{Epsilon: a.epsilon(),
		MaxPartitionsContributed: 1, MaxContributionsPerPartition: a.perOwner, Lower: s.Lower, Upper: s.Upper})
}

// Add adds the value of an example in a column: a number, and the text of a class. A number that is
// NaN is no value.
func (a *Aggregates) Add(column string, number float64, text string) error {
	for i, s := range a.of.Statistics {
		if s.Column != column {
			continue
		}
		if class := slices.Index(s.Classes, text); class >= 0 {
			a.all[i].Counts[class]++
		}
		if s.Kind != privacy.Counts {
			if err := a.all[i].Values.Add(number); err != nil {
				return err
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

var errOther = errors.New("aggregates of another request")

// Merge adds encoded aggregates of the same request.
func (a *Aggregates) Merge(encoded []byte) error {
	var others []aggregate
	if err := gob.NewDecoder(bytes.NewReader(encoded)).Decode(&others); err != nil {
		return err
	}
	if len(others) != len(a.all) {
		return errOther
	}
	for i, other := range others {
		if len(other.Counts) != len(a.all[i].Counts) {
			return errOther
		}
		for class, n := range other.Counts {
			a.all[i].Counts[class] += n
		}
		var err error
		switch to := a.all[i].Values.(type) {
		case *dpagg.BoundedMean:
			err = merge(to, other.Values)
		case *dpagg.BoundedVariance:
			err = merge(to, other.Values)
		case *dpagg.BoundedQuantiles:
			err = merge(to, other.Values)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func merge[T interface{ Merge(T) error }](to T, from values) error {
	same, ok := from.(T)
	if !ok {
		return errOther
	}
	return to.Merge(same)
}

// Results adds noise, and ends the aggregates.
func (a *Aggregates) Results() (results [][]float64, err error) {
	for i, s := range a.of.Statistics {
		var list []float64
		add := func(value float64, failed error) {
			list, err = append(list, value), errors.Join(err, failed)
		}
		for _, n := range a.all[i].Counts {
			add(a.noisy(n))
		}
		switch of := a.all[i].Values.(type) {
		case *dpagg.BoundedMean:
			add(of.Result())
		case *dpagg.BoundedVariance:
			add(of.Result())
		case *dpagg.BoundedQuantiles:
			for _, rank := range s.Ranks {
				add(of.Result(rank))
			}
		}
		results = append(results, list)
	}
	return results, err
}

// noisy returns a count of a class with noise.
func (a *Aggregates) noisy(n int64) (float64, error) {
	count, err := dpagg.NewCount(&dpagg.CountOptions{Epsilon: a.epsilon(), MaxPartitionsContributed: a.perOwner})
	if err != nil {
		return 0, err
	}
	if err := count.IncrementBy(n); err != nil {
		return 0, err
	}
	result, err := count.Result()
	return float64(result), err
}

// releaseFormat is the format of the file of a release.
const releaseFormat = "minsep-statistics/1"

// file is the file of a release.
type file struct {
	Format string `json:"format"`
	privacy.Release
}

// path returns the name of the file of a release.
func path(run, name string) string {
	return store.Join(run, manifest.StatisticsFolder, name+".json")
}

// Publish writes a release into a run directory and returns it. If one of its name is there, that
// one is returned: noise that is drawn again, by a worker that is repeated, is never released.
func Publish(ctx context.Context, run string, r privacy.Release) (privacy.Release, error) {
	b, err := json.MarshalIndent(file{releaseFormat, r}, "", "  ")
	if err != nil {
		return r, err
	}
	if err := store.MkdirAll(ctx, store.Join(run, manifest.StatisticsFolder), 0o755); err != nil {
		return r, err
	}
	err = store.WriteFile(ctx, path(run, r.Name), store.Options{Mode: 0o644, New: true}, append(b, '\n'))
	if errors.Is(err, fs.ErrExist) {
		return Read(ctx, run, r.Name)
	}
	return r, err
}

// Read reads a release of a run directory.
func Read(ctx context.Context, run, name string) (privacy.Release, error) {
	const most = 64 << 20
	b, err := store.ReadText(ctx, path(run, name), most)
	if err != nil {
		return privacy.Release{}, err
	}
	var f file
	err = strictjson.Unmarshal(b, &f)
	if err == nil && f.Format != releaseFormat {
		err = fmt.Errorf("format %q: must be %q", f.Format, releaseFormat)
	}
	if err == nil {
		err = f.Validate()
	}
	if err == nil && (f.MaxExamplesPerOwner < 1 || f.Name != name || len(f.Results) != len(f.Statistics.Statistics)) {
		err = errors.New("is not as it was written")
	}
	if err != nil {
		return privacy.Release{}, fmt.Errorf("%s: %w: %w", path(run, name), manifest.ErrInvalid, err)
	}
	return f.Release, nil
}

// All reads the releases of a run directory, by name.
func All(ctx context.Context, run string) (all []privacy.Release, err error) {
	entries, err := store.List(ctx, store.Join(run, manifest.StatisticsFolder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		name, is := strings.CutSuffix(e.Name, ".json")
		if !is || e.Dir || strings.HasPrefix(e.Name, store.TempPrefix) {
			continue
		}
		r, err := Read(ctx, run, name)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, err
}
