package sampling_test

import (
	"slices"
	"testing"

	"minsep/internal/must"
	"minsep/internal/stream"
	"minsep/sampling"
)

// formed draws the batches of an independent scheme for examples of one or two copies each.
func formed(t *testing.T, s sampling.Independent, copies []uint32) [][]int64 {
	t.Helper()
	root := must.Get(stream.ParseRoot([]byte("the key of the tests of an audit")))(t)
	src := stream.NewSource(root.Key(stream.RunID{1}, [32]byte{}, "audit"))
	process := s.Process()
	batches := make([][]int64, s.NumSteps())
	for row, c := range copies {
		for j := range c {
			for _, step := range process.Draw(nil, wordsAt(src, int(j))(int64(row)), int64(row)) {
				batches[step] = append(batches[step], int64(row))
			}
		}
	}
	return batches
}

func audit(spec sampling.Spec, of sampling.Audited, batches [][]int64) (broken []string) {
	a := sampling.NewAudit(spec, of)
	for _, rows := range batches {
		a.Step(rows)
	}
	for _, p := range a.Checks() {
		if !p.Held {
			broken = append(broken, p.Name)
		}
	}
	return broken
}

func ones(n int) []uint32 { return slices.Repeat([]uint32{1}, n) }

func TestAuditPassesSoundBatches(t *testing.T) {
	copies := ones(2000)
	for i := range copies {
		copies[i] += uint32(i % 2)
	}
	for _, spec := range []sampling.Spec{
		{BMinSep: &sampling.BMinSep{Prob: 0.1, Steps: 200, MinSep: 8, WarmStart: true}},
		{BMinSep: &sampling.BMinSep{Prob: 0.1, Steps: 200, MinSep: 8}},
		{Poisson: &sampling.Poisson{Prob: 0.02, Steps: 200}},
		{BallsInBins: &sampling.BallsInBins{Steps: 205, Period: 20}},
		{EpochMinSep: &sampling.EpochMinSep{Steps: 205, MinSep: 8, EpochSteps: 30}},
		{EpochMinSep: &sampling.EpochMinSep{Steps: 205, MinSep: 1, EpochSteps: 300}},
		{CyclicPoisson: &sampling.CyclicPoisson{Prob: 0.3, Steps: 200, MinSep: 7, SecretPartition: true}},
	} {
		s := spec.Scheme().(sampling.Independent)
		batches := formed(t, s, copies)
		if broken := audit(spec, sampling.Audited{Examples: 2000, Copies: copies}, batches); broken != nil {
			t.Errorf("%s: sound batches fail %v", s.Name(), broken)
		}
	}
}

// TestAuditOfLaws: the steps of a law have rates of their own, and nobody takes part on the first day.
func TestAuditOfLaws(t *testing.T) {
	const examples = 2000
	table := must.Get(weekly(0.2).Tabulate(30))(t)
	spec, of := sampling.Spec{Law: table}, sampling.Audited{Examples: examples}
	batches := formed(t, table, ones(examples))
	if broken := audit(spec, of, batches); broken != nil {
		t.Errorf("sound batches fail %v", broken)
	}
	first := batches[0]
	batches[0] = []int64{batches[29][0]}
	if broken := audit(spec, of, batches); !slices.Contains(broken, "spread over steps") {
		t.Errorf("a participation on the first day: broken %v", broken)
	}
	batches[0], batches[1], batches[20] = first, batches[20], batches[1]
	if broken := audit(spec, of, batches); !slices.Contains(broken, "spread over steps") {
		t.Errorf("batches of other steps: broken %v", broken)
	}
}

func TestAuditFindsEachFault(t *testing.T) {
	const examples = 2000
	spec := sampling.Spec{BMinSep: &sampling.BMinSep{Prob: 0.05, Steps: 100, MinSep: 8, WarmStart: true}}
	for _, c := range []struct {
		want string
		harm func(batches [][]int64) [][]int64
	}{
		{"steps", func(b [][]int64) [][]int64 { return b[1:] }},
		{"rows", func(b [][]int64) [][]int64 { b[3] = append(b[3], examples); return b }},
		{"order", func(b [][]int64) [][]int64 { slices.Reverse(b[3]); return b }},
		{"copies", func(b [][]int64) [][]int64 { b[3] = append(b[3], b[3][len(b[3])-1]); return b }},
		{"batch sizes", func(b [][]int64) [][]int64 { b[3] = append(b[3], sampling.PadRow); return b }},
		{"separation of examples", func(b [][]int64) [][]int64 {
			b[4] = append(slices.Clone(b[3][:1]), b[4]...)
			slices.Sort(b[4])
			return b
		}},
		{"spread over steps", func(b [][]int64) [][]int64 {
			b[9] = nil
			return b
		}},
		{"participations", func(b [][]int64) [][]int64 {
			for t := range b {
				b[t] = b[t][:len(b[t])*3/4]
			}
			return b
		}},
	} {
		batches := c.harm(formed(t, spec.BMinSep, ones(examples)))
		broken := audit(spec, sampling.Audited{Examples: examples}, batches)
		if !slices.Contains(broken, c.want) {
			t.Errorf("a fault of %q was not found: %v", c.want, broken)
		}
	}
}

func TestAuditOfOwners(t *testing.T) {
	owners := &sampling.Owners{Ends: []int{1, 3, 4}, Of: []int32{0, 0, 1, 1}} // example 1 has both owners
	of := sampling.Audited{Examples: 3, Owners: owners, Neighborhoods: sampling.Neighborhoods{2: 2, 3: 1}}
	multi := sampling.Spec{MultiOwner: &sampling.MultiOwner{Prob: 0.1, Steps: 4, MinSep: 3}}
	fixed := sampling.Spec{Fixed: &sampling.Fixed{BatchSize: 1, Steps: 4, MinSep: 3, MaxParticipations: 1}}
	for _, c := range []struct {
		spec    sampling.Spec
		batches [][]int64
		want    string // "" for none
	}{
		{multi, [][]int64{{0, 1}, {}, {}, {2}}, ""}, // two examples of one owner may share a batch
		{multi, [][]int64{{0}, {}, {1}, {}}, "separation of owners"},
		{fixed, [][]int64{{0}, {2}, {0}, {2}}, "separation of owners"},
		{fixed, [][]int64{{0}, {2}, {1}, {2}}, "separation of owners"},
		{fixed, [][]int64{{0}, {2}, {}, {0}}, "batch sizes"},
		{fixed, [][]int64{{0}, {2}, {2}, {0}}, "participations"},
	} {
		broken := audit(c.spec, of, c.batches)
		if c.want == "" && broken != nil || c.want != "" && !slices.Contains(broken, c.want) {
			t.Errorf("%v: broken %v, want %q", c.batches, broken, c.want)
		}
	}
}

func TestAuditOfTruncation(t *testing.T) {
	spec := sampling.Spec{Poisson: &sampling.Poisson{Prob: 0.5, Steps: 3}, Truncation: &sampling.Truncation{MaxBatchSize: 2, Pad: true}}
	of := sampling.Audited{Examples: 4}
	if broken := audit(spec, of, [][]int64{{0, 1}, {3, -1}, {-1, -1}}); broken != nil {
		t.Errorf("sound batches fail %v", broken)
	}
	for _, bad := range [][][]int64{{{0, 1, 2}, {3, -1}, {-1, -1}}, {{0}, {3, -1}, {-1, -1}}, {{-1, 0}, {3, -1}, {-1, -1}}} {
		if broken := audit(spec, of, bad); len(broken) == 0 {
			t.Errorf("%v passes", bad)
		}
	}
}

// An audit takes memory for the examples that take part, not for those that somebody claims.
func TestAuditOfClaimedExamples(t *testing.T) {
	a := sampling.NewAudit(sampling.Spec{Poisson: &sampling.Poisson{Prob: 1e-15, Steps: 2}}, sampling.Audited{Examples: 1 << 53})
	a.Step([]int64{0, 5, 1 << 52})
	a.Step([]int64{5, 1<<53 - 1, 1 << 53})
	checks := a.Checks()
	for _, p := range checks {
		if p.Held != (p.Name != "rows") {
			t.Errorf("%+v", p)
		}
	}
	if got := a.Realized(); got.MostParticipations != 2 || got.Participations != 6 {
		t.Errorf("%+v", got)
	}
}
