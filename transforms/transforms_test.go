package transforms

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/typex"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	//lint:ignore SA1019 it is the default runner
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/direct"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"

	"minsep/internal/manifest"
	"minsep/internal/must"
	"minsep/internal/ownergraph"
	"minsep/internal/stream"
	"minsep/sampling"
)

func TestMain(m *testing.M) {
	beam.Init()
	os.Exit(m.Run())
}

func init() {
	register.Function1x2(pairOf)
	register.Function1x2(bytesPairOf)
	register.Function1x2(namedPairOf)
	register.Function1x0(take)
	register.Function1x0(takeInt)
	register.Function1x0(takeBytes)
	register.Function2x0(takeRow)
	register.Emitter1[int]()
}

// people is the number of pairs: each owner has three examples.
const people = 3000

func pairOf(i int) (string, int64)             { return fmt.Sprintf("SECRET-%05d", i), int64(i / 3) }
func bytesPairOf(i int) ([]byte, uint64)       { return fmt.Appendf(nil, "SECRET-%05d", i), uint64(i / 3) }
func namedPairOf(i int) (time.Duration, int64) { return time.Duration(i), 1 }

// taken holds the elements that the DoFns of a test have seen.
var taken struct {
	sync.Mutex
	parts []Batch[string]
	ints  []Batch[int64]
	bytes []Batch[[]byte]
	rows  map[string]Row[int64]
}

func take(b Batch[string]) {
	taken.Lock()
	defer taken.Unlock()
	taken.parts = append(taken.parts, b)
}

func takeInt(b Batch[int64]) {
	taken.Lock()
	defer taken.Unlock()
	taken.ints = append(taken.ints, b)
}

func takeBytes(b Batch[[]byte]) {
	taken.Lock()
	defer taken.Unlock()
	taken.bytes = append(taken.bytes, b)
}

func takeRow(id string, r Row[int64]) {
	taken.Lock()
	defer taken.Unlock()
	taken.rows[id] = r
}

func newTraining(t testing.TB) *Training {
	t.Helper()
	dir := t.TempDir()
	must.Do(t, stream.CreateKeyFile(filepath.Join(dir, "key")))
	return must.Get(NewTraining(t.Context(), filepath.Join(dir, "run"), filepath.Join(dir, "key")))(t)
}

// again is the training of the same run, as if nothing had been made.
func again(t *Training) *Training { return &Training{dir: t.dir, keyFile: t.keyFile, id: t.id} }

var scheme = sampling.Params{Scheme: "b-min-sep", Steps: 60, MinSep: 6, BatchSize: 100}

func numbers(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

var limits = Limits{MaxExamplesPerOwner: 2}

func examples(t *testing.T, s beam.Scope, training *Training, l Limits) Examples {
	t.Helper()
	return must.Get(BoundContributions(s, training, l, beam.ParDo(s, pairOf, beam.CreateList(s, numbers(people)))))(t)
}

// TestElementsAreTheFiles: on two runners, for several sizes, the elements are the files, the files
// have the same bytes, and the ids are those of the rows.
func TestElementsAreTheFiles(t *testing.T) {
	first := newTraining(t)
	var files []manifest.File
	for _, c := range []struct {
		runner       string
		part, shards int
		blocks       int // each of them one worker's, so that a step has a part of each at least
	}{{"direct", 0, 1, 1}, {"prism", 7, 1, 0}, {"direct", 100, 1, 4}, {"prism", 33, 5, 3}} {
		training := again(first)
		training.dir = t.TempDir()
		must.Get(openRun(training))(t)
		taken.parts, taken.rows = nil, map[string]Row[int64]{}
		p, s := beam.NewPipelineWithRoot()
		e := examples(t, s, training, limits)
		must.Do(t, e.Write(t.Context(), s))
		beam.ParDo0(s, takeRow, must.Get(e.Rows(s))(t))
		b := must.Get(SampleBatches(s, Sampling{Params: scheme, PartSize: c.part, Shards: c.shards, Blocks: c.blocks, Workers: 1}, e))(t)
		beam.ParDo0(s, take, must.Get(b.Elements(s))(t))
		must.Get(b.Write(t.Context(), s))(t)
		must.Get(beam.Run(t.Context(), c.runner, p))(t)
		batches := must.Get(manifest.OpenBatches(t.Context(), filepath.Join(training.dir, manifest.BatchesFolder)))(t)
		if err := batches.Index.Verify(t.Context(), batches.Dir); err != nil {
			t.Error(err)
		}
		table := must.Get(manifest.OpenBounded(t.Context(), filepath.Join(training.dir, manifest.BoundedFolder)))(t)
		if batches.Index.Inputs[manifest.BoundedFolder] != table.Digest {
			t.Errorf("%v: the index of the batches does not name the table", c)
		}
		if c.shards == 1 && files == nil {
			files = batches.Index.Files
		} else if c.shards == 1 && !slices.Equal(files, batches.Index.Files) {
			t.Errorf("%v: other files", c)
		}
		if least := slices.MinFunc(taken.parts, func(a, b Batch[string]) int { return a.Parts - b.Parts }); least.Parts < c.blocks {
			t.Errorf("%v: step %d has %d parts", c, least.Step, least.Parts)
		}
		if got := together(t, taken.parts, c.part); fmt.Sprint(got) != fmt.Sprint(rowsOf(t, batches)) || len(slices.Concat(got...)) == 0 {
			t.Errorf("%v: the elements differ from the files", c)
		}
	}
}

func openRun(t *Training) (manifest.Run, error) {
	run, _, err := manifest.OpenRun(t.dir)
	return run, err
}

// together returns the rows of each step, and checks their parts and ids against taken.rows.
func together(t *testing.T, parts []Batch[string], size int) (steps [][]int64) {
	t.Helper()
	slices.SortFunc(parts, func(a, b Batch[string]) int { return (a.Step-b.Step)*1000 + a.Part - b.Part })
	for _, b := range parts {
		if b.Part == 0 {
			steps = append(steps, nil)
		}
		if b.Step != len(steps)-1 || len(b.Rows) != len(b.IDs) || size > 0 && len(b.Rows) > size || b.Part >= b.Parts {
			t.Fatalf("step %d part %d of %d: %d rows, %d ids", b.Step, b.Part, b.Parts, len(b.Rows), len(b.IDs))
		}
		for i, id := range b.IDs {
			row, kept := taken.rows[id]
			if owner, _ := pairOwner(id); !kept || row.Number != b.Rows[i] || row.Copies != 1 || !slices.Equal(row.Owners, []int64{owner}) {
				t.Fatalf("id %s of row %d: %+v", id, b.Rows[i], row)
			}
		}
		steps[b.Step] = append(steps[b.Step], b.Rows...)
	}
	return steps
}

func pairOwner(id string) (owner int64, err error) {
	_, err = fmt.Sscanf(id, "SECRET-%d", &owner)
	return owner / 3, err
}

func rowsOf(t *testing.T, b *manifest.Batches) (steps [][]int64) {
	t.Helper()
	must.Do(t, b.Each(t.Context(), func(_ int, rows []int64, _ []int) error {
		steps = append(steps, slices.Clone(rows))
		return nil
	}))
	return steps
}

// TestOwnersAndPools: sampled owners and pools of rotation come as elements, the same as in files.
func TestOwnersAndPools(t *testing.T) {
	owners := sampling.Params{Scheme: "b-min-sep", Steps: 30, MinSep: 4, BatchSize: 50, Sample: sampling.SampleOwners, ExamplesPerOwner: 2}
	rotation := sampling.Params{Scheme: "rotation", Steps: 30, EpochSteps: 10}
	pools := Limits{MaxExamplesPerOwner: 1, Pools: 3}
	for name, c := range map[string]struct {
		params sampling.Params
		limits Limits
	}{"owners": {owners, limits}, "pools": {rotation, pools}} {
		t.Run(name, func(t *testing.T) {
			training := newTraining(t)
			taken.parts, taken.rows = nil, map[string]Row[int64]{}
			p, s := beam.NewPipelineWithRoot()
			e := examples(t, s, training, c.limits)
			beam.ParDo0(s, takeRow, must.Get(e.Rows(s))(t))
			b := must.Get(SampleBatches(s, Sampling{Params: c.params, PartSize: 16, Blocks: 3}, e))(t)
			beam.ParDo0(s, take, must.Get(b.Elements(s))(t))
			must.Get(b.Write(t.Context(), s))(t)
			must.Get(beam.Run(t.Context(), "prism", p))(t)
			batches := must.Get(manifest.OpenBatches(t.Context(), filepath.Join(training.dir, manifest.BatchesFolder)))(t)
			if got := together(t, taken.parts, 16); fmt.Sprint(got) != fmt.Sprint(rowsOf(t, batches)) || len(slices.Concat(got...)) == 0 {
				t.Error("the elements differ from the files")
			}
			for _, part := range taken.parts {
				last := 0
				for _, end := range part.Ends {
					first, _ := pairOwner(part.IDs[last])
					for _, id := range part.IDs[last:end] {
						if owner, _ := pairOwner(id); owner != first || end-last > 2 {
							t.Fatalf("%s among the examples of owner %d", id, first)
						}
					}
					last = end
				}
				if (last != len(part.IDs)) == (name == "owners") {
					t.Fatalf("owners end at %d of %d", part.Ends, len(part.IDs))
				}
			}
			for id, row := range taken.rows {
				if (len(row.Pools) > 0) != (name == "pools") {
					t.Fatalf("%s is in pools %d", id, row.Pools)
				}
			}
		})
	}
}

// TestNumbered: numbered examples are their own ids, and bytes as ids are the strings.
func TestNumberedAndBytes(t *testing.T) {
	taken.ints, taken.bytes = nil, nil
	p, s := beam.NewPipelineWithRoot()
	b := must.Get(SampleBatches(s, Sampling{Params: scheme}, NumberedExamples(newTraining(t), 2000)))(t)
	beam.ParDo0(s, takeInt, must.Get(b.Elements(s))(t))
	pairs := beam.ParDo(s, bytesPairOf, beam.CreateList(s, numbers(people)))
	e := must.Get(BoundContributions(s, newTraining(t), limits, pairs))(t)
	b = must.Get(SampleBatches(s, Sampling{Params: scheme}, e))(t)
	beam.ParDo0(s, takeBytes, beam.Reshuffle(s, must.Get(b.Elements(s))(t)))
	must.Get(beam.Run(t.Context(), "direct", p))(t)
	entries := 0
	for _, b := range taken.ints {
		if entries += len(b.IDs); !slices.Equal(b.IDs, b.Rows) {
			t.Errorf("step %d: ids %d of rows %d", b.Step, b.IDs, b.Rows)
		}
	}
	for _, b := range taken.bytes {
		for i, id := range b.IDs {
			if entries++; !strings.HasPrefix(string(id), "SECRET-") || i > 0 && string(b.IDs[i-1]) >= string(id) {
				t.Fatalf("step %d: ids %q", b.Step, b.IDs)
			}
		}
	}
	if entries < 8000 {
		t.Errorf("%d entries in all", entries)
	}
}

// TestRowsTwice: rows that come twice fail the pipeline before a batch is seen, on both runners, and
// no id is named.
func TestRowsTwice(t *testing.T) {
	for _, runner := range []string{"direct", "prism"} {
		p, s := beam.NewPipelineWithRoot()
		e := examples(t, s, newTraining(t), limits)
		e.parts = beam.Flatten(s, e.parts, e.parts)
		b := must.Get(SampleBatches(s, Sampling{Params: scheme}, e))(t)
		taken.parts = nil
		beam.ParDo0(s, take, must.Get(b.Elements(s))(t))
		_, err := beam.Run(t.Context(), runner, p)
		if len(taken.parts) > 0 {
			t.Errorf("%s: %d parts were taken", runner, len(taken.parts))
		}
		if err == nil || !strings.Contains(err.Error(), "some twice or not at all") || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: %v", runner, err)
		}
	}
}

// TestFault: what only the counted examples show reaches the user without the plan of the pipeline,
// from both runners.
func TestFault(t *testing.T) {
	infeasible := scheme
	infeasible.BatchSize = 1e6
	for _, runner := range []string{"direct", "prism"} {
		p, s := beam.NewPipelineWithRoot()
		b := must.Get(SampleBatches(s, Sampling{Params: infeasible}, examples(t, s, newTraining(t), limits)))(t)
		beam.ParDo0(s, take, must.Get(b.Elements(s))(t))
		_, err := beam.Run(t.Context(), runner, p)
		var input *InputError
		if err = Fault(err); !errors.As(err, &input) || !strings.HasPrefix(err.Error(), "batch size 1e+06: must be at most ") || strings.Count(err.Error(), "\n") > 0 {
			t.Errorf("%s: %v", runner, err)
		}
	}
	if Fault(nil) != nil {
		t.Error("no error is a fault")
	}
	if other := errors.New("disk full"); Fault(other) != other {
		t.Error("another error changed")
	}
}

func TestLongID(t *testing.T) {
	var ids ownergraph.IDs
	ids.Reset(ownergraph.String)
	err := appendID(&ids, strings.Repeat("SECRET", 50))
	var long *LongIDError
	if !errors.As(err, &long) || long.Bytes != 300 || strings.Contains(err.Error(), "SECRET") {
		t.Error(err)
	}
}

// TestMisuse: every fault that can be seen when the pipeline is built is an error then.
func TestMisuse(t *testing.T) {
	training := newTraining(t)
	_, s := beam.NewPipelineWithRoot()
	pairs := beam.ParDo(s, pairOf, beam.Create(s, 1))
	bound := func(training *Training, pairs beam.PCollection) error {
		_, err := BoundContributions(s, training, limits, pairs)
		return err
	}
	sample := func(e Examples, p sampling.Params) error {
		_, err := SampleBatches(s, Sampling{Params: p}, e)
		return err
	}
	unbounded := beam.External(s, "urn", nil, nil, []beam.FullType{typex.NewKV(typex.New(reflect.TypeFor[string]()), typex.New(reflect.TypeFor[int64]()))}, false)[0]
	tooLarge, tooLargeBatch, none := scheme, scheme, scheme
	tooLarge.Steps++
	tooLargeBatch.BatchSize = 900
	none.Scheme = "none"
	for want, err := range map[string]error{
		"no training":                     bound(&Training{}, pairs),
		"no training is given":            bound(nil, pairs),
		"must be KV<K, V>":                bound(training, beam.Create(s, "a")),
		"must be int64, uint64":           bound(training, beam.ParDo(s, namedPairOf, beam.Create(s, 1))),
		"elements are CoGBK":              bound(training, beam.GroupByKey(s, pairs)),
		"must be in the global window":    bound(training, beam.WindowInto(s, window.NewFixedWindows(time.Minute), pairs)),
		"is unbounded":                    bound(training, unbounded),
		"is no PCollection":               bound(training, beam.PCollection{}),
		"must be from 1 to":               func() error { _, err := BoundContributions(s, training, Limits{}, pairs); return err }(),
		"no training is":                  sample(Examples{}, scheme),
		"there are no examples":           sample(NumberedExamples(training, 0), scheme),
		"batch size 100: must be at most": sample(NumberedExamples(training, 50), scheme),
		`scheme "none": must be one of`:   sample(NumberedExamples(training, 5000), none),
		"part size -1": func() error {
			_, err := SampleBatches(s, Sampling{Params: scheme, PartSize: -1}, NumberedExamples(training, 5000))
			return err
		}(),
		"holds a training already": func() error { _, err := NewTraining(t.Context(), training.dir, training.keyFile); return err }(),
		"no batches are given":     func() error { _, err := Batches{}.Elements(s); return err }(),
		"are in no table":          func() error { _, err := NumberedExamples(training, 5).Rows(s); return err }(),
		"can be written":           func() error { e := NumberedExamples(training, 5); return e.Write(t.Context(), s) }(),
	} {
		must.Fail(t, "", want)(err)
	}
	// What was refused has not used the training; what was built has.
	must.Do(t, errors.Join(bound(training, pairs), sample(NumberedExamples(training, 5000), scheme)))
	for want, err := range map[string]error{
		"has a bound already":    bound(training, pairs),
		"has a sampling already": sample(NumberedExamples(training, 5000), tooLarge),
	} {
		must.Fail(t, "", want)(err)
	}
}

func TestCoders(t *testing.T) {
	same(t, Batch[int64]{Step: 3, Part: 1, Parts: 2, Rows: []int64{0, 9}, IDs: []int64{-5, 1 << 60}})
	same(t, Batch[uint64]{Step: 3, Parts: 1, Rows: []int64{0, 9}, IDs: []uint64{1 << 63, 1}})
	same(t, Batch[string]{Parts: 1, Rows: []int64{9, 7}, IDs: []string{"", "a"}, Ends: []int{1, 2}})
	same(t, Batch[[]byte]{Parts: 1, Rows: []int64{7}, IDs: [][]byte{{0, 255}}})
	same(t, Batch[int64]{Parts: 1})
}

func same[K ID](t *testing.T, b Batch[K]) {
	t.Helper()
	encoded := must.Get(encodeBatch(b))(t)
	got, err := decodeBatch[K](encoded)
	if err != nil || !reflect.DeepEqual(got, b) {
		t.Errorf("%+v, %v, want %+v", got, err, b)
	}
	for n := range encoded {
		if _, err := decodeBatch[K](encoded[:n]); err == nil {
			t.Errorf("the first %d of %d bytes are a batch", n, len(encoded))
		}
	}
}

// TestEveryBundleTwice runs every bundle a second time, as a runner does that lost the first outcome:
// the files and indexes of the first time are there, and the elements are the same.
func TestEveryBundleTwice(t *testing.T) {
	for _, runners := range [][2]string{{"direct", "direct"}, {"prism", "direct"}} {
		training := newTraining(t)
		p, s := beam.NewPipelineWithRoot()
		e := examples(t, s, training, limits)
		must.Do(t, e.Write(t.Context(), s))
		b := must.Get(SampleBatches(s, Sampling{Params: scheme, Shards: 3}, e))(t)
		must.Get(b.Write(t.Context(), s))(t)
		beam.ParDo0(s, take, must.Get(b.Elements(s))(t))
		noisy := labels
		noisy.Epsilon = 0.01 // noise that is drawn again differs
		values := beam.ParDo(s, valueOf, beam.CreateList(s, numbers(people)))
		beam.ParDo0(s, takeRelease, must.Get(Statistics(t.Context(), s, noisy, e, values))(t))
		released.list = nil
		var steps, files [2]string
		for i, runner := range runners {
			taken.parts, taken.rows = nil, nil
			must.Get(beam.Run(t.Context(), runner, p))(t)
			slices.SortFunc(taken.parts, func(a, b Batch[string]) int { return a.Step - b.Step })
			steps[i] = fmt.Sprint(taken.parts)
			for _, folder := range []string{manifest.BoundedFolder, manifest.BatchesFolder} {
				index := must.Get(os.ReadFile(filepath.Join(training.dir, folder, manifest.IndexName)))(t)
				files[i] += string(index)
			}
		}
		if steps[0] != steps[1] || files[0] != files[1] || len(taken.parts) != scheme.Steps {
			t.Errorf("%v: the second time gives other results", runners)
		}
		if len(released.list) != 2 || !reflect.DeepEqual(released.list[0], released.list[1]) {
			t.Errorf("%v: releases %+v", runners, released.list)
		}
	}
}
