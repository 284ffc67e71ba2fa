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
	of  privacy.Statistics
	all []aggregate // by statistic
}

// aggregate holds the sums of one statistic; those of other kinds are nil.
type aggregate struct {
	Counts    []*dpagg.Count // by class
	Mean      *dpagg.BoundedMean
	Variance  *dpagg.BoundedVariance
	Quantiles *dpagg.BoundedQuantiles
}

// New returns aggregates without values, for owners with at most perOwner examples.
func New(of privacy.Statistics, perOwner int) (*Aggregates, error) {
	if err := of.Validate(); err != nil {
		return nil, err
	}
	a := &Aggregates{of: of}
	epsilon := of.Epsilon / float64(len(of.Statistics))
	k := int64(perOwner)
	for _, s := range of.Statistics {
		var g aggregate
		var err error
		switch s.Kind {
		case privacy.Counts:
			g.Counts = make([]*dpagg.Count, len(s.Classes))
			for i := range g.Counts {
				options := &dpagg.CountOptions{Epsilon: epsilon, MaxPartitionsContributed: k}
				if g.Counts[i], err = dpagg.NewCount(options); err != nil {
					return nil, err
				}
			}
		case privacy.Mean:
			g.Mean, err = dpagg.NewBoundedMean(&dpagg.BoundedMeanOptions{Epsilon: epsilon,
				MaxPartitionsContributed: 1, MaxContributionsPerPartition: k, Lower: s.Lower, Upper: s.Upper})
		case privacy.Variance:
			g.Variance, err = dpagg.NewBoundedVariance(&dpagg.BoundedVarianceOptions{Epsilon: epsilon,
				MaxPartitionsContributed: 1, MaxContributionsPerPartition: k, Lower: s.Lower, Upper: s.Upper})
		case privacy.Quantiles:
			g.Quantiles, err = dpagg.NewBoundedQuantiles(&dpagg.BoundedQuantilesOptions{Epsilon: epsilon,
				MaxPartitionsContributed: 1, MaxContributionsPerPartition: k, Lower: s.Lower, Upper: s.Upper})
		}
		if err != nil {
			return nil, fmt.Errorf("%s of %s: %w", s.Kind, s.Column, err)
		}
		a.all = append(a.all, g)
	}
	return a, nil
}

// Add adds the value of an example in a column: a number, and the text of a class. A number that is
// NaN is no value.
func (a *Aggregates) Add(column string, number float64, text string) error {
	for i, s := range a.of.Statistics {
		if s.Column != column {
			continue
		}
		g := &a.all[i]
		var err error
		switch s.Kind {
		case privacy.Counts:
			if class := slices.Index(s.Classes, text); class >= 0 {
				err = g.Counts[class].Increment()
			}
		case privacy.Mean:
			err = g.Mean.Add(number)
		case privacy.Variance:
			err = g.Variance.Add(number)
		case privacy.Quantiles:
			err = g.Quantiles.Add(number)
		}
		if err != nil {
			return err
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
	if len(others) != len(a.all) {
		return errors.New("aggregates of another request")
	}
	for i, s := range a.of.Statistics {
		g, o := &a.all[i], &others[i]
		var err error
		switch s.Kind {
		case privacy.Counts:
			for class := range g.Counts {
				err = errors.Join(err, g.Counts[class].Merge(o.Counts[class]))
			}
		case privacy.Mean:
			err = g.Mean.Merge(o.Mean)
		case privacy.Variance:
			err = g.Variance.Merge(o.Variance)
		case privacy.Quantiles:
			err = g.Quantiles.Merge(o.Quantiles)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Results adds noise, and ends the aggregates.
func (a *Aggregates) Results() (results [][]float64, err error) {
	for i, s := range a.of.Statistics {
		g := &a.all[i]
		var values []float64
		add := func(value float64, failed error) {
			values, err = append(values, value), errors.Join(err, failed)
		}
		switch s.Kind {
		case privacy.Counts:
			for _, class := range g.Counts {
				n, err := class.Result()
				add(float64(n), err)
			}
		case privacy.Mean:
			add(g.Mean.Result())
		case privacy.Variance:
			add(g.Variance.Result())
		case privacy.Quantiles:
			for _, rank := range s.Ranks {
				add(g.Quantiles.Result(rank))
			}
		}
		results = append(results, values)
	}
	return results, err
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
