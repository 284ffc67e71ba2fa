package planner

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/internal/must"
	"minsep/mechanism"
)

// TestSchedules: with a schedule of learning rates there are Toeplitz strategies too, made without
// it and measured with it, and the dense one whatever the objective.
func TestSchedules(t *testing.T) {
	r := small()
	r.Schemes, r.Kinds = []string{"poisson", "cyclic-poisson", "fixed"}, []string{"identity", "banded-toeplitz", "dense"}
	r.Workload, r.Objective = mechanism.Params{Training: mechanism.Training{Momentum: .9, Schedule: mechanism.CooldownSchedule, Memory: mechanism.NoForgetting}}, MaxSE
	out := planned(t, r)
	problem := must.Get(mechanism.Params{Steps: r.Steps, Training: r.Workload.Training}.Problem(nil))(t)
	kinds := map[string]int{}
	for _, row := range out.Rows {
		if row.Refused != "" {
			t.Errorf("%s: refused: %s", row.Name(), row.Refused)
			continue
		}
		kinds[row.Scheme.Scheme+" "+row.Strategy.Kind]++
		s := must.Get(row.Strategy.Make(t.Context(), nil))(t)
		e := must.Get(s.Error(problem.Workload))(t)
		if want := row.Noise.Multiplier * e.MaxSE / row.BatchSize; math.Abs(row.Relative/want-1) > 1e-9 {
			t.Errorf("%s: %g, want %g", row.Name(), row.Relative, want)
		}
	}
	for _, want := range []string{"cyclic-poisson banded-toeplitz", "fixed banded-toeplitz", "fixed dense"} {
		if kinds[want] == 0 {
			t.Errorf("no %s", want)
		}
	}
	if !slices.ContainsFunc(out.Note, func(text string) bool { return strings.Contains(text, "constant learning rates") }) || slices.ContainsFunc(smallPlan(t).Note, func(text string) bool { return strings.Contains(text, "constant learning rates") }) {
		t.Errorf("%q", out.Note)
	}
}

// TestPowers: the best power beside a root has as many bands, and at most its error.
func TestPowers(t *testing.T) {
	r := small()
	r.Schemes, r.Kinds = []string{"fixed"}, []string{"bsr", "bfr", "bisr", "bifr"}
	least := map[string]*Row{}
	for _, row := range planned(t, r).Rows {
		if least[row.Strategy.Kind] == nil {
			least[row.Strategy.Kind] = row
		}
	}
	for power, root := range map[string]string{"bfr": "bsr", "bifr": "bisr"} {
		a, b := least[power], least[root]
		if a == nil || b == nil || a.Refused != "" || a.Strategy.Bands != b.Strategy.Bands || a.Relative > b.Relative*(1+1e-9) {
			t.Errorf("%s: %+v; %s: %+v", power, a, root, b)
		}
	}
}

// TestLimits: what a trainer cannot hold is not planned, and what batches are cut to costs noise.
func TestLimits(t *testing.T) {
	r := small()
	r.Schemes = []string{"cyclic-poisson"}
	r.MaxBands = 3
	for _, row := range planned(t, r).Rows {
		if row.Bands > 3 {
			t.Errorf("%d bands", row.Bands)
		}
	}
	r.Schemes, r.Kinds = []string{"fixed"}, []string{"banded-toeplitz", "bsr", "bfr", "bisr", "bifr", "band-inv", "dense"}
	kinds := map[string]bool{}
	for _, row := range planned(t, r).Rows {
		kinds[row.Strategy.Kind] = true
		if row.Strategy.Bands > 3 || row.Strategy.Kind == "dense" { // which has n bands
			t.Errorf("%s of %d bands", row.Strategy.Kind, row.Strategy.Bands)
		}
	}
	if len(kinds) != len(r.Kinds)-1 {
		t.Errorf("kinds %v of %v", kinds, r.Kinds)
	}
	r = small()
	r.Schemes = []string{"poisson"}
	free := planned(t, r).Rows[0]
	for r.MaxBatchSize = 64; ; r.MaxBatchSize++ {
		out, err := r.Plan(t.Context())
		if errors.Is(err, ErrNone) { // takes more than half of δ
			continue
		}
		must.Do(t, err)
		cut := out.Rows[0]
		want := must.Get(calibration.Claim{Run: cut.run.Untruncated(), Epsilon: r.Epsilon, Delta: r.Delta * (1 - cut.Truncation)}.Proven(1, calibration.Narrow))(t)
		if cut.Truncation < .05 || math.Abs(cut.Noise.Multiplier/want.Multiplier-1) > 1e-3 || cut.Noise.Multiplier < 1.002*free.Noise.Multiplier || cut.Scheme.MaxBatchSize != r.MaxBatchSize {
			t.Errorf("free %+v, cut %+v, want %+v", free, cut, want)
		}
		break
	}
	r.MaxBatchSize = 41
	out, err := r.Plan(t.Context())
	if !errors.Is(err, ErrNone) || out.Rows[0].Refused == "" {
		t.Fatalf("a maximum at the mean: %v", err)
	}
	// Why it cannot be used, and the maximum that is named as the way out can be.
	if why := strings.Join(out.Why, "\n"); !strings.Contains(why, "poisson, identity: max batch size 41: adds") {
		t.Error(why)
	}
	must.Get(fmt.Sscanf(out.TooSmall[strings.Index(out.TooSmall, "; from "):], "; from %d on it costs", &r.MaxBatchSize))(t)
	if row := planned(t, r).Rows[0]; row.Refused != "" || row.Truncation > accounting.SuggestedShare {
		t.Errorf("with a maximum of %d: %+v", r.MaxBatchSize, row)
	}
}

func TestPerOwner(t *testing.T) {
	for most, want := range map[int][]int{1: {1}, 11: {1, 2, 3, 4, 8, 11}} {
		if list := PerOwner(most); !slices.Equal(list, want) {
			t.Errorf("per owner %v", list)
		}
	}
}

func TestBatchSizes(t *testing.T) {
	if list := BatchSizes(64, 256); !slices.Equal(list, []float64{64, 91, 128, 181, 256}) {
		t.Errorf("%v", list)
	}
	if list := BatchSizes(64, 65); !slices.Equal(list, []float64{64, 65}) {
		t.Errorf("%v", list)
	}
}

// TestTooLarge: batch sizes that no population has are named.
func TestTooLarge(t *testing.T) {
	r := Request{Populations: []Population{{Examples: 100}, {Examples: 180}}, BatchSizes: []float64{64, 128, 181, 256}}
	if text := r.tooLarge(); !slices.Equal(text, []string{"Batch sizes from 181 on were not tried: there are only 180 examples."}) {
		t.Error(text)
	}
	if r.BatchSizes = []float64{64, 128}; r.tooLarge() != nil {
		t.Error(r.tooLarge())
	}
}

func TestValidate(t *testing.T) {
	r := Request{Populations: []Population{{}}, Steps: -1, Epsilon: -1, Delta: 2, Objective: "sum", MaxBands: -1, Coordinates: -2, Schemes: []string{"none"}, Kinds: []string{"tree"}}
	err := r.Validate()
	var all interface{ Unwrap() []error }
	if !errors.As(err, &all) || len(all.Unwrap()) < 10 {
		t.Errorf("%v", err)
	}
}

// TestScheduleFile: strategies are made for the learning rates of a file, where their kind can be: a
// banded Toeplitz one has the least error on them of its bands.
func TestScheduleFile(t *testing.T) {
	const n = 32
	rates := make([]float64, n)
	for i := range rates {
		rates[i] = 1 / (1 + float64(i%3))
	}
	r := small()
	r.Schemes, r.Kinds = []string{"cyclic-poisson", "epoch-min-sep", "fixed"}, []string{"banded-toeplitz", "banded", "band-inv", "blt"}
	r.Workload.Schedule, r.Workload.Memory = "mine.json", 2
	r.SetRates(rates)
	workload := must.Get(r.measured(mechanism.KindIdentity).Problem(rates))(t).Workload
	out := planned(t, r)
	own := []string{"banded-toeplitz", "banded"} // kinds that are made for it
	seen := map[string]bool{}
	for _, row := range out.Rows {
		if row.Refused != "" {
			t.Errorf("%s: %s", row.Name(), row.Refused)
			continue
		}
		seen[row.Strategy.Kind] = true
		if own := slices.Contains(own, row.Strategy.Kind); own != (row.Strategy.Schedule == "mine.json") {
			t.Errorf("%s is made for the schedule %q", row.Name(), row.Strategy.Schedule)
		}
		s := must.Get(row.Strategy.Make(t.Context(), rates))(t)
		e := must.Get(s.Error(workload))(t)
		if want := row.Noise.Multiplier * e.RMSE / row.BatchSize; math.Abs(row.Relative/want-1) > 1e-9 {
			t.Errorf("%s: %g, want %g", row.Name(), row.Relative, want)
		}
		if row.Strategy.Kind != "banded-toeplitz" || row.Bands == 1 {
			continue
		}
		constant := must.Get(row.Strategy.ForToeplitz().Make(t.Context(), nil))(t)
		other := must.Get(constant.Error(workload))(t)
		if !(e.RMSE/s.ColumnNorms()[0] < .9999*other.RMSE/constant.ColumnNorms()[0]) {
			t.Errorf("%s: an error of %g, and %g of the one for a constant rate", row.Name(), e.RMSE, other.RMSE)
		}
	}
	if !seen["banded-toeplitz"] {
		t.Error("no banded-toeplitz")
	}
	if notes := strings.Join(out.Note, "\n"); !strings.Contains(notes, "band-inv and blt are made for constant") {
		t.Errorf("%q", notes)
	}
	if out.ShorterMemory != 1 || !strings.Contains(out.Training, "mine.json") {
		t.Errorf("a memory of %v, %q", out.ShorterMemory, out.Training)
	}
}
