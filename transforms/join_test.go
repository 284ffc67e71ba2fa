package transforms

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"minsep/internal/must"
	"minsep/sampling"
)

func init() {
	register.Function1x2(recordOf)
	register.Function2x0(takeEntry)
	register.Emitter2[Slot, picture]()
	beam.RegisterType(reflect.TypeFor[picture]())
}

// picture is a record of an example.
type picture struct {
	Name   string
	Pixels []byte
}

func recordOf(i int) (string, picture) {
	id, _ := pairOf(i)
	return id, picture{id, make([]byte, i%50)}
}

type entry struct {
	Slot
	picture
}

var entries struct {
	sync.Mutex
	list []entry
}

func takeEntry(s Slot, r picture) {
	entries.Lock()
	defer entries.Unlock()
	entries.list = append(entries.list, entry{s, r})
}

// TestJoin: on both runners, the records are those of the batches, and come in the order of the
// steps.
func TestJoin(t *testing.T) {
	owners := sampling.Params{Scheme: "b-min-sep", Steps: 30, MinSep: 4, BatchSize: 50, Sample: sampling.SampleOwners, ExamplesPerOwner: 2}
	for _, c := range []struct {
		runner string
		params sampling.Params
		shards int
		blocks int
	}{{"direct", scheme, 1, 1}, {"prism", scheme, 3, 1}, {"direct", owners, 2, 1}, {"direct", owners, 2, 3}, {"prism", scheme, 3, 2}} {
		taken.parts, taken.rows, entries.list = nil, map[string]Row[int64]{}, nil
		p, s := beam.NewPipelineWithRoot()
		e := examples(t, s, newTraining(t), limits)
		beam.ParDo0(s, takeRow, must.Get(e.Rows(s))(t))
		b := must.Get(SampleBatches(s, Sampling{Params: c.params, Shards: c.shards, Blocks: c.blocks}, e))(t)
		beam.ParDo0(s, take, must.Get(b.Elements(s))(t))
		records := beam.ParDo(s, recordOf, beam.CreateList(s, numbers(people)))
		beam.ParDo0(s, takeEntry, must.Get(b.Join(s, records))(t))
		must.Get(beam.Run(t.Context(), c.runner, p))(t)
		steps := together(t, taken.parts, 0)
		var want []entry
		index := 0
		for _, part := range taken.parts {
			if part.Part == 0 {
				index = 0
			}
			for i, id := range part.IDs {
				var number int
				fmt.Sscanf(id, "SECRET-%d", &number)
				want = append(want, entry{Slot{part.Step, index, len(steps[part.Step]), part.Rows[i]}, picture{id, make([]byte, number%50)}})
				index++
			}
		}
		got := slices.Clone(entries.list)
		for i := 1; i < len(got); i++ { // cells come in any order, and their entries in that of the steps
			a, b := got[i-1].Slot, got[i].Slot
			if a.Step == b.Step && b.Index != a.Index+1 && c.blocks == 1 || a.Step != b.Step && b.Index != 0 && c.blocks == 1 {
				t.Fatalf("%s: entry %+v follows %+v", c.runner, b, a)
			}
		}
		slices.SortFunc(got, func(a, b entry) int { return cmp.Or(a.Step-b.Step, a.Index-b.Index) })
		if fmt.Sprint(got) != fmt.Sprint(want) || len(got) == 0 {
			t.Errorf("%s: %d entries, want %d", c.runner, len(got), len(want))
		}
	}
}

// TestJoinRefuses: other types, records that are missing or twice, which are not named.
func TestJoinRefuses(t *testing.T) {
	run := func(records func(s beam.Scope) beam.PCollection, sampling Sampling) error {
		p, s := beam.NewPipelineWithRoot()
		b, err := SampleBatches(s, sampling, examples(t, s, newTraining(t), limits))
		if err != nil {
			return err
		}
		joined, err := b.Join(s, records(s))
		if err != nil {
			return err
		}
		beam.ParDo0(s, takeEntry, joined)
		_, err = beam.Run(t.Context(), "direct", p)
		return err
	}
	of := func(list []int) func(s beam.Scope) beam.PCollection {
		return func(s beam.Scope) beam.PCollection { return beam.ParDo(s, recordOf, beam.CreateList(s, list)) }
	}
	for want, err := range map[string]error{
		"two records have the same id":       run(of(append(numbers(people), 7)), Sampling{Params: scheme}),
		"has no record":                      run(of(numbers(people/2)), Sampling{Params: scheme}),
		"unset RowsOnly":                     run(of(numbers(people)), Sampling{Params: scheme, RowsOnly: true}),
		"elements are int: must be KV<K, V>": run(func(s beam.Scope) beam.PCollection { return beam.Create(s, 1) }, Sampling{Params: scheme}),
		"ids are of type int64: must be string": run(func(s beam.Scope) beam.PCollection {
			return beam.SwapKV(s, beam.ParDo(s, pairOf, beam.Create(s, 1)))
		}, Sampling{Params: scheme}),
		"records: is no PCollection": run(func(beam.Scope) beam.PCollection { return beam.PCollection{} }, Sampling{Params: scheme}),
	} {
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%q: got %v", want, err)
		}
	}
}
