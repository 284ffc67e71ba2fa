package sampling_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"testing"

	"minsep/internal/must"
	"minsep/internal/stattest"
	"minsep/internal/stream"
	"minsep/sampling"
)

// subsets are all subsets of 0 … n-1 of a size, as masks.
func subsets(n, size int) (all []int) {
	for mask := range 1 << n {
		if bits.OnesCount(uint(mask)) == size {
			all = append(all, mask)
		}
	}
	return all
}

// TestOwnersBringUniformSubsets tests the joint distribution of what an owner brings to two steps,
// and of what two owners bring to one, against two independent uniform subsets. Distributions of
// samplers with one fault are rejected.
func TestOwnersBringUniformSubsets(t *testing.T) {
	const owners = 60000
	for _, c := range []struct{ owned, brought int }{{2, 1}, {4, 2}, {5, 1}, {5, 4}, {5, 3}} {
		name := fmt.Sprint(c)
		all := subsets(c.owned, c.brought)
		src := stream.NewSource(key("subsets" + name))
		draw := func(owner, step int) int {
			mask := 0
			got := sampling.OwnerSampling{ExamplesPerOwner: c.brought}.Draw(nil, wordsAt(src, step)(int64(owner)), c.owned)
			for _, i := range got {
				mask |= 1 << i
			}
			if len(got) != c.brought || bits.OnesCount(uint(mask)) != c.brought || !slices.IsSorted(got) {
				t.Fatalf("%s: owner %d brings %v", name, owner, got)
			}
			return slices.Index(all, mask)
		}
		k := len(all)
		steps, pairs := make([]int, k*k), make([]int, k*k)
		for owner := range owners {
			steps[k*draw(owner, 3)+draw(owner, 4)]++
			pairs[k*draw(2*owner, 9)+draw(2*owner+1, 9)]++
		}
		distribution := func(weight func(a, b int) float64) []float64 {
			p, total := make([]float64, k*k), 0.0
			for i := range p {
				p[i] = weight(all[i/k], all[i%k])
				total += p[i]
			}
			for i := range p {
				p[i] /= total
			}
			return p
		}
		for what, seen := range map[string][]int{"two steps": steps, "two owners": pairs} {
			if err := stattest.Distribution(seen, distribution(func(_, _ int) float64 { return 1 })); err != nil {
				t.Errorf("%s, %s: %v", name, what, err)
			}
			for twin, weight := range map[string]func(a, b int) float64{
				"the same examples again": func(a, b int) float64 {
					if a == b {
						return 1
					}
					return 1e-9
				},
				"other examples first":         func(a, b int) float64 { return 1 + 0.3*float64(bits.OnesCount(uint(b&^a))) },
				"the first example more often": func(a, _ int) float64 { return 1 + 0.3*float64(a&1) },
			} {
				if stattest.Distribution(seen, distribution(weight)) == nil {
					t.Errorf("%s, %s: a distribution with %s is not rejected", name, what, twin)
				}
			}
		}
	}
}

// TestOwnersBringAll: an owner that has no more than it may bring brings all, and no word is drawn
// for that.
func TestOwnersBringAll(t *testing.T) {
	for owned := range 5 {
		got := sampling.OwnerSampling{ExamplesPerOwner: 4}.Draw(nil, nil, owned)
		if !slices.Equal(got, []int{0, 1, 2, 3}[:owned]) {
			t.Errorf("an owner of %d examples brings %v", owned, got)
		}
	}
}

func ofOwners(spec sampling.Spec, examples int) sampling.Spec {
	spec.Owners = &sampling.OwnerSampling{ExamplesPerOwner: examples}
	return spec
}

func TestParamsOfOwners(t *testing.T) {
	population := sampling.Population{Examples: 10000, Neighborhoods: sampling.Neighborhoods{1: 10000}, Owners: sampling.OwnerSizes{1: 600, 20: 300, 34: 100}}
	for name, p := range kindParams {
		p.Scheme, p.Sample, p.ExamplesPerOwner = name, sampling.SampleOwners, 3
		p.SecretPartition = name == "cyclic-poisson"
		spec, err := p.Spec(population)
		if name == "multi-owner" || name == "fixed" || name == "rotation" {
			must.Fail(t, name, "sample owners: is not for "+name)(err)
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		// The scheme is that of as many examples as there are owners.
		q := p
		q.Sample, q.ExamplesPerOwner = "", 0
		want := must.Get(q.Spec(sampling.Population{Examples: 1000, Neighborhoods: sampling.Neighborhoods{1: 1000}}))(t)
		if got := spec.ExpectedBatchSize(population); got != want.ExpectedBatchSize(sampling.Population{Examples: 1000}) {
			t.Errorf("%s: expected batch size %v", name, got)
		}
		if got, want := spec.ExpectedExamples(population), spec.ExpectedBatchSize(population)*(600+3*400)/1000; !near(got, want) || spec.DrawnPerStep(population) != got {
			t.Errorf("%s: %v examples expected, want %v", name, got, want)
		}
		want.Owners = spec.Owners
		if jsonOf(t, spec) != jsonOf(t, want) || spec.Owners.ExamplesPerOwner != 3 {
			t.Errorf("%s: got %s, want %s", name, jsonOf(t, spec), jsonOf(t, want))
		}
	}
	for change, want := range map[string]string{
		`{"sample": "owners"}`:                                                                                  "examples per owner 0: must be from 1 to",
		`{"sample": "owners", "examples_per_owner": -1}`:                                                        "examples per owner -1: must be from 1 to",
		`{"sample": "users", "examples_per_owner": 1}`:                                                          `sample "users": must be examples or owners`,
		`{"examples_per_owner": 2}`:                                                                             "examples per owner 2: needs sample owners",
		`{"sample": "examples", "examples_per_owner": 2}`:                                                       "examples per owner 2: needs sample owners",
		`{"scheme": "cyclic-poisson", "sample": "owners", "examples_per_owner": 2}`:                             "needs secret-partition",
		`{"sample": "owners", "examples_per_owner": 2, "batch_size": 300}`:                                      "must be at most 250, the largest feasible: owners / min-sep = 1000 / 4",
		`{"scheme": "poisson", "min_sep": 0, "sample": "owners", "examples_per_owner": 2, "batch_size": 1e-14}`: "makes an owner take part with probability",
	} {
		p := sampling.Params{Scheme: "b-min-sep", Steps: 40, MinSep: 4, BatchSize: 10}
		must.Do(t, json.Unmarshal([]byte(change), &p))
		must.Fail(t, change, want)(p.Spec(population))
	}
	var fault *sampling.InfeasibleError
	_, err := sampling.Params{Scheme: "b-min-sep", Steps: 40, MinSep: 4, BatchSize: 300, Sample: "owners", ExamplesPerOwner: 2}.Spec(population)
	if !errors.As(err, &fault) || fault.Largest != 250 {
		t.Errorf("got %v, want what is feasible", err)
	}
	for name, spec := range map[string]sampling.Spec{
		"no examples":      ofOwners(sampling.Spec{Poisson: &sampling.Poisson{Prob: 0.1, Steps: 4}}, 0),
		"fixed":            ofOwners(sampling.Spec{Fixed: &sampling.Fixed{BatchSize: 2, Steps: 4, MinSep: 2}}, 1),
		"multi-owner":      ofOwners(sampling.Spec{MultiOwner: &sampling.MultiOwner{Prob: 0.1, Steps: 4, MinSep: 2}}, 1),
		"public partition": ofOwners(sampling.Spec{CyclicPoisson: &sampling.CyclicPoisson{Prob: 0.1, Steps: 4, MinSep: 2}}, 1),
	} {
		if spec.Validate() == nil {
			t.Errorf("%s is valid", name)
		}
	}
}

// ownedRows are rows of owners: row r is of owner r mod 1000, which so has 4 or 3 of them.
func ownedRows(n int) sampling.Audited {
	of := sampling.Audited{Examples: int64(n), Owners: new(sampling.Owners)}
	for row := range n {
		of.Owners.Of = append(of.Owners.Of, int32(row%1000))
		of.Owners.Ends = append(of.Owners.Ends, row+1)
	}
	return of
}

// formedOwners forms batches of the owners of ownedRows.
func formedOwners(t *testing.T, spec sampling.Spec, n int) [][][]int64 {
	t.Helper()
	src := stream.NewSource(key("audited owners"))
	process, subsets := spec.Process(), stream.NewSource(key("audited examples"))
	batches := make([][][]int64, spec.Scheme().NumSteps())
	firsts := make([][]int64, len(batches))
	for u := range int64(1000) {
		for _, step := range process.Draw(nil, wordsAt(src, 0)(u), u) {
			var group []int64
			for _, i := range spec.Owners.Draw(nil, wordsAt(subsets, int(step))(u), (n-int(u)+999)/1000) {
				group = append(group, u+1000*int64(i))
			}
			batches[step], firsts[step] = append(batches[step], group), append(firsts[step], u)
		}
	}
	for step, batch := range batches {
		cut := spec.Truncation
		if cut != nil {
			stay := sampling.Cut(*cut, slices.Clone(firsts[step]), wordsAt(stream.NewSource(key("audited cut")), step))
			batch = slices.DeleteFunc(batch, func(g []int64) bool { return !slices.Contains(stay, g[0]%1000) })
		}
		slices.SortFunc(batch, func(x, y []int64) int { return int(x[0] - y[0]) })
		if cut != nil && cut.Pad {
			for len(batch) < cut.MaxBatchSize {
				batch = append(batch, nil)
			}
			for i := range batch {
				for len(batch[i]) < spec.Owners.ExamplesPerOwner {
					batch[i] = append(batch[i], sampling.PadRow)
				}
			}
		}
		batches[step] = batch
	}
	return batches
}

func auditOwners(spec sampling.Spec, of sampling.Audited, batches [][][]int64) (broken []string) {
	a := sampling.NewAudit(spec, of)
	for _, batch := range batches {
		var rows []int64
		var ends []int
		for _, group := range batch {
			rows = append(rows, group...)
			ends = append(ends, len(rows))
		}
		a.StepOwners(rows, ends)
	}
	for _, p := range a.Checks() {
		if !p.Held {
			broken = append(broken, p.Name)
		}
	}
	return broken
}

func TestAuditPassesSoundBatchesOfOwners(t *testing.T) {
	cut := &sampling.Truncation{MaxBatchSize: 20}
	padded := &sampling.Truncation{MaxBatchSize: 20, Pad: true}
	for _, truncation := range []*sampling.Truncation{nil, cut, padded} {
		for i, spec := range []sampling.Spec{
			{BMinSep: &sampling.BMinSep{Prob: 0.02, Steps: 205, MinSep: 8, WarmStart: true}},
			{Poisson: &sampling.Poisson{Prob: 0.02, Steps: 200}},
			{BallsInBins: &sampling.BallsInBins{Steps: 205, Period: 50}},
			{EpochMinSep: &sampling.EpochMinSep{Steps: 205, MinSep: 8, EpochSteps: 50}},
			{CyclicPoisson: &sampling.CyclicPoisson{Prob: 0.1, Steps: 200, MinSep: 7, SecretPartition: true}},
		} {
			spec = ofOwners(spec, 1+i%4)
			spec.Truncation = truncation
			if broken := auditOwners(spec, ownedRows(3500), formedOwners(t, spec, 3500)); broken != nil {
				t.Errorf("%s, cut %v: sound batches fail %v", spec.Scheme().Name(), truncation, broken)
			}
		}
	}
}

// TestAuditFindsEachFaultOfOwners harms batch 3, in which some owner has 4 examples and brings 2.
func TestAuditFindsEachFaultOfOwners(t *testing.T) {
	const rows = 3500
	plain := ofOwners(sampling.Spec{EpochMinSep: &sampling.EpochMinSep{Steps: 90, MinSep: 8, EpochSteps: 30}}, 2)
	whole := ofOwners(plain, 3)
	pad := plain
	pad.Truncation = &sampling.Truncation{MaxBatchSize: 60, Pad: true}
	ascending := func(batch [][]int64) {
		slices.SortFunc(batch, func(x, y []int64) int { return int(x[0] - y[0]) })
	}
	for i, c := range []struct {
		spec sampling.Spec
		want string
		harm func(b [][][]int64) [][][]int64
	}{
		{plain, "steps", func(b [][][]int64) [][][]int64 { return b[1:] }},
		{plain, "rows", func(b [][][]int64) [][][]int64 { b[3][0][1] = rows; return b }},
		{plain, "rows", func(b [][][]int64) [][][]int64 { b[3][0] = []int64{sampling.PadRow, b[3][0][0]}; return b }},
		{plain, "order", func(b [][][]int64) [][][]int64 { slices.Reverse(b[3]); return b }},
		{plain, "order", func(b [][][]int64) [][][]int64 { slices.Reverse(b[3][0]); return b }},
		{plain, "order", func(b [][][]int64) [][][]int64 { b[3][0][1] = b[3][0][0]; return b }}, // one example twice
		{plain, "owners' examples", func(b [][][]int64) [][][]int64 { b[3][0][1] = b[3][0][0] + 1; return b }},
		{plain, "examples per owner", func(b [][][]int64) [][][]int64 { b[3][0] = b[3][0][:1]; return b }},
		{plain, "examples per owner", func(b [][][]int64) [][][]int64 {
			u := b[3][0][0] % 1000
			b[3][0] = []int64{u, u + 1000, u + 2000}
			return b
		}},
		{whole, "examples per owner", func(b [][][]int64) [][][]int64 { b[3][0] = b[3][0][1:]; return b }},
		{plain, "owners of a batch", func(b [][][]int64) [][][]int64 { // an owner in two groups
			u := b[3][0][0] % 1000
			b[3] = append([][]int64{{u, u + 1000}, {u + 1000, u + 2000}}, b[3][1:]...)
			ascending(b[3])
			return b
		}},
		{plain, "separation of owners", func(b [][][]int64) [][][]int64 { // with other examples of its own
			u := b[3][0][0] % 1000
			b[4] = append(b[4], []int64{u + 1000, u + 2000})
			ascending(b[4])
			return b
		}},
		{plain, "epochs", func(b [][][]int64) [][][]int64 { b[3] = b[3][1:]; return b }},
		{plain, "participations", func(b [][][]int64) [][][]int64 {
			for t := range b {
				b[t] = b[t][:len(b[t])/2]
			}
			return b
		}},
		{plain, "batch sizes", func(b [][][]int64) [][][]int64 { b[3][0] = append(b[3][0], sampling.PadRow); return b }},
		{pad, "batch sizes", func(b [][][]int64) [][][]int64 { b[3] = b[3][:59]; return b }},
		{pad, "batch sizes", func(b [][][]int64) [][][]int64 { b[3] = append(b[3], []int64{-1, -1}); return b }},
		{pad, "batch sizes", func(b [][][]int64) [][][]int64 { b[3][59] = b[3][59][:1]; return b }},
		{pad, "order", func(b [][][]int64) [][][]int64 { b[3] = append([][]int64{{-1, -1}}, b[3][:59]...); return b }},
	} {
		batches := formedOwners(t, c.spec, rows)
		if auditOwners(c.spec, ownedRows(rows), batches) != nil {
			t.Fatalf("fault %d: the batches were not sound", i)
		}
		if broken := auditOwners(c.spec, ownedRows(rows), c.harm(batches)); !slices.Contains(broken, c.want) {
			t.Errorf("fault %d: a fault of %q was not found: %v", i, c.want, broken)
		}
	}
}

func jsonOf(t *testing.T, spec sampling.Spec) string {
	b := must.Get(json.Marshal(spec))(t)
	return string(b)
}
