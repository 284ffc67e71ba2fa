package formation_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"minsep/internal/manifest"
	"minsep/internal/ownergraph"
	"minsep/internal/stream"
	"minsep/sampling"
)

// ownedTable has string ids, and one owner for each example; owner u has about u mod 7 + 1 of them,
// anywhere in the table.
func ownedTable(seed uint64, n int, example, owner ownergraph.IDType) table {
	rng := rand.New(rand.NewPCG(seed, 1))
	rows := new(ownergraph.Rows)
	rows.Reset(0, example, owner)
	for e := range n {
		u := rng.IntN(1 + n/4)
		if rng.IntN(7) < u%7 {
			u = u / 7 * 7
		}
		if example == ownergraph.Int64 {
			rows.Examples.AppendInt(int64(3 * e))
		} else {
			rows.Examples.AppendBytes(fmt.Appendf(nil, "example %06d", e))
		}
		if owner == ownergraph.Int64 {
			rows.Owners.AppendInt(int64(1000 - u))
		} else {
			rows.Owners.AppendBytes(fmt.Appendf(nil, "owner %d", u))
		}
		rows.Copies = append(rows.Copies, 1)
		rows.Ends = append(rows.Ends, uint32(e+1))
	}
	return table{n: int64(n), rows: rows}
}

// owned are the rows of each owner of a table, ascending, in the order of their first ones, with
// the number of the owner's id in the table.
func owned(tb table) (owners [][]int64, ids []int) {
	number := map[string]int{}
	for row := range tb.rows.Len() {
		start, _ := tb.rows.OwnersOf(row)
		name := tb.rows.Owners.Format(start)
		if _, ok := number[name]; !ok {
			number[name] = len(owners)
			owners, ids = append(owners, nil), append(ids, start)
		}
		owners[number[name]] = append(owners[number[name]], int64(row))
	}
	return owners, ids
}

// sequentialOwners forms the batches owner after owner, with nothing of the pipeline: groups of
// rows by step.
func sequentialOwners(t testing.TB, spec sampling.Spec, tb table) [][][]int64 {
	src := stream.NewSource(keyOf(t, spec, "participations of owners"))
	process, subsets := spec.Process(), stream.NewSource(keyOf(t, spec, "examples of owners"))
	batches := make([][][]int64, spec.Scheme().NumSteps())
	firsts := make([][]int64, len(batches))
	owners, ids := owned(tb)
	for u, rows := range owners {
		for _, step := range process.Draw(nil, src.Stream(tb.rows.Owners.Address(src, ids[u], 0)), rows[0]) {
			var group []int64
			for _, i := range spec.Owners.Draw(nil, subsets.Stream(subsets.IntAddress(rows[0], uint32(step))), len(rows)) {
				group = append(group, rows[i])
			}
			batches[step] = append(batches[step], group)
			firsts[step] = append(firsts[step], rows[0])
		}
	}
	for step, batch := range batches {
		if cut := spec.Truncation; cut != nil {
			stay := cutAt(t, spec, step, slices.Clone(firsts[step]))
			kept := batch[:0]
			for i, group := range batch {
				if slices.Contains(stay, firsts[step][i]) {
					kept = append(kept, group)
				}
			}
			batch = kept
		}
		slices.SortFunc(batch, func(x, y []int64) int { return cmp.Compare(x[0], y[0]) })
		if cut := spec.Truncation; cut != nil && cut.Pad {
			for i := range batch {
				batch[i] = padded(batch[i], spec.Owners.ExamplesPerOwner)
			}
			for len(batch) < cut.MaxBatchSize {
				batch = append(batch, padded(nil, spec.Owners.ExamplesPerOwner))
			}
		}
		batches[step] = batch
	}
	return batches
}

func padded(rows []int64, n int) []int64 {
	for len(rows) < n {
		rows = append(rows, sampling.PadRow)
	}
	return rows
}

// readOwners returns the groups of every step.
func readOwners(t testing.TB, b *manifest.Batches) (out [][][]int64) {
	err := b.Each(t.Context(), func(_ int, rows []int64, ends []int) error {
		batch, start := [][]int64{}, 0
		for _, end := range ends {
			batch, start = append(batch, slices.Clone(rows[start:end])), end
		}
		out = append(out, batch)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func ofOwners(spec sampling.Spec, examples int) sampling.Spec {
	spec.Owners = &sampling.OwnerSampling{ExamplesPerOwner: examples}
	return spec
}

func TestOwnersEqualTheSequentialReference(t *testing.T) {
	tables := map[string]table{"strings": ownedTable(1, 200, ownergraph.String, ownergraph.Int64), "integers": ownedTable(2, 150, ownergraph.Int64, ownergraph.String)}
	for name, spec := range specs() {
		spec := ofOwners(spec, 1+len(name)%3)
		for source, tb := range tables {
			if spec.Validate() != nil { // of schemes that owners cannot follow
				continue
			}
			t.Run(name+" "+source, func(t *testing.T) {
				want := sequentialOwners(t, spec, tb)
				if got := readOwners(t, form(t, spec, tb, how{blocks: 1 + len(name)%3})); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("formed %v, want %v", got, want)
				}
				if total := len(slices.Concat(want...)); total == 0 {
					t.Error("nobody takes part")
				}
			})
		}
	}
}

// TestHowDoesNotMatterToOwners: runner, buckets, order and cut of the input, shards, blocks. Truncation
// keeps owners whole.
func TestHowDoesNotMatterToOwners(t *testing.T) {
	tb := ownedTable(3, 300, ownergraph.String, ownergraph.String)
	spec := ofOwners(sampling.Spec{BMinSep: &sampling.BMinSep{Prob: 0.2, Steps: 40, MinSep: 3, WarmStart: true},
		Truncation: &sampling.Truncation{MaxBatchSize: 10, Pad: true}}, 2)
	base := form(t, spec, tb, plain)
	want := readOwners(t, base)
	if fmt.Sprint(want) != fmt.Sprint(sequentialOwners(t, spec, tb)) {
		t.Error("the batches are not those of the reference")
	}
	full, short := 0, 0
	for _, batch := range want {
		if batch[9][0] == sampling.PadRow {
			short++
		} else {
			full++
		}
	}
	if full == 0 || short == 0 {
		t.Errorf("%d full and %d short batches: both must be there", full, short)
	}
	for name, h := range map[string]how{
		"prism, shuffled": {runner: "prism", shuffle: 9, buckets: 5, names: true},
		"blocks":          {blocks: 5, names: true},
		"prism, blocks":   {runner: "prism", blocks: 3, shards: 40},
		"40 shards":       {shards: 40, buckets: 64},
		"small chunks":    {chunk: 1, names: true},
	} {
		got := form(t, spec, tb, h)
		if fmt.Sprint(readOwners(t, got)) != fmt.Sprint(want) {
			t.Errorf("%s changes the batches", name)
		}
		if h.shards == 0 && !gocmp.Equal(got.Index.Files, base.Index.Files) {
			t.Errorf("%s changes the files", name)
		}
	}
}

// TestTablesThatOwnersCannotFollow: an example of two owners, or of none, and an example with a
// copy.
func TestTablesThatOwnersCannotFollow(t *testing.T) {
	spec := ofOwners(specs()["poisson"], 2)
	for name, change := range map[string]func(r *ownergraph.Rows){
		"2 owners and 1 copies": func(r *ownergraph.Rows) { r.Owners.AppendInt(7); r.Ends[r.Len()-1]++ },
		"0 owners and 1 copies": func(r *ownergraph.Rows) {
			r.Reset(0, ownergraph.String, ownergraph.Int64)
			r.Examples.AppendBytes([]byte("alone"))
			r.Copies, r.Ends = append(r.Copies, 1), append(r.Ends, 0)
		},
		"1 owners and 2 copies": func(r *ownergraph.Rows) { r.Copies[3] = 2 },
	} {
		tb := ownedTable(5, 20, ownergraph.String, ownergraph.Int64)
		change(tb.rows)
		refuses(t, name, spec, tb, plain, name)
	}
	refuses(t, "numbered examples", spec, table{n: 10}, plain, "needs a table")
}

// TestOwnersShareNoWords: no word that decides who takes part, what an owner brings or what is cut
// decides anything else, also not in batches of examples with the same owners.
func TestOwnersShareNoWords(t *testing.T) {
	spec := ofOwners(specs()["truncated"], 2)
	plain := spec
	plain.Owners = nil
	seen := map[uint64]string{}
	note := func(what string, src *stream.Source, addr stream.Address) {
		words := src.Stream(addr)
		for i := range 64 {
			word, name := words.Uint64(), fmt.Sprint(what, " word ", i)
			if old, ok := seen[word]; ok {
				t.Fatalf("%s and %s are the same", old, name)
			}
			seen[word] = name
		}
	}
	for purpose, of := range map[string]sampling.Spec{"participations of owners": spec, "examples of owners": spec, "truncation": spec, "participations": plain} {
		src := stream.NewSource(keyOf(t, of, purpose))
		for row := range int64(20) {
			for step := range uint32(20) { // or the copy of an example
				note(fmt.Sprint(purpose, " of row ", row, " at ", step), src, src.IntAddress(row, step))
			}
		}
	}
}
